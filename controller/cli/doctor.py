"""``wactl doctor``: what the plugin would do with the vLLM installed here."""

from __future__ import annotations

import os
from typing import Annotated

import typer

Finding = tuple[bool, str, str]
"""Fine or not, what was looked at, what was found."""


def doctor(
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Check the installed vLLM, the plugin's entry point, and the private folder or the keys.

    Exits with 1 if the plugin would leave the engine alone.
    """
    findings = [_vllm(), _entry_point(), _allowed(), _place()]
    if json:
        import msgspec

        rows = [{"ok": ok, "check": check, "found": found} for ok, check, found in findings]
        print(msgspec.json.format(msgspec.json.encode(rows)).decode())
    else:
        for ok, check, found in findings:
            print(f"{'ok  ' if ok else 'FAIL'}  {check}: {found}")
        if all(ok for ok, _, _ in findings):
            print("With WACTL=1 the plugin would control the cache of an engine started here.")
        else:
            print("With WACTL=1 the plugin would leave an engine started here on plain LRU.")
    raise typer.Exit(0 if all(ok for ok, _, _ in findings) else 1)


def _vllm() -> Finding:
    import importlib

    from ...policies.vllm.compat import WRITTEN_FOR, differences

    try:
        version = importlib.import_module("vllm").__version__
    except ImportError as error:
        return False, "vLLM", f"cannot be imported: {error}; pip install 'wactl[vllm]'"
    found = differences()
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        return False, "vLLM", f"{version} differs from {WRITTEN_FOR}: {found[0]}{more}"
    return True, "vLLM", f"{version}, all signatures as in {WRITTEN_FOR}"


def _entry_point() -> Finding:
    from importlib.metadata import entry_points

    points = [p for p in entry_points(group="vllm.general_plugins") if p.name == "wactl"]
    if not points:
        return False, "entry point", "not installed; run: pip install wactl, next to vLLM"
    return True, "entry point", points[0].value


def _allowed() -> Finding:
    allowed = os.environ.get("VLLM_PLUGINS")
    if allowed is not None and "wactl" not in allowed.split(","):
        return False, "VLLM_PLUGINS", f"is {allowed!r} and lacks wactl; add it"
    return True, "VLLM_PLUGINS", "lets wactl in"


def _place() -> Finding:
    from ...policies.errors import WactlError
    from ...policies.keys import ENGINE, SIDECAR, load_keys
    from ...policies.network import LISTEN, network
    from ...policies.rundir import default_run_dir, private_dir

    url = os.environ.get(LISTEN)
    try:
        if url:
            return True, LISTEN, f"{network(url, load_keys(ENGINE, SIDECAR))}, keys in order"
        return True, "private folder", str(private_dir(default_run_dir()))
    except WactlError as error:
        return False, LISTEN if url else "private folder", str(error)
