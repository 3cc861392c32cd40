"""What every way to deploy promises: two processes that can meet, started as the code expects."""

from __future__ import annotations

import ast
import os
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml
from wactl import __version__
from wactl.__main__ import app
from wactl.controller.settings import Mode, load_settings
from wactl.policies.rundir import private_dir

ROOT = Path(__file__).parent.parent.parent.parent

OTHERS = {
    "HOME": "the user's home",
    "NUMBA_CACHE_DIR": "numba",
    "OPENBLAS_NUM_THREADS": "numpy",
    "STATE_DIRECTORY": "systemd's name for the folder that outlives a process",
}
"""Variables that are not wactl's own, and who reads them."""


def own_variables() -> set[str]:
    """Every string of the engine's and the sidecar's code that could name a variable of ours."""
    found = set()
    for folder in ("policies", "controller"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.add(node.value)
    return found


def test_both_sides_meet_in_one_folder_of_one_user(deployment: Any) -> None:
    """The folder lets one user in, so it takes the same number and the same path."""
    assert deployment.engine.user == deployment.sidecar.user
    places = {part.environment["WACTL_RUN_DIR"] for part in (deployment.engine, deployment.sidecar)}
    assert len(places) == 1
    assert places.pop().startswith("/run/wactl")


def test_only_the_engine_has_the_plugin_switched_on(deployment: Any) -> None:
    """WACTL=1 where vLLM runs; the sidecar has no use for it."""
    assert deployment.engine.environment["WACTL"] == "1"
    assert "WACTL" not in deployment.sidecar.environment


def test_every_variable_is_read_by_somebody(deployment: Any) -> None:
    """No name that the code does not know: it would be a promise nobody keeps."""
    names = {*deployment.engine.environment, *deployment.sidecar.environment}
    assert sorted(names - own_variables() - set(OTHERS)) == []


def test_the_sidecars_command_is_one(deployment: Any) -> None:
    """Its words are a command and options that wactl has, and it starts no engine of its own."""
    program, name, *arguments = deployment.sidecar.command
    assert Path(program).name == "wactl"
    commands: Any = typer.main.get_command(app)
    with commands.commands[name].make_context(name, arguments) as context:
        assert context.params == {"config": Path("/etc/wactl/wactl.yaml")}
        assert context.args == []


def test_the_settings_load_and_change_nothing_yet(deployment: Any, tmp_path: Path) -> None:
    """They have only keys that exist, start in shadow mode, and serve metrics where it is said."""
    path = tmp_path / "wactl.yaml"
    path.write_text(deployment.settings)
    (tmp_path / "rules.yaml").write_text((ROOT / "config" / "rules.yaml").read_text())
    settings = load_settings(path)
    assert settings.mode is Mode.SHADOW
    assert deployment.published == {settings.metrics_port}


def test_the_engine_serves_where_the_checks_look(deployment: Any) -> None:
    """vLLM's server, on its default port or the same one named."""
    program, serve, model, *options = deployment.engine.command
    assert (Path(program).name, serve) == ("vllm", "serve")
    assert not model.startswith("-")
    assert dict(zip(options[::2], options[1::2], strict=True)).get("--port", "8000") == "8000"


def test_containers_have_one_settings_file(documents: Any) -> None:
    """What Compose mounts and what Kubernetes holds are the same settings."""
    (compose,) = documents("wactl.yaml")
    assert yaml.safe_load(documents("kubernetes.yaml")[0]["data"]["wactl.yaml"]) == compose


def test_the_images_have_this_version(documents: Any, deploy: Path) -> None:
    """Compose, Kubernetes and the Dockerfile's own example name the release they are part of."""
    services = documents("compose.yaml")[0]["services"].values()
    pod = documents("kubernetes.yaml")[1]["spec"]["template"]["spec"]
    names = [part["image"] for part in (*services, *pod["containers"])]
    wanted = [f"wactl-engine:{__version__}", f"wactl-sidecar:{__version__}"]
    assert names == wanted * 2
    for name in wanted:
        assert f"-t {name} ." in (deploy / "Dockerfile").read_text()


def test_the_engine_image_is_the_supported_vllm(deploy: Path) -> None:
    """The tag is the version that the extra `vllm` pins."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (pin,) = (x for x in project["optional-dependencies"]["vllm"] if x.startswith("vllm=="))
    tag = pin.removeprefix("vllm==")
    assert f"FROM vllm/vllm-openai:v{tag} AS engine\n" in (deploy / "Dockerfile").read_text()


@pytest.mark.parametrize("mode", [0o2777, 0o777, 0o700])
def test_a_folder_in_a_volume_is_private(tmp_path: Path, mode: int) -> None:
    """However open a volume is, and with the group handed down: what is made in it is not."""
    volume = tmp_path / "volume"
    volume.mkdir()
    volume.chmod(mode)
    made = private_dir(volume / "sockets")
    assert stat.S_IMODE(made.stat().st_mode) & 0o777 == 0o700
    assert made.stat().st_uid == os.getuid()
