"""The manifests: valid, confined, and a Pod whose readiness is the engine's alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from wactl.controller.status import NoSidecar, Request, ask


@pytest.fixture
def pod(documents: Callable[[str], list[Any]]) -> dict[str, Any]:
    """The Pod that the Deployment makes."""
    found: dict[str, Any] = documents("kubernetes.yaml")[1]["spec"]["template"]["spec"]
    return found


def test_they_are_valid(deploy: Path, tool: Callable[..., Any]) -> None:
    """By the schemas of Kubernetes, with no field they do not know."""
    done = tool("kubernetes-validate", "--strict", deploy / "kubernetes.yaml")
    assert done.returncode == 0, done.stderr + done.stdout


def test_the_pod_is_restricted(pod: dict[str, Any]) -> None:
    """What the restricted Pod security standard asks for, and read-only images besides."""
    assert pod["automountServiceAccountToken"] is False
    context = pod["securityContext"]
    assert context["runAsNonRoot"] is True and context["runAsUser"] > 0
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"cpu", "memory"} <= set(container["resources"]["requests"])
        assert "memory" in container["resources"]["limits"]


def test_both_mount_the_sockets_and_nothing_else_together(pod: dict[str, Any]) -> None:
    """One volume in memory holds the folder they meet in; all others belong to one of the two."""
    engine, sidecar = (
        {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        for container in pod["containers"]
    )
    assert set(engine) & set(sidecar) == {"sockets"}
    assert engine["sockets"] == sidecar["sockets"] == "/run/wactl"
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert set(volumes) == set(engine) | set(sidecar)
    assert volumes["sockets"]["emptyDir"]["medium"] == "Memory"
    for container in pod["containers"]:
        environment = {entry["name"]: entry["value"] for entry in container["env"]}
        assert Path(environment["WACTL_RUN_DIR"]).parent == Path("/run/wactl")
    assert sidecar["state"] == environment["STATE_DIRECTORY"]
    assert environment["NUMBA_CACHE_DIR"].startswith(sidecar["sidecar-tmp"])


def test_the_pod_is_ready_when_the_engine_is(pod: dict[str, Any]) -> None:
    """Nothing of the sidecar decides it: it is no init container and has no readiness probe."""
    engine, sidecar = pod["containers"]
    assert "initContainers" not in pod
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert engine[probe]["httpGet"] == {"path": "/health", "port": "http"}
    assert {key for key in sidecar if key.endswith("Probe")} == {"livenessProbe"}


def test_the_service_reaches_the_engine(documents: Callable[[str], list[Any]]) -> None:
    """Its selector matches the Pod, and no variable of it can confuse vLLM."""
    _, deployment, service = documents("kubernetes.yaml")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    for selector in (service["spec"]["selector"], deployment["spec"]["selector"]["matchLabels"]):
        assert selector.items() <= labels.items()
    pod = deployment["spec"]["template"]["spec"]
    assert service["spec"]["ports"][0]["targetPort"] == pod["containers"][0]["ports"][0]["name"]
    assert pod["enableServiceLinks"] is False


class Container:
    """The sidecar's container on this machine: its script and its probe, run by the real sh."""

    def __init__(self, sidecar: dict[str, Any], folder: Path) -> None:
        self.config = folder / "wactl.yaml"
        self.run_dir = folder / "run"
        script = sidecar["args"][0].replace("/etc/wactl/wactl.yaml", str(self.config))
        assert script.count("sleep 10") == 1
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._environment = {**os.environ, "PATH": path, "WACTL_RUN_DIR": str(self.run_dir)}
        self._probe = sidecar["livenessProbe"]["exec"]["command"]
        self._log = (folder / "log").open("w+")
        self.process = subprocess.Popen(
            [*sidecar["command"], script.replace("sleep 10", "sleep 1")],
            env=self._environment,
            stderr=self._log,
            start_new_session=True,
        )

    def alive(self) -> bool:
        """What the liveness probe says."""
        return subprocess.run(self._probe, env=self._environment, check=False).returncode == 0

    def sidecar(self) -> int | None:
        """The process that answers now, if any does."""
        try:
            return ask(self.run_dir, Request()).pid
        except NoSidecar:
            return None

    def said(self) -> str:
        """What it has written so far."""
        self._log.seek(0)
        return self._log.read()

    def close(self) -> None:
        """End it with all its children."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._log.close()


@pytest.fixture
def container(pod: dict[str, Any], tmp_path: Path) -> Iterator[Container]:
    """A started container whose settings file is still missing."""
    one = Container(pod["containers"][1], tmp_path)
    yield one
    one.close()


def eventually(what: Callable[[], Any], limit: float = 20.0) -> Any:
    """The first true value of ``what``."""
    end = time.monotonic() + limit
    while not (found := what()):
        assert time.monotonic() < end, f"not within {limit} s"
        time.sleep(0.05)
    return found


def test_the_container_outlives_its_sidecar(container: Container) -> None:
    """With broken settings and after a kill it goes on and tries again; told to end, it ends."""
    eventually(lambda: container.said().count("cannot be read") >= 2)
    assert container.process.poll() is None
    assert container.alive()

    container.config.write_text("metrics_port: 0\n")
    first = eventually(container.sidecar)
    assert container.alive()

    container.config.write_text("mood: bad\n")
    os.kill(first, signal.SIGKILL)  # leaves its socket behind
    eventually(lambda: container.said().count("mood: Extra inputs") >= 2)
    assert container.process.poll() is None
    assert container.alive()

    container.config.write_text("metrics_port: 0\n")
    second = eventually(container.sidecar)

    start = time.monotonic()
    container.process.terminate()
    assert container.process.wait(timeout=10) == 0
    assert time.monotonic() - start < 5.0
    with pytest.raises(ProcessLookupError):
        os.kill(second, 0)


def test_the_probe_fails_only_for_a_sidecar_that_hangs(container: Container) -> None:
    """Stopped in its tracks it is there and does not answer; that, and no absence, is a failure."""
    container.config.write_text("metrics_port: 0\n")
    pid = eventually(container.sidecar)
    os.kill(pid, signal.SIGSTOP)
    assert not container.alive()
    os.kill(pid, signal.SIGCONT)
    assert container.alive()
