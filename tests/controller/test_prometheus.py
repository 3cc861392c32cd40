"""A real Prometheus scrapes a live sidecar, as config/prometheus has it do."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from wactl.controller.daemon import Daemon
from wactl.controller.status import Request, ask

CONFIG = Path(__file__).parent.parent.parent / "config"
VARIABLES = {"$__rate_interval": "10s", "$instance": ".+"}
"""What Grafana puts in their place."""

Query = Callable[[str], list[dict[str, Any]]]


def dashboard() -> list[str]:
    """Every query of the dashboard, variables filled in."""
    panels = json.loads((CONFIG / "grafana" / "dashboard.json").read_text())["panels"]
    found = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    for name, value in VARIABLES.items():
        found = [expression.replace(name, value) for expression in found]
    assert not [expression for expression in found if "$" in expression]
    return found


def alerts() -> dict[str, str]:
    """Every alert's expression."""
    groups = yaml.safe_load((CONFIG / "prometheus" / "alerts.yaml").read_text())["groups"]
    return {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}


class Prometheus:
    """The server, with the example's configuration but for the target and shorter intervals."""

    def __init__(self, program: str, folder: Path, port: int, target: int) -> None:
        settings = yaml.safe_load((CONFIG / "prometheus" / "prometheus.yaml").read_text())
        settings["global"] = dict.fromkeys(settings["global"], "1s")
        settings["rule_files"] = [str(CONFIG / "prometheus" / n) for n in settings["rule_files"]]
        settings["scrape_configs"][0]["static_configs"] = [{"targets": [f"127.0.0.1:{target}"]}]
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(settings))
        self.url = f"http://127.0.0.1:{port}"
        self._log = (folder / "prometheus.log").open("wb")
        self.process = subprocess.Popen(
            [
                program,
                f"--config.file={folder / 'prometheus.yaml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stderr=self._log,
        )

    def get(self, path: str, **parameters: str) -> Any:
        """The data of an answer of its API; an error is told in its words."""
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            with error:
                pytest.fail(f"{parameters}: {error.read().decode()}")

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series that an expression has now, those that are no numbers left out."""
        result: list[dict[str, Any]] = self.get("query", query=expression)["result"]
        return [series for series in result if series["value"][1] != "NaN"]

    def ready(self) -> bool:
        """Whether it answers yet."""
        assert self.process.poll() is None, Path(self._log.name).read_text()
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def close(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait(timeout=20)
        self._log.close()


@pytest.fixture
def prometheus(
    program: Callable[[str], str], tmp_path: Path, eventually: Callable[..., Any]
) -> Iterator[Callable[[int, int], Prometheus]]:
    """Starts the server on one port, to scrape another."""
    path = program("prometheus")
    running: list[Prometheus] = []

    def start(port: int, target: int) -> Prometheus:
        running.append(Prometheus(path, tmp_path, port, target))
        eventually(running[-1].ready, limit=60.0)
        return running[-1]

    yield start
    for one in running:
        one.close()


def test_it_answers_what_dashboard_and_alerts_ask(
    prometheus: Callable[[int, int], Prometheus],
    engine: Callable[..., Any],
    daemon: Callable[..., Daemon],
    two_ports: Callable[[], int],
    eventually: Callable[..., Any],
) -> None:
    """Each query of the dashboard has data and no alert has, until sidecar and engine are gone."""
    port, one = two_ports(), engine()
    one.cached = (1,) * 80
    sidecar = daemon(metrics_port=port, mode="enforce")
    server = prometheus(port + 1, port)
    eventually(lambda: server.query("wactl_engine_scored == 1"), one.traffic, limit=60.0)
    for expression in dashboard():
        eventually(lambda e=expression: server.query(e), one.traffic, limit=60.0)
    # The tests' engine hits nothing, so it is below LRU indeed; no other alert has a reason.
    firing = {name for name, expression in alerts().items() if server.query(expression)}
    assert firing == {"WactlBelowLru"}

    def states() -> dict[str, tuple[str, str]]:
        (group,) = server.get("rules")["groups"]
        return {rule["name"]: (rule["health"], rule["state"]) for rule in group["rules"]}

    calm = dict.fromkeys(alerts(), ("ok", "inactive")) | {"WactlBelowLru": ("ok", "pending")}
    eventually(lambda: states() == calm, one.traffic)
    one.close()
    eventually(lambda: states()["WactlEngineSilent"] == ("ok", "pending"))
    assert states()["WactlSidecarDown"] == ("ok", "inactive")
    sidecar.stopping = True
    eventually(lambda: states()["WactlSidecarDown"] == ("ok", "pending"))


def test_counts_are_those_of_the_traffic(
    tmp_path: Path,
    run_dir: Path,
    prometheus: Callable[[int, int], Prometheus],
    engine: Callable[..., Any],
    daemon: Callable[..., Daemon],
    two_ports: Callable[[], int],
    eventually: Callable[..., Any],
) -> None:
    """Blocks that are asked for are what the counter grew by, in the category they belong to."""
    port, one = two_ports(), engine()
    rules = tmp_path / "rules.yaml"
    rules.write_text('rules: [{category: long, when: {length: ">= 1000"}}]')
    daemon(metrics_port=port, rules=rules)
    server = prometheus(port + 1, port)
    prompt = 'sum by (category) (wactl_prompt_blocks_total{engine="0"})'
    eventually(lambda: server.query(prompt), lambda: one.request("first", [0]), limit=60.0)

    def blocks() -> dict[str, float]:
        found = server.query(prompt)
        return {series["metric"]["category"]: float(series["value"][1]) for series in found}

    def told() -> bool:
        (known,) = ask(run_dir, Request()).engines
        counted = sum(blocks().values()) == known.prompt_blocks > 0
        return counted and known.requests == one.recorder.admitted

    eventually(told)
    before = blocks()
    for number in range(10):
        one.request(f"long {number}", [(number, block) for block in range(100)])
    eventually(lambda: sum(blocks().values()) >= sum(before.values()) + 1000)
    grown = {name: count - before[name] for name, count in blocks().items()}
    assert grown == {"long": 1000.0, "other": 0.0}
    eventually(told)
    assert server.query("wactl_hit_blocks_total > 0") == []
