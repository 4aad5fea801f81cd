"""The trials of a run as a tree, for the strategies that may grow from any of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from statistics import fmean
from typing import NamedTuple

from memory.records import Trial
from tools.proposers.brief import Brief
from tools.proposers.history import dead_end
from tools.proposers.look import Diagnosis
from tools.proposers.moves import Candidate, moves_of, repairs, worth_most


class Choice(NamedTuple):
    """What the next plan is made of."""

    parent: Trial
    change: Diagnosis
    why: str = ""
    """Why this trial and no other; empty where it is the best so far."""


Choose = Callable[[Brief], Choice | None]
"""A strategy: the next change, or None where no trial has one that fits the time left. Asked after the first trial.
Equal briefs get equal answers."""

MOST_TOLD = 3
"""Dead ends that a plan names."""


@dataclass(frozen=True)
class Node:
    """One scored recipe of the run with all that was grown from it; runs of one recipe under other seeds are one."""

    brief: Brief
    seeds: tuple[Trial, ...]
    """The scored trials of this recipe, oldest first."""
    children: tuple[Node, ...]
    failed: int
    """Trials grown from here that reached no score."""

    @cached_property
    def trial(self) -> Trial:
        """The seed to grow from: the best, of equals the last."""
        return max(self.seeds, key=lambda trial: (self.brief.value(trial), trial.number))

    @cached_property
    def value(self) -> float:
        """Mean validation score over its seeds, turned so that more is better."""
        return fmean(self.brief.value(trial) for trial in self.seeds)

    @cached_property
    def error(self) -> float:
        """Standard error of `value`."""
        errors = [trial.score.stderr for trial in self.seeds if trial.score]
        return sqrt(sum(error**2 for error in errors)) / len(errors)

    @cached_property
    def visits(self) -> int:
        """Trials here and below, failed ones included."""
        return len(self.seeds) + self.failed + sum(child.visits for child in self.children)

    @cached_property
    def dead(self) -> str | None:
        """Why nothing more should be grown from here; None where nothing speaks against it."""
        return dead_end(self.brief, self.trial)

    @cached_property
    def move(self) -> Candidate | None:
        """The untried change that is worth most here, a repair where the last trial grew from here and failed; None
        where none fits the time left."""
        last = self.brief.trials[-1]
        mended = repairs(self.brief, last) if stem_of(self.brief, last) == number_of(self.trial) else []
        return worth_most(self.brief, [*mended, *moves_of(self.brief, self.trial)])

    def below(self) -> Iterator[Node]:
        """Itself and all nodes below."""
        yield self
        for child in self.children:
            yield from child.below()


def roots(brief: Brief) -> tuple[Node, ...]:
    """The scored recipes that grew from no other one. What grew from a failed trial, as a repair does, counts as grown
    from what that one grew from."""
    by_number = {trial.number: trial for trial in brief.trials}
    grown: dict[int, dict[int, list[Trial]]] = {}
    for trial in brief.scored:
        grown.setdefault(_stem(by_number, trial), {}).setdefault(number_of(trial), []).append(trial)
    failed = [_stem(by_number, trial) for trial in brief.trials if trial.score is None]

    def above(stem: int) -> tuple[Node, ...]:
        recipes = grown.get(stem, {}).items()
        return tuple(Node(brief, tuple(seeds), above(number), failed.count(number)) for number, seeds in recipes)

    return above(0)


def nodes(brief: Brief) -> list[Node]:
    """All of them."""
    return [node for root in roots(brief) for node in root.below()]


def number_of(trial: Trial) -> int:
    """The number of the trial that ran this recipe first."""
    return trial.plan.repeats or trial.number


def stem_of(brief: Brief, trial: Trial) -> int:
    """The recipe that a trial grew from, past failed trials, by the number of its first trial; 0 for the base model."""
    return _stem({each.number: each for each in brief.trials}, trial)


def _stem(by_number: Mapping[int, Trial], trial: Trial) -> int:
    parent = by_number.get(by_number.get(number_of(trial), trial).plan.parent or 0)
    while parent is not None and parent.score is None:
        parent = by_number.get(parent.plan.parent or 0)
    return 0 if parent is None else number_of(parent)


def passed_over(all_nodes: Iterable[Node], chosen: Node) -> str:
    """The newest dead ends that a plan leaves alone, as sentences to follow the reason for its parent."""
    dead = {node.trial.number: node.dead for node in all_nodes if node.dead and node is not chosen}
    return "".join(f" {dead[number]}" for number in sorted(dead)[-MOST_TOLD:])
