"""The ``wactl`` command: puts the commands of controller and simulations together."""

from __future__ import annotations

import sys

import typer

from . import __version__
from .controller.cli import capture, doctor, keys, mode, rules, run, status
from .policies.errors import WactlError
from .simulations.cli import bench, demo, generate, regress, replay

app = typer.Typer(
    name="wactl",
    help="Workload-aware control of the KV-cache evictor of a running vLLM server.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Left at its default of None, typer loads pydantic to turn --help into a bool: a third of the
    # time that the quick commands take.
    context_settings={"default_map": {"help": False, "status": {"help": False}}},
)
app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": False},
)(run.run)
app.command()(status.status)
app.command()(mode.mode)
app.add_typer(rules.app, name="rules")
app.command()(doctor.doctor)
app.command()(capture.capture)
app.command()(keys.keys)
app.command()(demo.demo)
app.command()(replay.replay)
app.command()(generate.generate)
app.add_typer(regress.app, name="regress")
app.add_typer(bench.app, name="bench")


@app.command()
def version() -> None:
    """Print the version."""
    print(__version__)


def main() -> None:
    """Entry point: errors that are meant for the operator are shown as one sentence."""
    try:
        app()
    except WactlError as error:
        print(f"wactl: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
