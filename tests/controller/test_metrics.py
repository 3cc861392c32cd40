"""The metrics as Prometheus gets them: over HTTP, parsed, and bounded in number."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Iterator
from typing import Any
from wsgiref.simple_server import WSGIServer

import pytest
import zmq
from prometheus_client.parser import text_string_to_metric_families
from wactl.controller.daemon import Daemon
from wactl.controller.metrics import serve_metrics
from wactl.controller.status import Category, Engine, Status

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scrape(port: int) -> Samples:
    """Every sample by name and labels; none may be there twice."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found
            found[key] = sample.value
    return found


def category(name: str, rule: bool, p: float | None = 0.5) -> Category:
    return Category(name, rule, 10, 0.25, p, 5.0 if p else None, 60.0, 100.0, None)


def engine(rank: int, categories: tuple[Category, ...]) -> Engine:
    return Engine(
        rank=rank,
        pid=1,
        vllm="0.32.0",
        alive=rank == 0,
        silent_seconds=0.1,
        order="scored",
        reason="version 3 in force",
        version=3,
        version_age_seconds=2.0,
        blocks=1000,
        block_tokens=16,
        cached_blocks=900,
        sample=1,
        requests=77,
        hit_ratio=0.25 if rank == 0 else None,
        evicted=5,
        pushed=3,
        accepted=3,
        rejected=1,
        refusal="",
        lost_messages=2,
        dropped_records=4,
        errors=0,
        exempt_groups=0,
        categories=categories,
    )


@pytest.fixture
def serve() -> Iterator[Callable[..., int]]:
    """Serves the metrics of engines and returns the port."""
    servers: list[WSGIServer] = []

    def start(*engines: Engine) -> int:
        status = Status("0.1.0", "enforce", 1, "rules.yaml", "/tmp/x", engines)
        servers.append(serve_metrics("127.0.0.1", 0, lambda: status))
        return servers[-1].server_port

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_what_the_status_says_is_what_is_scraped(serve: Callable[..., int]) -> None:
    """Numbers arrive under their names, counters as totals, and unknown ones not at all."""
    rules = (category("opening", True), category("opening, new", False), category("b", True, None))
    found = scrape(serve(engine(0, rules), engine(1, ())))
    zero, one = frozenset({("engine", "0")}), frozenset({("engine", "1")})
    assert found["wactl_mode", frozenset({("mode", "enforce")})] == 1.0
    assert found["wactl_engine_up", zero] == 1.0
    assert found["wactl_engine_up", one] == 0.0
    assert found["wactl_requests_total", zero] == 77.0
    assert found["wactl_lost_messages_total", one] == 2.0
    assert found["wactl_hit_ratio", zero] == 0.25
    assert ("wactl_hit_ratio", one) not in found
    probabilities = {
        dict(labels)["category"]: value
        for (name, labels), value in found.items()
        if name == "wactl_category_reuse_probability"
    }
    assert probabilities == {"opening": 0.5}


def test_there_are_as_many_series_as_rules_however_finely_they_are_divided(
    serve: Callable[..., int],
) -> None:
    """Parts of rules make no series, and no label holds anything that a client chose."""
    parts = tuple(category(f"rule, part {i}", False) for i in range(400))
    few = scrape(serve(engine(0, (category("rule", True),))))
    many = scrape(serve(engine(0, (category("rule", True), *parts))))
    assert few == many
    two = scrape(serve(engine(0, (category("rule", True), category("other", True), *parts))))
    assert len(two) - len(many) == len([n for n, _ in many if n.startswith("wactl_category_")])
    labels = {label for _, found in two for label, _ in found}
    assert labels == {"mode", "engine", "category"}


def test_odd_category_names_survive(serve: Callable[..., int]) -> None:
    """Quotes, backslashes and other alphabets in an operator's name arrive as they are."""
    name = 'say "hi" \\ ünïcode 分'
    found = scrape(serve(engine(0, (category(name, True),))))
    labels = frozenset({("engine", "0"), ("category", name)})
    assert found["wactl_category_reuse_probability", labels] == 0.5


def test_the_sidecar_serves_them(
    engine: Callable[..., Any], daemon: Callable[..., Daemon], eventually: Callable[..., Any]
) -> None:
    """A running sidecar's metrics tell of the engine, fresh within a second or two."""
    with zmq.Context(1) as context, context.socket(zmq.STREAM) as probe:
        port = probe.bind_to_random_port("tcp://127.0.0.1")
    one = engine()
    daemon(metrics_port=port, mode="enforce")
    up = "wactl_engine_up", frozenset({("engine", "0")})
    version = "wactl_parameters_version", frozenset({("engine", "0")})
    eventually(lambda: scrape(port).get(up) == 1.0, one.traffic)
    eventually(lambda: scrape(port).get(version, 0.0) > 0.0, one.traffic)
