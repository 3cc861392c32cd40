"""Prometheus metrics, read from the latest status at each scrape; docs/metrics.md explains each.

Bounded by construction: labels are the engine's rank, the mode, names of orders and reasons, those
of the busiest categories, chosen by the operator, and short digests of the busiest tenants.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from .contest import ENGINE
from .settings import Mode
from .status import Category, Contestant, Engine, Missed, Status
from .top import Top

CATEGORIES = 20
"""Categories of an engine with series of their own."""

TENANTS = 10
"""Tenants of an engine with series of their own."""

ENGINE_GAUGES: dict[str, tuple[str, Callable[[Engine], float | None]]] = {
    "wactl_engine_up": ("1 while the engine's heartbeat is heard", lambda e: e.alive),
    "wactl_engine_silent_seconds": ("Since it was last heard", lambda e: e.silent_seconds),
    "wactl_engine_scored": (
        "1 while it evicts by wactl's parameters, 0 for plain LRU",
        lambda e: e.order == "scored",
    ),
    "wactl_parameters_version": ("Parameters in force, 0 for none", lambda e: e.version),
    "wactl_parameters_age_seconds": (
        "Since that version came into force",
        lambda e: e.version_age_seconds,
    ),
    "wactl_block_tokens": ("Tokens in a block", lambda e: e.block_tokens),
    "wactl_cache_blocks": ("Size of the cache", lambda e: e.blocks),
    "wactl_cached_blocks": ("Free blocks that can still be hit", lambda e: e.cached_blocks),
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
CATEGORY_COUNTERS = {
    "wactl_prompt_blocks": "Full blocks of finished prompts",
    "wactl_hit_blocks": "Those of them found in the cache",
}
MISSED = {
    "wactl_missed_blocks": "Blocks of finished prompts that were not in the cache, by why",
    "wactl_tenant_missed_blocks": "The same by tenant",
}
REASONS: dict[str, Callable[[Missed], int]] = {
    "cold": lambda m: m.cold,
    "evicted": lambda m: m.evicted,
    "unready": lambda m: m.unready,
    "last": lambda m: m.last,
}
SHADOW_COUNTERS: dict[str, tuple[str, Callable[[Contestant], float]]] = {
    "wactl_shadow_hit_blocks": ("Hits of an order's shadow cache", lambda c: c.hit_blocks),
    "wactl_shadow_evicted_blocks": ("Its evictions", lambda c: c.evicted),
    "wactl_shadow_regretted_blocks": (
        "Those of them asked for within ten minutes",
        lambda c: c.regretted,
    ),
}
CATEGORY_GAUGES: dict[str, tuple[str, Callable[[Category], float | None]]] = {
    "wactl_category_reuse_probability": ("Probability of any reuse", lambda c: c.p),
    "wactl_category_mean_reuse_seconds": ("Mean time to reuse", lambda c: c.mean_reuse_seconds),
    "wactl_category_lifespan_seconds": ("Age that counts as dead", lambda c: c.lifespan_seconds),
    "wactl_category_evidence_requests": ("Requests behind the fit", lambda c: c.evidence),
    "wactl_category_cached_share": ("Share of the cached blocks", lambda c: c.cached_share),
}


class StatusCollector(Collector):
    """Turns the latest status into metrics."""

    def __init__(self, status: Callable[[], Status]) -> None:
        self._status = status
        self._tops: dict[int, Top] = {}
        self._tenants: dict[int, Top] = {}
        self._lock = threading.Lock()

    def collect(self) -> Iterator[Metric]:
        """All metrics of now."""
        status = self._status()
        yield InfoMetricFamily("wactl", "The sidecar", {"version": status.wactl})
        mode = GaugeMetricFamily("wactl_mode", "1 for the mode wactl is in", labels=["mode"])
        for one in Mode:
            mode.add_metric([one.value], one.value == status.mode)
        yield mode
        unheard = "Engines that are expected but were never heard"
        yield GaugeMetricFamily("wactl_engines_unheard", unheard, len(status.silent))
        for name, (text, value) in ENGINE_GAUGES.items():
            yield _fill(GaugeMetricFamily(name, text, labels=["engine"]), status, value)
        for name, (text, value) in ENGINE_COUNTERS.items():
            yield _fill(CounterMetricFamily(name, text, labels=["engine"]), status, value)
        yield from self._categories(status)
        yield from _shadows(status)

    def _categories(self, status: Status) -> Iterator[Metric]:
        labels = ["engine", "category"]
        counters = [CounterMetricFamily(*one, labels=labels) for one in CATEGORY_COUNTERS.items()]
        gauges = {
            of: GaugeMetricFamily(name, text, labels=labels)
            for name, (text, of) in CATEGORY_GAUGES.items()
        }
        with self._lock:  # two may scrape at once
            shown = {e.rank: self._top(e.rank).update(_blocks(e)) for e in status.engines}
            tenants = {
                e.rank: self._tenants.setdefault(e.rank, Top(TENANTS)).update(_tenants(e))
                for e in status.engines
            }
        first, second = (
            CounterMetricFamily(*one, labels=["engine", of, "reason"])
            for one, of in zip(MISSED.items(), ("category", "tenant"), strict=True)
        )
        for engine in status.engines:
            rank = str(engine.rank)
            for name, counts in shown[engine.rank].items():
                for counter, count in zip(counters, counts, strict=False):
                    counter.add_metric([rank, name], count)
                _missed(first, [rank, name], counts)
            for name, counts in tenants[engine.rank].items():
                _missed(second, [rank, name], counts)
            for category in engine.categories:
                if not category.rule or category.name not in shown[engine.rank]:
                    continue
                for of, gauge in gauges.items():
                    if (number := of(category)) is not None:
                        gauge.add_metric([rank, category.name], number)
        yield from (*counters, first, second)
        yield from gauges.values()

    def _top(self, rank: int) -> Top:
        return self._tops.setdefault(rank, Top(CATEGORIES))


def _blocks(engine: Engine) -> dict[str, tuple[int, ...]]:
    """Blocks of an engine's rules: of prompts, hit, and missed by reason.

    Those in flight are of none until they finish.
    """
    return {
        c.name: (c.prompt_blocks, c.hit_blocks, *_reasons(c.missed or Missed()))
        for c in engine.categories
        if c.rule
    }


def _tenants(engine: Engine) -> dict[str, tuple[int, ...]]:
    """Requests of an engine's tenants, and their blocks missed by reason."""
    return {t.name: (t.requests, *_reasons(t.missed)) for t in engine.tenants}


def _reasons(missed: Missed) -> tuple[int, ...]:
    return tuple(of(missed) for of in REASONS.values())


def _missed(family: CounterMetricFamily, labels: list[str], counts: tuple[int, ...]) -> None:
    """The last of the counts, which are those by reason."""
    for reason, count in zip(REASONS, counts[-len(REASONS) :], strict=True):
        family.add_metric([*labels, reason], count)


def _shadows(status: Status) -> Iterator[Metric]:
    for name, (text, value) in SHADOW_COUNTERS.items():
        family = CounterMetricFamily(name, text, labels=["engine", "order"])
        for engine in status.engines:
            for one in engine.gate.contestants:
                if one.name != ENGINE or name == "wactl_shadow_hit_blocks":
                    family.add_metric([str(engine.rank), one.name], value(one))
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
