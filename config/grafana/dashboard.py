"""The Grafana dashboard as code: `make dashboard` writes dashboard.json beside this file.

Grafana imports the JSON as it is. Change it here, not there: a test compares the two, and another
one has a real Prometheus that scrapes a live sidecar answer every query.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from grafana_foundation_sdk.builders.common import (
    ReduceDataOptions,
    VizLegendOptions,
    VizTooltipOptions,
)
from grafana_foundation_sdk.builders.dashboard import (
    Dashboard,
    DatasourceVariable,
    QueryVariable,
    Row,
)
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.builders.stat import Panel as Stat
from grafana_foundation_sdk.builders.timeseries import Panel as Timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    BigValueGraphMode,
    BigValueTextMode,
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    TooltipDisplayMode,
)
from grafana_foundation_sdk.models.dashboard import DataSourceRef, VariableRefresh

HERE = '{instance=~"$instance"}'
"""What every query is limited to: the sidecars chosen above the panels."""
OURS = "and on (instance, job) wactl_info"
"""Leaves out the processes of other programs."""
SOURCE = DataSourceRef("prometheus", "${datasource}")
ENGINE = "instance, engine"
CATEGORY = "instance, engine, category"
TENANT = "instance, engine, tenant"
ORDER = "instance, engine, order"
REASON = "instance, engine, reason"

RATIO, RATE, SECONDS, BYTES, COUNT = "percentunit", "none", "s", "bytes", "short"
"""Units, by Grafana's names."""
NAME = "string"
"""The unit of a number that is of no interest: its labels are shown."""


@dataclass(frozen=True)
class Graph:
    """A panel; ``queries`` are pairs of an expression and the legend of its series."""

    title: str
    description: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    number: bool = False
    """Whether it shows one number a series instead of a curve."""


def rate(metric: str, by: str) -> str:
    """The increase a second of a counter, summed over all but the labels named."""
    return f"sum by ({by}) (rate({metric}{HERE}[$__rate_interval]))"


def hit_ratio(by: str) -> str:
    """Hit blocks over prompt blocks of the latest interval."""
    return f"{rate('wactl_hit_blocks_total', by)} / {rate('wactl_prompt_blocks_total', by)}"


def legend(by: str) -> str:
    """The labels, as Grafana fills them in."""
    return " ".join(f"{{{{{label}}}}}" for label in by.split(", "))


def curve(title: str, description: str, unit: str, expression: str, by: str) -> Graph:
    """A panel of one expression."""
    return Graph(title, description, unit, ((expression, legend(by)),))


def number(title: str, description: str, unit: str, expression: str, by: str) -> Graph:
    """A panel of the latest values of one expression."""
    return Graph(title, description, unit, ((expression, legend(by)),), number=True)


