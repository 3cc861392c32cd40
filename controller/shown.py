"""The status as people read it in a terminal, 80 columns wide: what runs and why comes first."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from .status import Category, Engine, Gate, Status
from .units import SPARK, count, percent, points, seconds, spark

PARTS = 8
"""Parts of rules shown beside the rules, those with most evidence."""
CHANGES = 4
"""Changes shown, the newest."""
NAME = 25
"""Columns for a category's name."""


def render(found: Status) -> RenderableType:
    """The status as something rich can print."""
    lines = [Text(f"wactl {found.wactl}  mode {found.mode}  pid {found.pid}", style="bold")]
    if found.rules_problem:
        problem = f"the rules as last edited are not in use: {found.rules_problem}"
        lines.append(Text(problem, style="red"))
    if found.state_problem:
        problem = f"nothing is kept of what is learned: {found.state_problem}"
        lines.append(Text(problem, style="red"))
    if not found.engines and not found.silent:
        hint = f"no engine in {found.run_dir}; start one with WACTL=1, or with `wactl run -- …`"
        lines.append(Text(hint))
    parts: list[RenderableType] = [*lines]
    for engine in found.engines:
        parts += [*_engine(engine, found.mode), _categories(engine), *_changes(engine)]
    for where in found.silent:
        parts.append(Text(f"nothing heard from {where}", style="red"))
        if where.startswith("tcp://"):
            parts.append(Text("  is its engine up, and are its keys the pair of ours?"))
    return Group(*parts)


def _engine(engine: Engine, mode: str) -> list[Text]:
    if not engine.alive:
        state, style = f"silent for {engine.silent_seconds:.0f} s", "red"
    else:
        state, style = f"{engine.order}: {engine.reason}", "red" if engine.errors else "green"
    age = "" if engine.version_age_seconds is None else f", {engine.version_age_seconds:.0f} s old"
    lines = [
        Text(f"engine {engine.rank}  vLLM {engine.vllm}  pid {engine.pid}", style="bold"),
        Text(f"  {state}{age}", style=style),
        *_gate(engine.gate, mode),
        _hits(engine.gate),
        Text(
            f"  {engine.requests} requests, {engine.cached_blocks} of {engine.blocks} blocks "
            f"cached, {engine.block_tokens} tokens each"
        ),
    ]
    lost = {
        "parameters refused": engine.rejected,
        "records dropped": engine.dropped_records,
        "messages lost": engine.lost_messages,
        "errors": engine.errors,
    }
    if wrong := ", ".join(f"{name} {number}" for name, number in lost.items() if number):
        lines.append(Text(f"  {wrong}", style="red"))
    if engine.refusal:
        lines.append(Text(f"  last refusal: {engine.refusal}", style="red"))
    if engine.exempt_groups:
        lines.append(Text(f"  {engine.exempt_groups} cache groups keep the stock order"))
    return lines


def _gate(gate: Gate, mode: str) -> list[Text]:
    """What was chosen, what that brings by its shadow, and why."""
    if mode == "observe":
        return [Text("  nothing is learned in this mode; the engine keeps its own order")]
    chosen = gate.contestant(gate.running)
    verb = "runs" if mode == "enforce" else "enforce would run"
    if gate.running == "lru":
        brings = ""
    else:
        ahead = points(chosen.ahead_of_lru, chosen.noise)
        brings = f": {ahead}, {count(gate.saved_tokens)} prefill tokens saved, in shadow"
    style = "yellow" if gate.phase == "fallback" else ""
    return [
        Text(f"  {verb} {gate.running}{brings}", style=style),
        Text(f"  {gate.phase} for {seconds(gate.since_seconds)}: {gate.reason}", style=style),
    ]


def _hits(gate: Gate) -> Text:
    """The engine's hit ratio beside those of the shadows."""
    engine = gate.contestant("engine")
    if engine.hit_ratio is None:
        return Text("  hit ratio – (no requests yet)")
    shadows = (
        f"{one.name} {percent(one.hit_ratio)}" for one in gate.contestants if one.name != "engine"
    )
    ahead = points(engine.ahead_of_lru, engine.noise)
    return Text.assemble(
        "  hit ratio ",
        (percent(engine.hit_ratio), "bold"),
        f" now, {ahead} against LRU's shadow\n",
        (f"  shadows: {', '.join(shadows)}", "dim"),
    )


def _changes(engine: Engine) -> list[Text]:
    return [
        Text(f"  {seconds(change.seconds_ago):>6} ago  {change.kind}: {change.text}", style="dim")
        for change in engine.changes[:CHANGES]
    ]


def _categories(engine: Engine) -> RenderableType:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("category", no_wrap=True, width=NAME)
    table.add_column("0.1s-1d", no_wrap=True, width=SPARK)
    for title in ("reused", "after", "lifespan", "evidence", "cached"):
        table.add_column(title, justify="right", no_wrap=True)
    shown = most_telling(engine.categories)
    for category in shown:
        table.add_row(*_row(category), style="bold" if category.rule else "")
    left = len(engine.categories) - len(shown)
    return Group(table, Text(f"  {left} more in --json", style="dim")) if left else table


def most_telling(categories: tuple[Category, ...]) -> list[Category]:
    """All rules, and of their parts those with most evidence, in their order."""
    parts = [category for category in categories if not category.rule and category.evidence]
    best = {id(part) for part in sorted(parts, key=lambda part: -part.evidence)[:PARTS]}
    return [category for category in categories if category.rule or id(category) in best]


def _row(category: Category) -> tuple[str, ...]:
    name = category.name if category.rule else "  " + category.name.partition(", ")[2]
    error = "" if category.error is None else f" ±{100 * category.error:.0f} %"
    return (
        name if len(name) <= NAME else name[: NAME - 1] + "…",
        spark(category.reuse),
        percent(category.p),
        seconds(category.mean_reuse_seconds),
        seconds(category.lifespan_seconds),
        f"{count(category.evidence)}{error}",
        percent(category.cached_share),
    )
