"""The Compose file: valid by the specification's schema, confined, and neither side waiting."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def services(documents: Callable[[str], list[Any]]) -> dict[str, Any]:
    """The two services, merge keys resolved."""
    found: dict[str, Any] = documents("compose.yaml")[0]["services"]
    return found


def test_it_is_valid(deploy: Path, tool: Callable[..., Any]) -> None:
    """By the JSON schema of the Compose specification."""
    schema = ("--builtin-schema", "vendor.compose-spec")
    done = tool("check-jsonschema", *schema, deploy / "compose.yaml")
    assert done.returncode == 0, done.stdout


def test_neither_waits_for_the_other(services: dict[str, Any]) -> None:
    """No order, and both are started again however they end."""
    for service in services.values():
        assert "depends_on" not in service
        assert service["restart"] == "unless-stopped"


def test_they_are_confined(services: dict[str, Any]) -> None:
    """No root, no capability, no new privilege, no writing outside volumes, a limit of memory."""
    for service in services.values():
        assert not service["user"].startswith(("0", "root"))
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert "cap_add" not in service and "privileged" not in service
        assert "memory" in service["deploy"]["resources"]["limits"]
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])


def test_the_sockets_volume_is_their_users(
    documents: Callable[[str], list[Any]], services: dict[str, Any]
) -> None:
    """Both mount it, in memory, at the folder they meet in, and it belongs to their user alone."""
    options = documents("compose.yaml")[0]["volumes"]["sockets"]["driver_opts"]
    mount = dict(pair.split("=") for pair in options["o"].split(","))
    assert (options["type"], mount["mode"]) == ("tmpfs", "0700")
    for service in services.values():
        assert f"{mount['uid']}:{mount['gid']}" == service["user"]
        assert "sockets:/run/wactl" in service["volumes"]
        assert Path(service["environment"]["WACTL_RUN_DIR"]).parent == Path("/run/wactl")


def test_the_sidecar_has_its_files(services: dict[str, Any], deploy: Path, documents: Any) -> None:
    """Settings at the path of its command, state in a volume; the build's context is the root."""
    sidecar = services["sidecar"]
    assert sidecar["configs"] == [{"source": "wactl", "target": "/etc/wactl/wactl.yaml"}]
    (config,) = documents("compose.yaml")[0]["configs"].values()
    assert (deploy / config["file"]).is_file()
    assert f"state:{sidecar['environment']['STATE_DIRECTORY']}" in sidecar["volumes"]
    for name, service in services.items():
        build = service["build"]
        assert (deploy / build["context"] / "pyproject.toml").is_file()
        assert (deploy / build["context"] / build["dockerfile"]).is_file()
        assert build["target"] == name
