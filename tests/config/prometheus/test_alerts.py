"""The alerts: valid, each seen to fire and not to fire, and about metrics that there are."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from wactl.controller import metrics

ROOT = Path(__file__).parent.parent.parent.parent
FILES = ROOT / "config" / "prometheus"
CASES = Path(__file__).parent / "alerts.yaml"


def alerts() -> dict[str, dict[str, Any]]:
    """The rules by name."""
    groups = yaml.safe_load((FILES / "alerts.yaml").read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def served() -> set[str]:
    """What Prometheus calls the sidecar's own metrics."""
    gauges = {"wactl_info", "wactl_mode", "wactl_engines_unheard"}
    gauges |= {*metrics.ENGINE_GAUGES, *metrics.CATEGORY_GAUGES}
    counters = {*metrics.ENGINE_COUNTERS, *metrics.CATEGORY_COUNTERS}
    counters |= {*metrics.MISSED, *metrics.SHADOW_COUNTERS}
    return gauges | {f"{name}_total" for name in counters}


def test_prometheus_accepts_them(tool: Callable[..., Any]) -> None:
    """The example configuration is valid, and with it the rules it names."""
    done = tool("promtool", "check", "config", FILES / "prometheus.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(alerts())} rules found" in done.stdout


def test_they_fire_when_they_should(tool: Callable[..., Any]) -> None:
    """promtool evaluates them over made-up series."""
    done = tool("promtool", "test", "rules", CASES)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_is_tried_both_ways() -> None:
    """The cases above have each alert fire somewhere and not fire somewhere."""
    cases = [
        case
        for test in yaml.safe_load(CASES.read_text())["tests"]
        for case in test["alert_rule_test"]
    ]
    fires = {case["alertname"] for case in cases if case["exp_alerts"]}
    rests = {case["alertname"] for case in cases if not case["exp_alerts"]}
    assert fires == rests == set(alerts())


def test_the_page_has_them_all() -> None:
    """docs/metrics.md names each, and no other."""
    named = re.findall(
        r"^\| `(Wactl\w+)` \|", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE
    )
    assert sorted(named) == sorted(alerts())


def test_they_look_at_metrics_there_are() -> None:
    """A misspelt metric has no data, and its alert would keep quiet for ever."""
    for name, rule in alerts().items():
        used = set(re.findall(r"\bwactl_\w+", rule["expr"]))
        assert used or "up{" in rule["expr"], name
        assert used - served() == set(), name


def test_they_know_the_job() -> None:
    """The name that alerts look for is the one that the example gives."""
    (job,) = yaml.safe_load((FILES / "prometheus.yaml").read_text())["scrape_configs"]
    assert f'job="{job["job_name"]}"' in alerts()["WactlSidecarDown"]["expr"]
