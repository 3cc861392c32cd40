"""``wactl run``: the sidecar, and with it, if a command is given, the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def run(
    context: typer.Context,
    config: Annotated[Path | None, typer.Option(help="Settings file (YAML).")] = None,
) -> None:
    """Run the sidecar; with `-- COMMAND …` start that engine too, the plugin switched on.

    Example: wactl run -- python -m vllm.entrypoints.openai.api_server --model …
    """
    import logging
    import os
    import signal

    from ...policies.errors import WactlError
    from ...policies.network import LISTEN
    from ...policies.rundir import default_run_dir, private_dir
    from ..daemon import Daemon
    from ..engine import EngineProcess
    from ..settings import load_settings

    logging.basicConfig(level=logging.INFO, format="%(asctime)s wactl: %(message)s")
    settings = load_settings(config)
    address = os.environ.get(LISTEN)
    if context.args and address and address not in settings.engines:
        raise WactlError(
            f"{LISTEN}={address} lets the engine listen there and this sidecar listens elsewhere: "
            f"unset it, or put `engines: [{address}]` into the settings"
        )
    daemon = Daemon(settings, private_dir(default_run_dir()))
    engine: EngineProcess | None = None

    def stop(number: int, frame: Any) -> None:
        daemon.stopping = True
        if engine is not None:
            engine.stop()

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    if not context.args:
        daemon.run()
        return
    try:
        engine = EngineProcess(context.args, daemon.run_dir)
    except WactlError:
        daemon.close()
        raise
    if daemon.stopping:  # the signal came before there was an engine to pass it to
        engine.stop()
    engine.on_exit(lambda: setattr(daemon, "stopping", True))
    try:
        daemon.run()
    except Exception:
        # The engine is paying traffic: it goes on without us, as plain LRU.
        logging.exception("the sidecar failed; the engine goes on as plain LRU")
    raise typer.Exit(engine.wait())
