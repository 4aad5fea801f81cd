"""Trials that belong together: those whose weights one went on from, those that ran one recipe under other seeds; and
which of them all stands for the run."""

from __future__ import annotations

import math
from collections.abc import Sequence

from memory.records import Comparison, Decision, Plan, Trial


def went_on_from(number: int | None, trials: Sequence[Trial]) -> list[Trial]:
    """Trial `number` and those that its weights went through before, oldest first; none for None, the base model.

    A plan may name a trial that does not exist, or itself, and is refused for it: the list ends before such a one.
    """
    by_number = {trial.number: trial for trial in trials}
    found: list[Trial] = []
    while number is not None and number in by_number and (not found or number < found[0].number):
        found.insert(0, by_number[number])
        number = found[0].plan.training.continue_from
    return found


def same_recipe(plan: Plan, trials: Sequence[Trial]) -> list[Trial]:
    """The trials that ran the plan's recipe, whatever their seed; the plan's own among them if it has ended."""
    first = plan.repeats or plan.number
    return [trial for trial in trials if first in (trial.number, trial.plan.repeats)]


def rose(decision: Decision, comparison: Comparison | None) -> bool:
    """Whether a trial came out above the incumbent of its moment: it was accepted, or its rise may be noise. It may be
    grown from, and handed over."""
    higher = comparison is not None and comparison.difference > 0
    return decision == "accepted" or (decision == "inconclusive" and higher)


def winner(trials: Sequence[Trial]) -> Trial | None:
    """The trial that is handed over: the best on validation of those that rose; of equals, the last accepted one.

    None until one of them was accepted, that is shown to be better than the base model. From there on the choice is
    between tuned models and claims nothing, so the better estimate is taken, significant or not.
    """
    accepted = last_accepted(trials)
    if accepted is None:
        return None
    risen = [trial for trial in trials if rose(trial.decision, trial.comparison)]
    return max([accepted, *risen], key=lambda trial: trial.score.oriented if trial.score else -math.inf)


def last_accepted(trials: Sequence[Trial]) -> Trial | None:
    """The last accepted trial of `trials`, oldest first; where its recipe ran under several seeds, the best of them."""
    accepted = next((trial for trial in reversed(trials) if trial.decision == "accepted"), None)
    if accepted is None or accepted.plan.repeats is None:
        return accepted
    seeds = [trial for trial in same_recipe(accepted.plan, trials) if trial.score]
    return max(seeds, key=lambda trial: trial.score.oriented if trial.score else 0.0)
