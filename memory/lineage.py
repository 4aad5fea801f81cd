"""Trials that belong together: those whose weights one went on from, those that ran one recipe under other seeds."""

from __future__ import annotations

from collections.abc import Sequence

from memory.records import Plan, Trial


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


def last_accepted(trials: Sequence[Trial]) -> Trial | None:
    """The last accepted trial of `trials`, oldest first; where its recipe ran under several seeds, the best of them."""
    accepted = next((trial for trial in reversed(trials) if trial.decision == "accepted"), None)
    if accepted is None or accepted.plan.repeats is None:
        return accepted
    seeds = [trial for trial in same_recipe(accepted.plan, trials) if trial.score]
    return max(seeds, key=lambda trial: trial.score.oriented if trial.score else 0.0)
