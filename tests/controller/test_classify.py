"""What the engine tells apart are the leaves of the model, and they keep their numbers."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from wactl.controller.cells import Cells, buckets_of
from wactl.controller.classify import SLOTS, Categories, name_of
from wactl.controller.rules import Rule, Rules
from wactl.controller.tree import Tree, grow
from wactl.controller.words import PLACES, hear, new_words
from wactl.policies.ages import AGES
from wactl.policies.blocks import DEFAULT, FIRST_CATEGORY
from wactl.policies.features import (
    BUCKETS,
    FEATURES,
    GAP,
    LENGTH,
    LORA,
    MODALITY,
    POSITION,
    PRIORITY,
    TENANT,
    TURN,
    TYPE,
    Features,
    blank_features,
    digest,
)
from wactl.policies.table import Condition, classify, compile_table

EDGES = sorted({float(edge) for edges in BUCKETS.values() for edge in edges})
VALUES = np.array([*EDGES, *(np.nextafter(edge, -np.inf) for edge in EDGES), -1.0, 1e9])
NAMES = np.array([0.0, *(digest(str(number)) for number in range(PLACES + 5))])
"""More words than have a place."""

URGENT = Rule("urgent", (Condition(PRIORITY, -np.inf, -0.5),))
LONG = Rule("long", (Condition(LENGTH, 2048.0, np.inf),), refine=False)
AGENTS = Rule("agents", (Condition(TYPE, digest("3"), digest("3")),))
CARRIED = Rule("carried", (Condition(POSITION, 1.0, 1.0), Condition(TURN, 2.0, 5.0)))
OTHER = Rule("other")
RULES = (URGENT, LONG, AGENTS, CARRIED, OTHER)


def vectors(rng: np.random.Generator, count: int) -> list[Features]:
    """Requests on, just below and between all edges, with words with a place, without, and none."""
    found = rng.choice(VALUES, (count, len(FEATURES)))
    for word in (TYPE, TENANT, LORA, MODALITY):
        found[:, word] = rng.choice(NAMES, count)
    found[:, POSITION] = rng.integers(0, 2, count)
    return list(found)


def grown(seed: int, rules: Rules = RULES, leaves: int = 40) -> tuple[Categories, Cells]:
    """Categories over cells of random requests with random counts."""
    rng = np.random.default_rng(seed)
    categories, cells = Categories(rules, 1), Cells(512)
    for features in vectors(rng, 200):
        cells.hear(features, 0.0)
        cells.key(categories.rule_of(features), features, 0.0)
    divide(categories, cells, rng, leaves)
    return categories, cells


def divide(categories: Categories, cells: Cells, rng: np.random.Generator, leaves: int) -> Tree:
    buckets = cells.table["buckets"][cells.table["key"] != 0]
    shape = (len(buckets), len(AGES))
    events = (
        rng.integers(0, 9, shape) * (rng.random(shape) < 0.1) * rng.integers(0, 9, (shape[0], 1))
    )
    waited = rng.random(shape) * 100.0
    refined = [(slot, rule.refine) for slot, rule in categories.rules.items()]
    tree = grow(buckets, events.astype(float), waited, refined, leaves)
    categories.use(tree, cells.words)
    return tree


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32), st.integers(1, 60))
def test_the_engines_table_names_the_leaf_of_the_model(seed: int, leaves: int) -> None:
    """Any request, words included, gets the number of the leaf that its buckets lie in."""
    categories, cells = grown(seed, leaves=leaves)
    table = categories.table
    assert table.problem() is None
    compiled = compile_table(table)
    for features in vectors(np.random.default_rng(seed + 1), 100):
        slot = categories.rule_of(features)
        buckets = buckets_of(cells.words, slot, features)
        (leaf,) = categories.tree.leaf_of(buckets[None])
        number = int(classify(compiled, features)) - FIRST_CATEGORY
        assert categories.leaves[number] == leaf
        assert categories.name(number)[0] == categories.rules[slot].name
        position = int(features[POSITION])
        assert categories.of(features)[position] == FIRST_CATEGORY + number
        assert categories.rules_of(features)[position] == slot


def test_words_are_among_what_divides() -> None:
    """The check above is one of word conditions too: the trees it sees have some."""
    conditions = [node.condition for seed in range(5) for node in grown(seed)[0].table.nodes]
    assert {c.feature for c in conditions} >= {TYPE, TENANT, GAP, TURN}
    assert all(c.low == c.high != 0.0 for c in conditions if c.feature in (TYPE, TENANT))


def test_before_the_first_tree_nothing_has_a_category() -> None:
    """Rules are known at once, categories only when a tree has been grown."""
    categories = Categories(RULES, 1)
    assert categories.of(blank_features(5000)) == (DEFAULT, DEFAULT)
    names = [categories.rules[slot].name for slot in categories.rules_of(blank_features(5000))]
    assert names == ["long", "long"]


def test_the_first_rule_that_fits_decides_for_each_part() -> None:
    """A rule that asks for the position has one part of a request, another rule the other."""
    categories = Categories(RULES, 1)
    features = blank_features(100)
    features[TURN] = 3.0
    found = [categories.rules[slot].name for slot in categories.rules_of(features)]
    assert found == ["other", "carried"]


def test_rules_that_stay_keep_their_slots() -> None:
    """In another order and among others; one whose conditions change is another rule."""
    categories = Categories(RULES, 1)
    before = {rule.name: slot for slot, rule in categories.rules.items()}
    moved = Rule("agents", (Condition(TYPE, digest("4"), digest("4")),))
    categories.follow((LONG, moved, URGENT, OTHER))
    after = {rule.name: slot for slot, rule in categories.rules.items()}
    assert list(after) == ["long", "agents", "urgent", "other"]
    assert all(after[name] == before[name] for name in ("long", "urgent", "other"))
    assert after["agents"] not in before.values()
    assert categories.rules[after["long"]] == LONG


def test_other_hints_are_the_same_rule() -> None:
    """What is changed about a rule that is not who belongs to it loses nothing learned."""
    categories = Categories((LONG, OTHER), 1)
    slots = list(categories.rules)
    categories.follow((Rule("long", LONG.conditions, refine=True, line=9), OTHER))
    assert list(categories.rules) == slots
    assert categories.rules[slots[0]].refine


def test_slots_go_round_and_never_meet_one_in_use() -> None:
    """A thousand edits leave every slot below the bound, and the rule that stays has its own."""
    categories = Categories((LONG, OTHER), 1)
    kept = next(iter(categories.rules))
    for number in range(1000):
        other = Rule("edited", (Condition(TURN, float(number), float(number)),))
        categories.follow((LONG, other, OTHER))
        assert len(categories.rules) == 3
        assert all(0 <= slot < SLOTS for slot in categories.rules)
        assert next(iter(categories.rules)) == kept


def test_a_region_that_stays_keeps_its_number_and_one_that_goes_reserves_it() -> None:
    """Also for the rule it was of, until the engine says that nothing of it is left."""
    categories, cells = grown(7)
    before = {categories.tree.branches[leaf].masks: n for n, leaf in categories.leaves.items()}
    tree = divide(categories, cells, np.random.default_rng(8), 40)
    after = {tree.branches[leaf].masks: number for number, leaf in categories.leaves.items()}
    stays, gone = before.keys() & after.keys(), before.keys() - after.keys()
    assert stays and gone
    assert all(before[region] == after[region] for region in stays)
    assert not {before[region] for region in gone} & set(after.values())
    for slot in categories.rules:
        held = {n for region, n in (before | after).items() if region[0] == slot}
        assert set(categories.numbers(slot)) == held
    assert categories.table.categories == 1 + max(*before.values(), *after.values())
    categories.drained(())
    for slot in categories.rules:
        assert set(categories.numbers(slot)) == {n for r, n in after.items() if r[0] == slot}


def test_a_tree_that_needs_too_many_numbers_is_not_used() -> None:
    """Nothing drains, so one day there are none left; the categories then stay as they are."""
    categories, cells = grown(7, (OTHER,), leaves=200)
    for seed in range(100):
        before = categories.table, dict(categories.leaves)
        tree = divide(categories, cells, np.random.default_rng(seed), 200)
        if categories.tree is not tree:
            assert (categories.table, categories.leaves) == before
            return
    raise AssertionError("numbers never ran out")


def test_names_tell_what_a_region_is() -> None:
    """Features in their order; the words left over when some have been singled out are others."""
    words = new_words(4)
    for number in range(PLACES):
        hear(words[0], digest(str(number)), 0.0)
    every = (0, *(-1,) * 13)
    assert name_of(every, words) == ""
    at = {"position": 1, "turn": 2, "type": 10}
    for changed, name in (
        ({"turn": 0b110, "position": 0b10}, "carried, turn 2-3"),
        ({"type": 1 << 3}, f"type {int(digest('2')) & 0xFFFF:04x}"),
        ({"type": ~(1 << 3)}, "other type"),
        ({"type": ~(1 << PLACES), "turn": 0b1}, "turn ≤1, other type"),
    ):
        masks = list(every)
        for key, mask in changed.items():
            masks[at[key]] = mask
        assert name_of(masks, words) == name
