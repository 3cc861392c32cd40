"""The sidecar's pages, asked of a running one."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from wactl.controller import pages
from wactl.controller.daemon import Daemon
from wactl.controller.history import EVERY, SAMPLES
from wactl.controller.status import Request, ask
from wactl.policies.ages import AGES, STEP


def get(port: int, path: str, **headers: str) -> tuple[int, str, str]:
    """Status, kind and text of a page."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


def test_the_pages_there_are(
    engine: Callable[..., Any],
    daemon: Callable[..., Daemon],
    two_ports: Callable[[], int],
    eventually: Callable[..., Any],
) -> None:
    """Metrics, the status and health; whoever asks for more is told so."""
    port, one = two_ports(), engine()
    daemon(metrics_port=port)
    assert eventually(lambda: "wactl_engine_up{" in get(port, "/metrics")[2], one.traffic)
    assert get(port, "/healthz") == (200, "text/plain; charset=utf-8", "ok\n")
    status, _, text = get(port, "/metric")
    there = "/, /healthz, /history, /metrics, /script.js, /status, /style.css"
    assert (status, text) == (404, f"there is no such page; there are {there}\n")


def test_the_history_is_served(
    engine: Callable[..., Any],
    daemon: Callable[..., Daemon],
    two_ports: Callable[[], int],
    eventually: Callable[..., Any],
) -> None:
    """Samples in order of time, of an engine that the status knows too."""
    port, one = two_ports(), engine()
    daemon(metrics_port=port)

    def past() -> Any:
        found = json.loads(get(port, "/history")[2])
        return found and len(found[0]["samples"]) > 2 and found

    (of_one,) = eventually(past, one.traffic)
    (known,) = json.loads(get(port, "/status")[2])["engines"]
    assert (of_one["rank"], of_one["pid"]) == (known["rank"], known["pid"])
    times = [sample["time"] for sample in of_one["samples"]]
    assert times == sorted(times)
    assert times[-1] <= json.loads(get(port, "/status")[2])["engines"][0]["time"]
    assert of_one["samples"][-1]["engine"] == 0.0


def test_the_page_may_load_nothing_from_elsewhere(
    daemon: Callable[..., Daemon], two_ports: Callable[[], int]
) -> None:
    """A policy says so, and no address in its files leads away from the sidecar."""
    port = two_ports()
    daemon(metrics_port=port)
    for path, (_, kind) in pages.FILES.items():
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            text = answer.read().decode()
            assert answer.headers["Content-Type"] == kind
            assert answer.headers["Content-Security-Policy"] == pages.POLICY
            assert answer.headers["Cache-Control"] == "no-store"
        assert "//" not in text.replace("http://www.w3.org/2000/svg", "").replace("// ", "")
    assert "default-src 'none'" in pages.POLICY
    assert "unsafe" not in pages.POLICY


def test_the_page_draws_on_the_grid_of_ages(
    daemon: Callable[..., Daemon], two_ports: Callable[[], int]
) -> None:
    """The script has the grid that reuse is counted on."""
    port = two_ports()
    daemon(metrics_port=port)
    script = get(port, "/script.js")[2]
    assert f"FIRST_AGE = {AGES[0]:g}, STEP = {STEP:g}, AGES = {len(AGES)};" in script
    assert f"const SAMPLE = {EVERY:g};" in script
    assert f"const SAMPLES = {SAMPLES};" in script


def test_the_status_is_that_of_the_command(
    run_dir: Path,
    engine: Callable[..., Any],
    daemon: Callable[..., Daemon],
    two_ports: Callable[[], int],
    eventually: Callable[..., Any],
) -> None:
    """The same document, once nothing changes any more but the time."""
    port, one = two_ports(), engine()
    daemon(metrics_port=port)
    eventually(lambda: len(json.loads(get(port, "/status")[2])["engines"]) == 1, one.traffic)

    def both() -> list[Any]:
        found = [json.loads(get(port, "/status")[2])]
        found.append(json.loads(pages.as_json(ask(run_dir, Request()))))
        for document in found:
            for one in document["engines"]:
                del one["silent_seconds"]
                del one["gate"]["since_seconds"]
                for change in one["changes"]:
                    del change["seconds_ago"]
        return found

    eventually(lambda: (pair := both()) and pair[0] == pair[1])
    assert get(port, "/status")[1] == "application/json"


def test_the_newer_format_is_spoken_too(
    daemon: Callable[..., Daemon], two_ports: Callable[[], int]
) -> None:
    """Prometheus asks for OpenMetrics and gets it; counters and info keep their rules in it."""
    port = two_ports()
    daemon(metrics_port=port)
    _, kind, text = get(port, "/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text")
    assert {family.name for family in text_string_to_metric_families(text)} > {
        "wactl",
        "wactl_mode",
    }


def test_a_loop_that_stands_still_is_not_well(
    daemon: Callable[..., Daemon],
    quick: Callable[..., Any],
    run_dir: Path,
    two_ports: Callable[[], int],
    monkeypatch: pytest.MonkeyPatch,
    eventually: Callable[..., Any],
) -> None:
    """Served while the loop hangs: 503 with a sentence, and ok again when it goes on."""
    monkeypatch.setattr(pages, "STUCK", 0.5)
    port = two_ports()
    one = daemon(metrics_port=port)
    assert get(port, "/healthz")[0] == 200
    halt, wait = [True], one._wait

    def hang() -> None:
        while halt and not one.stopping:
            time.sleep(0.01)
        wait()

    monkeypatch.setattr(one, "_wait", hang)
    status, _, text = eventually(lambda: (got := get(port, "/healthz"))[0] != 200 and got)
    assert status == 503
    assert text == "the sidecar's loop has not cycled for 1 s; restart the sidecar\n"
    halt.clear()
    eventually(lambda: get(port, "/healthz")[0] == 200)
