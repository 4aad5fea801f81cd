"""What a next trial is worth: its own expected gain, and what the time that it leaves can still bring.

All gains are shares of the distance between a trial's score and the ceiling, so that they compare across metrics.
"""

from __future__ import annotations

from math import log2

from tools.proposers.brief import SAFETY, Brief
from tools.proposers.diagnosis import EPOCHS_GAIN, ROWS_GAIN, WORTHWHILE, Diagnosis
from tools.proposers.factors import Recipe, changed
from tools.proposers.history import attempts
from tools.proposers.starting_recipe import most_epochs, planned_trials

GROWTH_CONFIDENCE = 0.7
"""How often growth pays, where no figure speaks for it in particular."""
AMOUNTS = {"rows": ROWS_GAIN, "epochs": EPOCHS_GAIN}
"""Factors whose gain counts by doublings, with the share of the headroom that one doubling closes before this run
knows better."""
SMALLEST_HEADROOM = 0.05
"""Distances below this say more about noise than about a lever."""


def learned(brief: Brief, factor: str) -> float:
    """Share of the headroom that a doubling of `factor` closes in this run: the reference figure and every pair of
    scored trials that differ in it alone, averaged with equal weight; never negative."""
    seen = [AMOUNTS[factor]]
    values = {trial.number: brief.value(trial) for trial in brief.scored}
    for attempt in attempts(brief, factor):
        before, after = attempt.before, attempt.after
        if (
            not {attempt.parent, attempt.trial} <= values.keys()
            or isinstance(before, str | None)
            or isinstance(after, str | None)
        ):
            continue
        if after > before:
            distance = max(SMALLEST_HEADROOM, brief.headroom(values[attempt.parent]))
            share = (values[attempt.trial] - values[attempt.parent]) / distance
            seen.append(max(-1.0, min(1.0, share)) / log2(after / before))
    return max(0.0, sum(seen) / len(seen))


def gain_of(brief: Brief, diagnosis: Diagnosis) -> float:
    """Expected share of the headroom: `confidence * gain`, the gain corrected by what this run has learned of the
    factor."""
    correction = learned(brief, diagnosis.factor) / AMOUNTS[diagnosis.factor] if diagnosis.factor in AMOUNTS else 1.0
    return diagnosis.confidence * diagnosis.gain * correction


def growth_left(brief: Brief, recipe: Recipe, seconds: float) -> float:
    """Expected share of the headroom from growing one amount of `recipe`, in one further trial, into `seconds`:
    rows, or epochs where rows are used up. 0 where that cannot pay."""
    training = brief.training_seconds(recipe.data, recipe.training)
    fitting = (seconds - brief.fixed_seconds) * SAFETY / training if training else 0.0
    by_rows = brief.rows_available / recipe.rows
    name, most = (
        ("rows", by_rows) if by_rows >= WORTHWHILE else ("epochs", most_epochs(recipe.rows) / recipe.training.epochs)
    )
    growth = min(fitting, most)
    return GROWTH_CONFIDENCE * learned(brief, name) * log2(growth) if growth >= WORTHWHILE else 0.0


def worth(brief: Brief, diagnosis: Diagnosis, parent: Recipe) -> float:
    """Expected share of the headroom after the diagnosis's trial and, if another may follow, growth into the rest.
    What was taken away from the parent is not counted as room to grow."""
    if brief.trials_left is not None and brief.trials_left < 2:
        return gain_of(brief, diagnosis)
    recipe = diagnosis.recipe
    rest = brief.spendable - brief.trial_seconds(recipe.data, recipe.training)
    rows, epochs = max(recipe.rows, parent.rows), max(recipe.training.epochs, parent.training.epochs)
    return gain_of(brief, diagnosis) + growth_left(brief, changed(recipe, rows=rows, epochs=epochs), rest)


def fits(brief: Brief, recipe: Recipe) -> bool:
    """Whether a trial of this recipe fits the time left, with the margin for the estimate's error."""
    return brief.training_seconds(recipe.data, recipe.training) <= brief.training_room


def leaves_room(brief: Brief, recipe: Recipe) -> bool:
    """Whether enough trials of the same size still fit afterwards to reach the number that the budget was planned
    for."""
    further = planned_trials(brief) - len(brief.trials) - 1
    cost = brief.trial_seconds(recipe.data, recipe.training)
    return further <= 0 or brief.spendable >= cost * (1 + further)
