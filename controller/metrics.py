"""Prometheus metrics, read from the latest status at each scrape.

Bounded by construction: one series an engine, and one a rule and engine for the categories.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from ..policies.errors import WactlError
from .status import Category, Engine, Status

ENGINE_GAUGES: dict[str, tuple[str, Callable[[Engine], float | None]]] = {
    "wactl_engine_up": ("1 while the engine's heartbeat is heard", lambda e: float(e.alive)),
    "wactl_parameters_version": ("Parameters in force, 0 for plain LRU", lambda e: e.version),
    "wactl_cached_blocks": ("Free blocks that can still be hit", lambda e: e.cached_blocks),
    "wactl_hit_ratio": ("Prompt blocks found in the cache", lambda e: e.hit_ratio),
}
ENGINE_COUNTERS: dict[str, tuple[str, Callable[[Engine], float | None]]] = {
    "wactl_requests": ("Requests admitted", lambda e: e.requests),
    "wactl_evicted_blocks": ("Blocks handed out for new contents", lambda e: e.evicted),
    "wactl_parameters_pushed": ("Parameter sets pushed", lambda e: e.pushed),
    "wactl_parameters_rejected": ("Pushes the engine refused", lambda e: e.rejected),
    "wactl_lost_messages": ("Messages missing in the stream", lambda e: e.lost_messages),
    "wactl_dropped_records": ("Records the engine dropped", lambda e: e.dropped_records),
    "wactl_engine_errors": ("Internal errors of the plugin", lambda e: e.errors),
}
CATEGORY_GAUGES: dict[str, tuple[str, Callable[[Category], float | None]]] = {
    "wactl_category_hit_ratio": ("Prompt blocks found in the cache", lambda c: c.hit_ratio),
    "wactl_category_reuse_probability": ("Probability of any reuse", lambda c: c.p),
    "wactl_category_mean_reuse_seconds": ("Mean time to reuse", lambda c: c.mean_reuse_seconds),
    "wactl_category_lifespan_seconds": ("Age that counts as dead", lambda c: c.lifespan_seconds),
    "wactl_category_cached_share": ("Share of the cached blocks", lambda c: c.cached_share),
}


class MetricsError(WactlError):
    """The metrics cannot be served; the text says where and why."""


class StatusCollector(Collector):
    """Turns the latest status into metrics."""

    def __init__(self, status: Callable[[], Status]) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        """All metrics of now."""
        status = self._status()
        mode = GaugeMetricFamily("wactl_mode", "1 for the mode wactl is in", labels=["mode"])
        mode.add_metric([status.mode], 1.0)
        yield mode
        for name, (text, value) in ENGINE_GAUGES.items():
            yield _fill(GaugeMetricFamily(name, text, labels=["engine"]), status, value)
        for name, (text, value) in ENGINE_COUNTERS.items():
            yield _fill(CounterMetricFamily(name, text, labels=["engine"]), status, value)
        for name, (text, of) in CATEGORY_GAUGES.items():
            family = GaugeMetricFamily(name, text, labels=["engine", "category"])
            for engine in status.engines:
                for category in engine.categories:
                    number = of(category) if category.rule else None
                    if number is not None:
                        family.add_metric([str(engine.rank), category.name], number)
            yield family


def _fill(
    family: GaugeMetricFamily | CounterMetricFamily,
    status: Status,
    value: Callable[[Engine], float | None],
) -> Metric:
    for engine in status.engines:
        number = value(engine)
        if number is not None:
            family.add_metric([str(engine.rank)], number)
    return family


def serve_metrics(host: str, port: int, status: Callable[[], Status]) -> WSGIServer:
    """Serve ``/metrics`` from a thread; `shutdown` of the returned server ends it.

    Raises `MetricsError` when the address cannot be had.
    """
    registry = CollectorRegistry()
    registry.register(StatusCollector(status))
    try:
        server, _ = start_http_server(port, host, registry)
    except OSError as error:
        raise MetricsError(
            f"cannot serve metrics on {host}:{port}: {error.strerror}; "
            "set metrics_host and metrics_port"
        ) from None
    return server
