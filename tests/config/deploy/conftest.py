"""The deployment files as what they all describe: an engine and a sidecar that meet in a folder."""

from __future__ import annotations

import configparser
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent.parent.parent
DEPLOY = ROOT / "config" / "deploy"

Unit = dict[str, dict[str, list[str]]]


@dataclass(frozen=True)
class Part:
    """One of the two processes: the user it runs as, its environment and its command."""

    user: str
    environment: dict[str, str]
    command: tuple[str, ...]


@dataclass(frozen=True)
class Deployment:
    """What one file, or pair of units, sets up; ``settings`` is the sidecar's YAML."""

    engine: Part
    sidecar: Part
    settings: str
    published: frozenset[int]
    """Ports the sidecar is reached at."""


class Repeated(dict[str, Any]):
    """Keys of a unit file may come again: their values gather in a list."""

    def __setitem__(self, key: str, value: Any) -> None:
        if isinstance(value, list) and key in self:
            self[key].extend(value)
        else:
            super().__setitem__(key, value)


def read_unit(name: str) -> Unit:
    """Sections, keys and all values of a systemd unit."""
    parser = configparser.RawConfigParser(
        dict_type=Repeated, strict=False, interpolation=None, delimiters=("=",)
    )
    parser.optionxform = str  # keys keep their case
    parser.read_string((DEPLOY / "systemd" / name).read_text())
    return {
        section: {key: value.split("\n") for key, value in parser.items(section)}
        for section in parser.sections()
    }


def _unit_part(unit: Unit) -> Part:
    service = unit["Service"]
    pairs = (line.partition("=") for line in service["Environment"])
    environment = {name: value.replace("%t", "/run") for name, _, value in pairs}
    if "StateDirectory" in service:
        environment["STATE_DIRECTORY"] = f"/var/lib/{service['StateDirectory'][0]}"
    (user,), (command,) = service["User"], service["ExecStart"]
    return Part(user, environment, tuple(command.split()))


def _systemd() -> Deployment:
    engine, sidecar = (_unit_part(read_unit(f"{name}.service")) for name in ("vllm", "wactl"))
    settings = (ROOT / "config" / "wactl.yaml").read_text()  # what docs/deploy.md installs
    return Deployment(engine, sidecar, settings, frozenset({9464}))


def _compose() -> Deployment:
    services = read_yaml("compose.yaml")[0]["services"]
    command = _image_command("sidecar")

    def part(service: dict[str, Any], command: list[str]) -> Part:
        return Part(service["user"], service["environment"], tuple(command))

    sidecar = services["sidecar"]
    ports = {int(port.split(":")[-1]) for port in sidecar["ports"]}
    engine = part(services["engine"], ["vllm", "serve", *services["engine"]["command"]])
    settings = (DEPLOY / "wactl.yaml").read_text()
    return Deployment(engine, part(sidecar, command), settings, frozenset(ports))


def _image_command(target: str) -> list[str]:
    """ENTRYPOINT and CMD of one of the images."""
    stage = (DEPLOY / "Dockerfile").read_text().split(f" AS {target}\n")[1].split("\nFROM ")[0]
    lines = [line.partition(" ") for line in stage.splitlines()]
    words = [yaml.safe_load(rest) for name, _, rest in lines if name in ("ENTRYPOINT", "CMD")]
    return [word for part in words for word in part]


def _kubernetes() -> Deployment:
    config, deployment, _ = read_yaml("kubernetes.yaml")
    pod = deployment["spec"]["template"]["spec"]
    engine, sidecar = pod["containers"]
    context = pod["securityContext"]
    user = f"{context['runAsUser']}:{context['runAsGroup']}"

    def environment(container: dict[str, Any]) -> dict[str, str]:
        return {entry["name"]: entry["value"] for entry in container["env"]}

    (line,) = (line for line in sidecar["args"][0].splitlines() if "wactl run" in line)
    command = line.split("&")[0].split()
    return Deployment(
        Part(user, environment(engine), ("vllm", "serve", *engine["args"])),
        Part(user, environment(sidecar), tuple(command)),
        config["data"]["wactl.yaml"],
        frozenset(port["containerPort"] for port in sidecar["ports"]),
    )


def read_yaml(name: str) -> list[Any]:
    """All documents of a file of the folder."""
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


@pytest.fixture
def deploy() -> Path:
    """The folder of the deployment files."""
    return DEPLOY


@pytest.fixture
def documents() -> Callable[[str], list[Any]]:
    """Reads all documents of a YAML file of the folder."""
    return read_yaml


@pytest.fixture
def unit() -> Callable[[str], Unit]:
    """Reads a unit: its sections, keys and lists of values."""
    return read_unit


@pytest.fixture(params=[_systemd, _compose, _kubernetes], ids=["systemd", "compose", "kubernetes"])
def deployment(request: pytest.FixtureRequest) -> Deployment:
    """Each of the three ways in turn."""
    made: Deployment = request.param()
    return made