ROWS: dict[str, tuple[Graph, ...]] = {
    "Now": (
        number(
            "Mode",
            "What the sidecar may do: observe, shadow or enforce.",
            NAME,
            f"wactl_mode{HERE} == 1",
            "instance, mode",
        ),
        number(
            "Engines heard", "1: its heartbeat is heard.", COUNT, f"wactl_engine_up{HERE}", ENGINE
        ),
        number(
            "Scored",
            "1: the engine evicts by learned parameters. 0: plain LRU.",
            COUNT,
            f"wactl_engine_scored{HERE}",
            ENGINE,
        ),
        number(
            "Version",
            "Parameters in force, 0 for none.",
            COUNT,
            f"wactl_parameters_version{HERE}",
            ENGINE,
        ),
    ),
    "Hits": (
        curve(
            "Hit ratio",
            "Blocks of prompts found in the cache, of all full blocks of prompts.",
            RATIO,
            hit_ratio(ENGINE),
            ENGINE,
        ),
        curve(
            "Prefill spared",
            "Tokens a second that need not be computed, their blocks being cached.",
            RATE,
            f"{rate('wactl_hit_blocks_total', ENGINE)} * on ({ENGINE}) wactl_block_tokens{HERE}",
            ENGINE,
        ),
        curve(
            "Hit ratio by category",
            "`other` are the categories that are not among the busiest.",
            RATIO,
            hit_ratio(CATEGORY),
            CATEGORY,
        ),
        curve(
            "Prompt blocks by category",
            "Full blocks of admitted prompts, a second: what the hit ratio is made of.",
            RATE,
            rate("wactl_prompt_blocks_total", CATEGORY),
            CATEGORY,
        ),
        curve(
            "Hits against LRU",
            "Blocks a second that the engine hits, and that the shadow cache of each order does.",
            RATE,
            rate("wactl_shadow_hit_blocks_total", ORDER),
            ORDER,
        ),
        curve(
            "Why blocks are missed",
            "A second. cold: never seen. evicted: seen, and gone. unready: not computed yet. "
            "last: a prompt's last block is computed in any case.",
            RATE,
            rate("wactl_missed_blocks_total", REASON),
            REASON,
        ),
        curve(
            "Evicted blocks missed by tenant",
            "Blocks a second that were there once. Tenants by a short digest of their salt.",
            RATE,
            f"sum by ({TENANT}) (rate(wactl_tenant_missed_blocks_total"
            '{instance=~"$instance", reason="evicted"}[$__rate_interval]))',
            TENANT,
        ),
        curve(
            "Regret",
            "Share of the blocks an order's shadow evicts that are asked for within ten minutes.",
            RATIO,
            f"{rate('wactl_shadow_regretted_blocks_total', ORDER)} / "
            f"{rate('wactl_shadow_evicted_blocks_total', ORDER)}",
            ORDER,
        ),
    ),
    "Cache": (
        Graph(
            "Cached blocks",
            "Free blocks that can still be hit, and the size of the cache.",
            COUNT,
            (
                (f"wactl_cached_blocks{HERE}", f"{legend(ENGINE)} cached"),
                (f"wactl_cache_blocks{HERE}", f"{legend(ENGINE)} size"),
            ),
        ),
        curve(
            "Evictions",
            "Blocks handed out for new contents, a second.",
            RATE,
            rate("wactl_evicted_blocks_total", ENGINE),
            ENGINE,
        ),
        curve(
            "Share of the cache",
            "Of the free cached blocks. Known while the engine has learned parameters.",
            RATIO,
            f"wactl_category_cached_share{HERE}",
            CATEGORY,
        ),
        curve(
            "Requests",
            "Admitted, a second.",
            RATE,
            rate("wactl_requests_total", ENGINE),
            ENGINE,
        ),
    ),
    "Laws": (
        curve(
            "Probability of reuse",
            "That a block of the category is ever used again.",
            RATIO,
            f"wactl_category_reuse_probability{HERE}",
            CATEGORY,
        ),
        curve(
            "Mean time to reuse",
            "Of the blocks that are used again.",
            SECONDS,
            f"wactl_category_mean_reuse_seconds{HERE}",
            CATEGORY,
        ),
        curve(
            "Lifespan",
            "The age from which a block of the category is as good as dead.",
            SECONDS,
            f"wactl_category_lifespan_seconds{HERE}",
            CATEGORY,
        ),
        curve(
            "Evidence",
            "Requests behind the fit, older ones counting less.",
            COUNT,
            f"wactl_category_evidence_requests{HERE}",
            CATEGORY,
        ),
    ),
    "Health": (
        Graph(
            "Lost",
            "Records that the engine dropped, and messages missing in the stream, a second.",
            RATE,
            (
                (rate("wactl_dropped_records_total", ENGINE), f"{legend(ENGINE)} records"),
                (rate("wactl_lost_messages_total", ENGINE), f"{legend(ENGINE)} messages"),
            ),
        ),
        Graph(
            "Parameters",
            "Sets pushed, and pushes that the engine refused, a second.",
            RATE,
            (
                (rate("wactl_parameters_pushed_total", ENGINE), f"{legend(ENGINE)} pushed"),
                (rate("wactl_parameters_rejected_total", ENGINE), f"{legend(ENGINE)} refused"),
            ),
        ),
        curve(
            "Sidecar's memory",
            "Resident, in bytes.",
            BYTES,
            f"process_resident_memory_bytes{HERE} {OURS}",
            "instance",
        ),
        curve(
            "Sidecar's processor",
            "Cores in use.",
            RATE,
            f"rate(process_cpu_seconds_total{HERE}[$__rate_interval]) {OURS}",
            "instance",
        ),
    ),
}


def panel(graph: Graph) -> Stat | Timeseries:
    """The builder of a panel; four numbers, or two curves, fill the width."""
    made: Stat | Timeseries
    if graph.number:
        made = (
            Stat()
            .span(6)
            .height(4)
            .graph_mode(BigValueGraphMode.NONE)
            .reduce_options(ReduceDataOptions().calcs(["lastNotNull"]))
            .text_mode(BigValueTextMode.NAME if graph.unit == NAME else BigValueTextMode.AUTO)
        )
    else:
        made = (
            Timeseries()
            .span(12)
            .height(8)
            .axis_soft_min(0)
            .fill_opacity(5)
            .legend(
                VizLegendOptions()
                .show_legend(True)
                .display_mode(LegendDisplayMode.LIST)
                .placement(LegendPlacement.BOTTOM)
            )
            .tooltip(VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING))
        )
    made.title(graph.title).description(graph.description).datasource(SOURCE).unit(graph.unit)
    for letter, (expression, series) in zip("ABCD", graph.queries, strict=False):
        query = Dataquery().expr(expression).legend_format(series).ref_id(letter)
        made.with_target(query.instant() if graph.number else query.range())
    return made


def dashboard() -> Dashboard:
    """The builder of the whole."""
    made = (
        Dashboard("wactl")
        .uid("wactl")
        .description("What wactl learns of the traffic and does to the KV cache of vLLM.")
        .tags(["vllm", "wactl"])
        .refresh("30s")
        .time("now-3h", "now")
        .timezone("browser")
        .with_variable(DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
        .with_variable(
            QueryVariable("instance")
            .label("Sidecar")
            .datasource(SOURCE)
            .query("label_values(wactl_info, instance)")
            .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
            .multi(True)
            .include_all(True)
        )
    )
    numbers = count(1)
    for title, graphs in ROWS.items():
        made.with_row(Row(title).id(next(numbers)))
        for graph in graphs:
            made.with_panel(panel(graph).id(next(numbers)))
    return made


def text() -> str:
    """The JSON."""
    return JSONEncoder(indent=2, sort_keys=True).encode(dashboard().build()) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(text(), encoding="utf-8")
