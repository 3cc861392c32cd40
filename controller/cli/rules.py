"""``wactl rules``: category rules, checked before they are trusted, and explained."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ..status import Category, Explanation

app = typer.Typer(help="Check and explain category rules.", no_args_is_help=True)

File = Annotated[Path | None, typer.Argument(help="Rule file; the shipped one if left out.")]


@app.callback()
def rules() -> None:
    """Check and explain category rules."""


@app.command()
def check(file: File = None) -> None:
    """Read a rule file and name every mistake by its line."""
    from ..rules import load_rules
    from ..settings import CONFIG

    found = load_rules(file or CONFIG / "rules.yaml")
    for rule in found:
        print(f"{rule.name}: {'divided by the model' if rule.refine else 'one category'}")
    print(f"{len(found)} rule{'s' if len(found) > 1 else ''}, no mistakes")


@app.command()
def explain(
    file: Annotated[
        Path | None,
        typer.Argument(help="Rule file; the sidecar's if left out, without one the shipped one."),
    ] = None,
    request: Annotated[
        str, typer.Option(help="What is known of it, say 'turn=2, gap=10, type=chat'.")
    ] = "",
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Tell which rule a request falls under and, of a running sidecar, what is believed of it."""
    import msgspec

    from ...policies.rundir import default_run_dir
    from ..explain import parse_request, rule_for
    from ..rules import load_rules
    from ..settings import CONFIG
    from ..status import NoSidecar, Request, consult

    path = CONFIG / "rules.yaml"
    features = parse_request(request)
    believed: tuple[Explanation, ...] = ()
    missing = ""
    try:
        answer = consult(default_run_dir(), Request(explain=features))
        believed = answer.explanations
        path = Path(answer.status.rules) if answer.status else path
    except NoSidecar as reason:
        missing = str(reason)
    path = file or path
    rule = rule_for(load_rules(path), features)
    if json:
        found = {"rule": rule.name, "line": rule.line, "engines": believed}
        print(msgspec.json.format(msgspec.json.encode(found)).decode())
        return
    where = f"line {rule.line}" if rule.line else "which every file ends with"
    print(f"rule {rule.name!r} of {path}, {where}")
    if missing:
        print(f"what is believed of it only a sidecar can tell: {missing}")
    for engine in believed:
        print(f"engine {engine.rank}: the sidecar's rule {engine.rule!r}")
        print(f"  new blocks: {_law(engine.new)}")
        print(f"  carried blocks: {_law(engine.carried)}")


def _law(category: Category) -> str:
    if category.p is None:
        return f"category {category.name!r}, nothing learned yet"
    mean = category.mean_reuse_seconds
    after = "" if mean is None else f" after {mean:.1f} s on average"
    return (
        f"category {category.name!r}, {100 * category.p:.1f} % reused{after}, "
        f"lifespan {category.lifespan_seconds:.0f} s, learned from {category.evidence:.0f} requests"
    )
