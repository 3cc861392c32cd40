"""What the benches found, as tables that fit into 80 columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.table import Table

from ..trace import Trace
from .controller import Fed, Lived
from .evictor import Cell
from .replay import Pace
from .scheduler import Memory, Spent
from .yardstick import Yardstick


def ratios_table(cells: Sequence[Cell]) -> Table:
    """All operations together, a row a cache size and number of categories."""
    return _table(
        "Queue of free blocks: wactl's time over vLLM's, on the same operations",
        ("blocks", "categories", "ratio", "range", "tagged", "evicted", "freed", "hit"),
        (
            (
                str(cell.blocks),
                str(cell.categories),
                f"{cell.ratio:.2f}",
                f"{cell.ratio_low:.1f}–{cell.ratio_high:.1f}",
                f"{cell.ratio_with_tags:.2f}",
                f"{cell.ours.us_per_evicted:.2f}/{cell.stock.us_per_evicted:.2f}",
                f"{cell.ours.us_per_freed:.2f}/{cell.stock.us_per_freed:.2f}",
                f"{cell.ours.us_per_hit:.2f}/{cell.stock.us_per_hit:.2f}",
            )
            for cell in cells
        ),
        "0 categories: vLLM's own order. Tagged: the ratio with wactl's tagging.\n"
        "Evicted, freed, hit: microseconds a block, wactl's/vLLM's.",
    )


def operations_table(cells: Sequence[Cell]) -> Table:
    """The dearest operations, a row a cache size and number of categories."""
    return _table(
        "Its dearest single operations, microseconds, wactl's/vLLM's",
        ("blocks", "categories", "operations", "99.9 %", "worst", "worst seen", "gc"),
        (
            (
                str(cell.blocks),
                str(cell.categories),
                str(cell.operations),
                f"{cell.ours.p999_us:.0f}/{cell.stock.p999_us:.0f}",
                f"{cell.ours.worst_us:.0f}/{cell.stock.worst_us:.0f}",
                f"{cell.ours.worst_seen_us:.0f}/{cell.stock.worst_seen_us:.0f}",
                f"{cell.ours.collections}/{cell.stock.collections}",
            )
            for cell in cells
        ),
        "Worst: every operation at its least over the repeats; seen: at its most.\n"
        "gc: visits of the garbage collector.",
    )


def requests_table(requests: Sequence[Spent]) -> Table:
    """Recording and tagging, a row a length of prompt and cache size."""
    return _table(
        "Added to a request, microseconds",
        ("prompt tokens", "cache blocks", "followed", "record", "tag", "both", "99 %"),
        (
            (
                str(row.prompt_tokens),
                str(row.cache_blocks),
                f"1 in {row.followed_one_in}",
                f"{row.record_us:.1f}",
                f"{row.tag_us:.1f}",
                f"{row.total_us:.1f}",
                f"{row.total_p99_us:.1f}",
            )
            for row in requests
        ),
    )


def memory_table(held: Sequence[Memory]) -> Table:
    """The engine's memory, a row a cache size."""
    return _table(
        "Memory in the engine, bytes",
        ("blocks", "a block", "index"),
        (
            (str(row.cache_blocks), f"{row.bytes_per_block:.1f}", str(row.index_bytes))
            for row in held
        ),
    )


def loops_table(loops: Sequence[Fed]) -> Table:
    """The sidecar's loop, a row a cache size."""
    return _table(
        "The sidecar's loop, fed as fast as it takes it",
        ("cache blocks", "followed", "µs an admission", "core at 100/s", "refit, ms", "worst"),
        (
            (
                str(row.cache_blocks),
                f"{row.followed_blocks:.1f}",
                f"{row.us_per_admission:.1f}",
                f"{row.core_share:.2%}",
                f"{row.refit_ms:.1f}",
                f"{row.refit_worst_ms:.1f}",
            )
            for row in loops
        ),
        "Followed: blocks of a 4k-token prompt. Refit: of 64 categories.",
    )


def process_table(process: Lived) -> Table:
    """The sidecar's process."""
    row = (
        str(process.cache_blocks),
        str(process.admissions),
        f"{process.core_share:.2%}",
        f"{process.resident_mb:.0f}",
        f"{process.anonymous_mb:.0f}",
    )
    return _table(
        f"The sidecar's process, {process.seconds:.0f} s at 100 admissions/s",
        ("cache blocks", "admissions", "of a core", "resident, MB", "anonymous, MB"),
        (row,),
    )


def paces_table(trace: Trace, capacity: int, paces: Sequence[Pace]) -> Table:
    """Reading and replaying a trace, a row each."""
    return _table(
        f"{trace.name}, a cache of {capacity} blocks",
        ("", "seconds", "block accesses", "a second"),
        (
            (
                row.what,
                f"{row.seconds:.2f}",
                str(len(trace.blocks)),
                f"{row.accesses_per_second / 1e6:.1f} M",
            )
            for row in paces
        ),
    )


def yardstick_table(compared: Yardstick) -> Table:
    """LRU and libCacheSim's."""
    row = (
        str(compared.misses),
        f"{compared.ns_per_access:.1f}",
        f"{compared.libcachesim_ns_per_access:.1f}",
        f"{compared.ratio:.2f}",
        f"{compared.ratio_low:.2f}–{compared.ratio_high:.2f}",
    )
    return _table(
        "LRU and libCacheSim's LRU on the same accesses, one by one",
        ("misses of either", "ns an access", "libCacheSim's", "ratio", "range"),
        (row,),
    )


def _table(
    title: str, names: Sequence[str], rows: Iterable[Sequence[str]], caption: str = ""
) -> Table:
    table = Table(
        title=f"\n{title}",
        title_justify="left",
        caption=caption or None,
        caption_justify="left",
        box=None,
        padding=(0, 2, 0, 0),
    )
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table
