"""``wactl rules``: category rules, checked before they are trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Check category rules.", no_args_is_help=True)


@app.callback()
def rules() -> None:
    """Check category rules."""


@app.command()
def check(
    file: Annotated[
        Path | None, typer.Argument(help="Rule file; the shipped one if left out.")
    ] = None,
) -> None:
    """Read a rule file and name every mistake by its line."""
    from ..rules import load_rules
    from ..settings import CONFIG

    table = load_rules(file or CONFIG / "rules.yaml")
    for rule in table.rules:
        print(f"{rule.name}: {rule.parts} {'category' if rule.parts == 1 else 'categories'}")
    print(f"{len(table.rules)} rules, {table.categories} categories, no mistakes")
