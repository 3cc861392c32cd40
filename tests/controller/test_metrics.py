"""The metrics as Prometheus gets them: over HTTP, parsed, and bounded in number."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from wactl.controller.daemon import Daemon
from wactl.controller.link import SILENT
from wactl.controller.metrics import CATEGORIES, TENANTS
from wactl.controller.pages import STUCK, pages
from wactl.controller.settings import Mode
from wactl.controller.status import Category, Contestant, Engine, Gate, Missed, Status, Tenant
from wactl.controller.web import AT_ONCE, LONGEST, serve

PAGE = Path(__file__).parent.parent.parent / "docs" / "metrics.md"

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scrape(port: int) -> Samples:
    """Every sample by name and labels; none may be there twice."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found
            found[key] = sample.value
    return found


def category(name: str, rule: bool = True, blocks: int = 40, **changed: Any) -> Category:
    fields: dict[str, Any] = {
        "name": name,
        "rule": rule,
        "requests": 10,
        "prompt_blocks": blocks,
        "hit_blocks": blocks // 4,
        "hit_ratio": 0.25,
        "p": 0.5,
        "mean_reuse_seconds": 5.0,
        "lifespan_seconds": 60.0,
        "evidence": 100.0,
        "error": 0.1,
        "cached_share": 0.75,
        "reuse": (),
        "expected": (),
        "missed": Missed(cold=blocks // 2, evicted=blocks // 4) if rule else None,
    }
    return Category(**{**fields, **changed})


SHADOWS = (
    Contestant("lru", 0.25, 0.0, 0.0, 70.5, 9, (9,), 4),
    Contestant("engine", 0.25, 0.0, 0.0, 80.0),
)


def engine(
    rank: int,
    *categories: Category,
    in_flight: int = 0,
    tenants: tuple[Tenant, ...] = (Tenant("none", 1, Missed(cold=3)),),
) -> Engine:
    """``in_flight`` blocks of prompts belong to no rule yet."""
    rules = [one for one in categories if one.rule]
    return Engine(
        rank=rank,
        pid=1,
        vllm="0.32.0",
        alive=rank == 0,
        silent_seconds=0.1,
        order="scored" if rank == 0 else "lru",
        reason="version 3 in force",
        version=3,
        version_age_seconds=2.0 if rank == 0 else None,
        blocks=1000,
        block_tokens=16,
        cached_blocks=900,
        sample=1,
        requests=77,
        prompt_blocks=sum(one.prompt_blocks for one in rules) + in_flight,
        hit_blocks=sum(one.hit_blocks for one in rules),
        hit_ratio=0.25,
        evicted=5,
        pushed=3,
        accepted=3,
        rejected=1,
        refusal="",
        lost_messages=2,
        dropped_records=4,
        errors=0,
        exempt_groups=0,
        gate=Gate("steady", "life-table", 9.0, "it is ahead", 0, 5000, SHADOWS),
        time=100.0,
        changes=(),
        categories=categories,
        tenants=tenants,
    )


Told = Callable[..., Samples]


@pytest.fixture
def told() -> Iterator[Told]:
    """Scrapes what is served of these engines: one server for all that a test asks."""
    said: list[Status] = []
    server = serve("127.0.0.1", 0, pages(lambda: said[-1], tuple, lambda: 0.0), lambda: 0.0)

    def tell(*engines: Engine, silent: tuple[str, ...] = ()) -> Samples:
        said.append(Status("0.1.0", "enforce", 1, "rules.yaml", "", "/tmp/x", engines, silent))
        return scrape(server.server_port)

    yield tell
    server.close()


def by(found: Samples, name: str, label: str) -> dict[str, float]:
    """The values of a metric by one of its labels."""
    return {dict(labels)[label]: value for (n, labels), value in found.items() if n == name}


def test_what_the_status_says_is_what_is_scraped(told: Told) -> None:
    """Numbers arrive under their names, counters as totals, and unknown ones not at all."""
    unknown = category("b", p=None, mean_reuse_seconds=None, cached_share=None)
    rules = (category("opening"), category("opening, new", rule=False), unknown)
    found = told(engine(0, *rules, in_flight=7), engine(1), silent=("tcp://10.0.0.5:1",))
    modes = {mode.value: float(mode is Mode.ENFORCE) for mode in Mode}
    assert by(found, "wactl_mode", "mode") == modes
    assert by(found, "wactl_info", "version") == {"0.1.0": 1.0}
    assert found["wactl_engines_unheard", frozenset()] == 1.0
    assert by(found, "wactl_engine_up", "engine") == {"0": 1.0, "1": 0.0}
    assert by(found, "wactl_engine_scored", "engine") == {"0": 1.0, "1": 0.0}
    assert by(found, "wactl_parameters_age_seconds", "engine") == {"0": 2.0}
    assert by(found, "wactl_requests_total", "engine") == {"0": 77.0, "1": 77.0}
    assert by(found, "wactl_lost_messages_total", "engine")["1"] == 2.0
    assert by(found, "wactl_category_reuse_probability", "category") == {"opening": 0.5}
    evidence = by(found, "wactl_category_evidence_requests", "category")
    assert evidence == {"opening": 100.0, "b": 100.0}
    zero = {key: value for key, value in found.items() if ("engine", "0") in key[1]}
    prompt = by(zero, "wactl_prompt_blocks_total", "category")
    assert prompt == {"opening": 40.0, "b": 40.0}
    hits = by(zero, "wactl_hit_blocks_total", "category")
    assert hits == {"opening": 10.0, "b": 10.0}
    assert found["process_resident_memory_bytes", frozenset()] > 1e6
    assert by(zero, "wactl_shadow_hit_blocks_total", "order") == {"lru": 70.5, "engine": 80.0}
    assert by(zero, "wactl_shadow_evicted_blocks_total", "order") == {"lru": 9.0}
    assert by(zero, "wactl_shadow_regretted_blocks_total", "order") == {"lru": 4.0}
    reasons = {"cold": 20.0, "evicted": 10.0, "unready": 0.0, "last": 0.0}
    missed = {k: v for k, v in zero.items() if ("category", "opening") in k[1]}
    assert by(missed, "wactl_missed_blocks_total", "reason") == reasons
    assert by(zero, "wactl_tenant_missed_blocks_total", "reason") == {
        **reasons,
        "cold": 3,
        "evicted": 0,
    }


def test_there_are_as_many_series_as_rules_however_finely_they_are_divided(told: Told) -> None:
    """Parts of rules make no series, and no label holds anything that a client chose."""
    parts = [category(f"rule, part {i}", rule=False) for i in range(400)]
    few = told(engine(0, category("rule")))
    many = told(engine(0, category("rule"), *parts))
    assert set(few) == set(many)
    two = told(engine(0, category("rule"), category("another"), *parts))
    of_categories = {
        (name, dict(labels).get("reason")) for name, labels in many if "category" in dict(labels)
    }
    assert len(two) - len(many) == len(of_categories)
    labels = {label for _, found in two for label, _ in found}
    assert labels == {"mode", "version", "engine", "category", "reason", "order", "tenant"}


def test_the_busiest_rules_have_series_and_the_rest_one(told: Told) -> None:
    """However many rules there are; no block of any is lost, and what others had they keep."""
    rules = [category(f"rule {i}", blocks=100 + i) for i in range(CATEGORIES + 10)]
    found = told(engine(0, *rules))
    shown = by(found, "wactl_prompt_blocks_total", "category")
    assert set(shown) == {f"rule {i}" for i in range(10, CATEGORIES + 10)} | {"other"}
    assert shown["other"] == sum(100 + i for i in range(10))
    assert len(by(found, "wactl_category_cached_share", "category")) == CATEGORIES
    grown = [category("rule 0", blocks=1000), *rules[1:]]
    later = by(told(engine(0, *grown)), "wactl_prompt_blocks_total", "category")
    assert set(later) == set(shown) - {"rule 10"} | {"rule 0"}
    assert later["rule 0"] == 900.0
    assert later["other"] == shown["other"]


def test_tenants_that_come_and_go_stay_few(told: Told) -> None:
    """The busiest have series, the rest one, and one that is gone has none."""
    name = "wactl_tenant_missed_blocks_total"
    many = [Tenant(f"{i:08x}", 100 + i, Missed(evicted=i)) for i in range(TENANTS + 5)]
    found = told(engine(0, tenants=tuple(many)))
    shown = {k: v for k, v in found.items() if ("reason", "evicted") in k[1]}
    tenants = by(shown, name, "tenant")
    assert set(tenants) == {one.name for one in many[5:]} | {"other"}
    assert tenants["other"] == 0 + 1 + 2 + 3 + 4
    later = by(told(engine(0, tenants=(many[0], many[-1]))), name, "tenant")
    assert set(later) == {many[0].name, many[-1].name, "other"}


def test_engines_are_counted_apart(told: Told) -> None:
    """Each has its own busiest rules."""
    one, two = category("rule", blocks=8), category("rule", blocks=4)
    found = told(engine(0, one), engine(1, two))
    prompt = {k[1]: v for k, v in found.items() if k[0] == "wactl_prompt_blocks_total"}
    labels = [frozenset({("engine", rank), ("category", "rule")}) for rank in "01"]
    assert [prompt[label] for label in labels] == [8.0, 4.0]


def test_a_rule_may_be_called_other(told: Told) -> None:
    """It is counted with the rest, once."""
    found = told(engine(0, category("other"), category("a")))
    assert by(found, "wactl_prompt_blocks_total", "category") == {"a": 40.0, "other": 40.0}


def test_the_page_lists_every_metric(told: Told) -> None:
    """docs/metrics.md has each by name, with its type and labels, and no other."""
    rows = re.findall(r"^\| `(\w+)` \| (\w+)(?:, E)? \|([^|]*)\|", PAGE.read_text(), re.MULTILINE)
    listed = {name: (kind, frozenset(re.findall(r"\w+", labels))) for name, kind, labels in rows}
    assert len(rows) == len(listed)
    served = {
        name: ("counter" if name.endswith("_total") else "gauge", frozenset(dict(labels)))
        for name, labels in told(engine(0, category("rule")))
    }
    assert listed == served


def test_the_page_has_the_limits_there_are() -> None:
    """The figures of docs/metrics.md are those of the code."""
    page = " ".join(PAGE.read_text().split())
    for said in (
        f"the {CATEGORIES} that asked for most blocks",
        f"At most {AT_ONCE} connections are served at once, each for at most {LONGEST:.0f} s",
        f"has not cycled for {STUCK:.0f} s",
        f"0 after {SILENT:.0f} s without",
    ):
        assert said in page


def test_a_request_that_finishes_moves_no_counter_back(told: Told) -> None:
    """What was in flight is counted once, where it belongs, and nothing falls."""
    name = "wactl_prompt_blocks_total"
    running = by(
        told(engine(0, category("a"), category("other", blocks=8), in_flight=90)), name, "category"
    )
    done = by(
        told(engine(0, category("a", blocks=130), category("other", blocks=8))), name, "category"
    )
    assert (running, done) == ({"a": 40.0, "other": 8.0}, {"a": 130.0, "other": 8.0})


def test_odd_category_names_survive(told: Told) -> None:
    """Quotes, backslashes and other alphabets in an operator's name arrive as they are."""
    name = 'say "hi" \\ ünïcode 分'
    found = told(engine(0, category(name)))
    labels = frozenset({("engine", "0"), ("category", name)})
    assert found["wactl_category_reuse_probability", labels] == 0.5


def test_the_sidecar_serves_them(
    engine: Callable[..., Any],
    daemon: Callable[..., Daemon],
    two_ports: Callable[[], int],
    eventually: Callable[..., Any],
) -> None:
    """A running sidecar's metrics tell of the engine, fresh within a second or two."""
    port, one = two_ports(), engine()
    daemon(metrics_port=port, mode="enforce")
    up = "wactl_engine_up", frozenset({("engine", "0")})
    version = "wactl_parameters_version", frozenset({("engine", "0")})
    eventually(lambda: scrape(port).get(up) == 1.0, one.traffic)
    eventually(lambda: scrape(port).get(version, 0.0) > 0.0, one.traffic)
