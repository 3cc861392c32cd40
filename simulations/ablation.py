"""Write docs/learning.md: what each part of the learning is worth.

Run it as ``python -m wactl.simulations.ablation FOLDER OUT``, or as ``make learning``. It takes
an hour or two. What is done is kept in the folder for temporary files under a digest of the code,
so that a run that was stopped goes on; the page is written anew after each variant.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from .learning import GOALS, page
from .readers import load_trace
from .variants import Done, measure, variants

CODE = Path(__file__).parent.parent
"""The folder of the package."""

WARMING = 200
"""Requests of a trace played first, so that no compilation is counted in the time."""


def code_digest() -> str:
    """A digest of all that a replay depends on."""
    found = hashlib.sha256()
    for folder in ("policies", "controller", "simulations", "config"):
        for path in sorted((CODE / folder).rglob("*")):
            if path.suffix in (".py", ".yaml") and path.name != "learning.py":
                found.update(path.read_bytes())
    return found.hexdigest()[:16]


class Store:
    """The replays that are done, one line of JSON each in a file that only grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_bytes().splitlines() if path.exists() else []
        done = (msgspec.json.decode(line, type=Done) for line in lines)
        self._done = {(one.variant, one.trace, one.capacity): one for one in done}

    def get(self, variant: str, trace: str, capacity: int) -> Done | None:
        """A replay, None if it is still to be done."""
        return self._done.get((variant, trace, capacity))

    def add(self, done: Done) -> None:
        """One more is done."""
        self._done[done.variant, done.trace, done.capacity] = done
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(done) + b"\n")

    def __iter__(self) -> Iterator[Done]:
        return iter(self._done.values())


def main(folder: Path, out: Path) -> None:
    """Play what is not played yet on the traces of ``folder``, and write the page to ``out``."""
    store = Store(Path(tempfile.gettempdir()) / f"wactl-learning-{code_digest()}.jsonl")
    files = {name: str(folder / f"{name}.jsonl.gz") for name in GOALS}
    traces = {name: load_trace(file) for name, file in files.items()}
    smallest = load_trace(files["lmcache_agent"], limit=WARMING)
    every = variants()
    for number, variant in enumerate(every, start=1):
        missing = [
            (trace, capacity)
            for name, trace in traces.items()
            for capacity in (GOALS[name] if variant.fits(trace) else ())
            if store.get(variant.key, name, capacity) is None
        ]
        if missing:
            variant.play(smallest, min(GOALS[smallest.name]))
        for trace, capacity in missing:
            store.add(measure(variant, trace, capacity))
        print(f"{number}/{len(every)} {variant.key}", file=sys.stderr, flush=True)
        out.write_text(page(every, list(store), folder), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
