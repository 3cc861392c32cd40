"""``wactl regress``: do the policies still do to these traces what they did?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ..golden import Golden
    from ..regress import Source, Spec
    from ..trace import Trace

app = typer.Typer(help="Hold replays to recorded results.", no_args_is_help=True)

SpecFile = Annotated[
    Path,
    typer.Argument(metavar="SPEC.yaml", help="Traces, policies and capacities."),
]


@app.command()
def record(file: SpecFile) -> None:
    """Replay, write the results to SPEC.golden.json, and say what changed."""
    from ..golden import GoldenError, differences, load_golden, save_golden, sentence, size
    from ..regress import load_spec

    now = _measured(file, load_spec(file))
    kept = _golden_file(file)
    before = ""
    try:
        found = list(differences(load_golden(kept), now))
        before = f"; differences from before: {len(found)}"
    except GoldenError:
        found = []  # None yet, or spoilt, say by a merge: what is recorded now is what counts.
    save_golden(kept, now)
    for difference in found:
        print(sentence(difference, now))
    print(f"recorded: {size(now)} results in {kept}{before}")


@app.command()
def check(
    file: SpecFile,
    json: Annotated[
        bool, typer.Option("--json", help="Print the differences as JSON instead.")
    ] = False,
) -> None:
    """Replay, compare with SPEC.golden.json, and fail with what differs."""
    from ..golden import differences, load_golden, sentence, size
    from ..regress import load_spec

    spec = load_spec(file)
    kept = _golden_file(file)
    golden = load_golden(kept)
    now = _measured(file, spec)
    found = list(differences(golden, now))
    if json:
        import msgspec

        print(msgspec.json.format(msgspec.json.encode(found)).decode())
    else:
        for difference in found:
            print(sentence(difference, now))
        if found:
            print(f"differences: {len(found)}; if they are meant: wactl regress record {file}")
        else:
            print(f"all {size(now)} results equal those in {kept}")
    if found:
        raise typer.Exit(1)


def _golden_file(spec: Path) -> Path:
    return spec.with_suffix(".golden.json")


def _measured(file: Path, spec: Spec) -> Golden:
    """What the replays of a specification, read from that file, give now. Raises `WactlError`."""
    from ..golden import golden_of
    from ..regress import SpecError
    from ..sweep import parse_capacities, sweep
    from .replay import collect

    traces = [_trace(source, file.parent, spec.limit) for source in spec.traces]
    names = [trace.name for trace in traces]
    for name in names:
        if names.count(name) > 1:
            raise SpecError(f"{file}: traces: more than one is called {name}; rename the files")
    capacities = parse_capacities(",".join(spec.capacities), bytes_per_token=None)
    policies = list(dict.fromkeys(spec.policies))
    total = sum(len(policies) * len(capacities(trace)) for trace in traces)
    return golden_of(traces, collect(sweep(traces, policies, capacities), total))


def _trace(source: Source, folder: Path, limit: int | None) -> Trace:
    from ..workload import generate, trace_of
    from .replay import load

    if isinstance(source, str):
        return load(str((folder / source).absolute()), limit, skip_bad=False)
    return trace_of(generate(source.minutes, source.seed)[:limit], source.name)
