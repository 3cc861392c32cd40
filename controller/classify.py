"""The categories: the leaves of the tree, their numbers, and the table the engine gets of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..policies.features import BUCKETS, POSITION, Features
from ..policies.table import (
    EMPTY,
    Condition,
    DecisionTable,
    Node,
    classify,
    compile_table,
    rule_of,
)
from ..policies.table import Rule as TableRule
from .cells import COLUMNS, REFINED, WORDED, bucket_text
from .numbering import Numbering
from .rules import Rule, Rules
from .tree import Fork, Tree
from .words import PLACES, Words

SLOTS = 256
"""Numbers that rules may have, so that one that is gone does not leave its own to the next."""


class Categories:
    """The categories of one engine's traffic under the operator's rules."""

    def __init__(self, rules: Rules, lineage: int) -> None:
        self.rules: dict[int, Rule] = {}
        """The rules in order, by their slots."""
        self.lineage = lineage
        self.numbering = Numbering()
        self.tree = Tree()
        self.leaves: dict[int, int] = {}
        """The leaf of each category number in use."""
        self.names: dict[int, str] = {}
        """What tells the category from the others of its rule; empty if nothing does."""
        self.table = EMPTY
        self._compiled = compile_table(EMPTY)
        self.last_slot = -1
        """The slot given last; those before it come again only after a round."""
        self.follow(rules)

    def follow(self, rules: Rules) -> None:
        """Other rules from now on; one that was there before keeps its slot."""
        kept = {(rule.name, rule.conditions): slot for slot, rule in self.rules.items()}
        found = {}
        for rule in rules:
            slot = kept.pop((rule.name, rule.conditions), None)
            found[self._new_slot() if slot is None else slot] = rule
        self.rules = found
        self._slots = list(found)
        bare = tuple(TableRule(rule.name, rule.conditions, -1) for rule in rules)
        self._compiled_rules = compile_table(DecisionTable(0, 1, bare, ()))

    def go_on(self, slots: dict[int, Rule], last: int) -> None:
        """The rules had these slots before: those of them that are still there have them again."""
        rules = tuple(self.rules.values())
        self.rules, self.last_slot = slots, last
        self.follow(rules)

    def rule_of(self, features: Features) -> int:
        """Slot of the first rule that fits, the position being set; the last one always does."""
        return self._slots[int(rule_of(self._compiled_rules, features))]

    def rules_of(self, features: Features) -> tuple[int, int]:
        """Slots of the rules for a request's new blocks and for those carried over."""
        found = []
        for position in (0, 1):
            features[POSITION] = position
            found.append(self.rule_of(features))
        return found[0], found[1]

    def of(self, features: Features) -> tuple[int, int]:
        """Category ids of a request's new blocks and of those carried over."""
        found = []
        for position in (0, 1):
            features[POSITION] = position
            found.append(int(classify(self._compiled, features)))
        return found[0], found[1]

    def use(self, tree: Tree, words: Words) -> list[int]:
        """Divide by this tree from now on, unless too few numbers are free; the new numbers."""
        before = set(self.numbering.numbers().values())
        leaves = tree.leaves
        if not self.numbering.take(tree.branches[leaf].masks for leaf in leaves):
            return []
        numbers = self.numbering.numbers()
        self.tree = tree
        self.leaves = {numbers[tree.branches[leaf].masks]: leaf for leaf in leaves}
        self.names = {
            number: name_of(tree.branches[leaf].masks, words)
            for number, leaf in self.leaves.items()
        }
        self.table = self._table(tree, words)
        self._compiled = compile_table(self.table)
        return sorted(set(self.leaves) - before)

    def numbers(self, slot: int) -> list[int]:
        """The category numbers of a rule, those of regions that are gone included."""
        numbering = self.numbering
        held = {**{n: r for r, n in numbering.numbers().items()}, **numbering.retired}
        return [number for number, region in held.items() if region[0] == slot]

    def name(self, number: int) -> tuple[str, str]:
        """Rule, and what tells the category from the others of the rule; empty if nothing does."""
        slot = self.tree.branches[self.leaves[number]].masks[0]
        return self.rules[slot].name if slot in self.rules else "", self.names[number]

    def drained(self, cached: Sequence[int]) -> None:
        """The engine has the table of now, and so many cached blocks of each category id."""
        self.numbering.drained(cached, self.numbering.changes)

    def _new_slot(self) -> int:
        while True:
            self.last_slot = (self.last_slot + 1) % SLOTS
            if self.last_slot not in self.rules:
                return self.last_slot

    def _table(self, tree: Tree, words: Words) -> DecisionTable:
        place = {}
        forks = 0
        numbers = {leaf: number for number, leaf in self.leaves.items()}
        for index, branch in enumerate(tree.branches):
            if branch.fork is None:
                place[index] = -1 - numbers[index]
            else:
                place[index] = forks
                forks += 1
        nodes = tuple(
            Node(_condition(branch.fork, words), *(place[way] for way in branch.ways))
            for branch in tree.branches
            if branch.fork is not None
        )
        rules = tuple(
            TableRule(rule.name, rule.conditions, place[tree.roots[slot]])
            for slot, rule in self.rules.items()
        )
        return DecisionTable(self.lineage, self.numbering.count, rules, nodes)


def _condition(fork: Fork, words: Words) -> Condition:
    """What a request must fulfil to be inside."""
    feature = REFINED[fork.column - 1]
    if WORDED[fork.column - 1]:
        row = fork.column - 1 - int(np.argmax(WORDED))
        digest = float(words[row, fork.value - 1]["digest"])
        return Condition(feature, digest, digest)
    edge = BUCKETS[feature][fork.value]
    return Condition(feature, -math.inf, math.nextafter(edge, -math.inf))


def name_of(masks: Sequence[int], words: Words) -> str:
    """A region in words, say ``turn 2-3, carried, gap <2``."""
    found = []
    for column in range(1, COLUMNS):
        feature = REFINED[column - 1]
        most = PLACES if feature not in BUCKETS else len(BUCKETS[feature])
        held = [bucket for bucket in range(most + 1) if masks[column] >> bucket & 1]
        if len(held) <= most:
            found.append(bucket_text(column, held[0], held[-1], words))
    return ", ".join(found)
