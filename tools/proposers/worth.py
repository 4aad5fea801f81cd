"""What a next trial is worth: its own expected gain, and what the time that it leaves can still bring.

All gains are shares of the distance between a trial's score and the ceiling, so that they compare across metrics.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import log2

from memory.records import Trial
from tools.proposers.brief import SAFETY, Brief
from tools.proposers.diagnosis import EPOCHS_GAIN, ROWS_GAIN
from tools.proposers.factors import Recipe, changed
from tools.proposers.history import attempts, recipe_of, rows_seen, visits_seen
from tools.proposers.look import WORTHWHILE, Diagnosis
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
    scored trials that differ in it alone, averaged with equal weight; never negative. Going on from trained weights
    with new rows counts as a growth of rows."""
    seen = [AMOUNTS[factor]]
    for before, after, growth in growths(brief, factor):
        distance = max(SMALLEST_HEADROOM, brief.headroom(brief.value(before)))
        share = (brief.value(after) - brief.value(before)) / distance
        seen.append(max(-1.0, min(1.0, share)) / log2(growth))
    return max(0.0, sum(seen) / len(seen))


def growths(brief: Brief, factor: str) -> Iterator[tuple[Trial, Trial, float]]:
    """Pairs of scored trials of which the second saw more of `factor` and differs in nothing else, and how many times
    more."""
    scored = {trial.number: trial for trial in brief.scored}
    for attempt in attempts(brief, factor):
        before, after = attempt.before, attempt.after
        pair = scored.get(attempt.parent), scored.get(attempt.trial)
        amounts = isinstance(before, int | float) and isinstance(after, int | float) and after > before
        if pair[0] and pair[1] and amounts:
            yield pair[0], pair[1], float(after or 0) / float(before or 1)
    for attempt in attempts(brief, "continue_from") if factor == "rows" else ():
        pair = scored.get(attempt.parent), scored.get(attempt.trial)
        if pair[0] and pair[1]:
            rows = [rows_seen(brief, recipe_of(brief, trial)) for trial in pair if trial]
            if rows[1] > rows[0]:
                yield pair[0], pair[1], rows[1] / rows[0]


def gain_of(brief: Brief, diagnosis: Diagnosis) -> float:
    """Expected share of the headroom: `confidence * gain`, the gain corrected by what this run has learned of the
    factor."""
    amount = "rows" if diagnosis.factor == "continue_from" else diagnosis.factor
    correction = learned(brief, amount) / AMOUNTS[amount] if amount in AMOUNTS else 1.0
    return diagnosis.confidence * diagnosis.gain * correction


def growth_left(brief: Brief, recipe: Recipe, seconds: float) -> float:
    """Expected share of the headroom from one further trial of `seconds` that goes on from `recipe`: with new rows, or
    with more epochs where rows are used up. 0 where that cannot pay."""
    seen, rows = visits_seen(brief, recipe), rows_seen(brief, recipe)
    room = brief.row_visits((seconds - brief.fixed_seconds) * SAFETY, recipe.training)
    name, most = ("rows", brief.rows_available / rows)
    if most < WORTHWHILE:
        name, most = "epochs", most_epochs(rows) * rows / seen
    growth = min((seen + room) / seen, most)
    return GROWTH_CONFIDENCE * learned(brief, name) * log2(growth) if growth >= WORTHWHILE else 0.0


def worth(brief: Brief, diagnosis: Diagnosis, parent: Recipe) -> float:
    """Expected share of the headroom after the diagnosis's trial and, if another may follow, growth into the rest.
    What was taken away from the parent is not counted as room to grow."""
    if brief.trials_left is not None and brief.trials_left < 2:
        return gain_of(brief, diagnosis)
    recipe = diagnosis.recipe
    rest = brief.spendable - brief.trial_seconds(recipe.data, recipe.training)
    if recipe.training.continue_from is None:
        rows, epochs = max(recipe.rows, parent.rows), max(recipe.training.epochs, parent.training.epochs)
        recipe = changed(recipe, rows=rows, epochs=epochs)
    return gain_of(brief, diagnosis) + growth_left(brief, recipe, rest)


def fits(brief: Brief, recipe: Recipe) -> bool:
    """Whether a trial of this recipe fits the time left, with the margin for the estimate's error."""
    return brief.training_seconds(recipe.data, recipe.training) <= brief.training_room


def leaves_room(brief: Brief, recipe: Recipe) -> bool:
    """Whether enough trials of the same size still fit afterwards to reach the number that the budget was planned
    for."""
    further = planned_trials(brief) - len(brief.trials) - 1
    cost = brief.trial_seconds(recipe.data, recipe.training)
    return further <= 0 or brief.spendable >= cost * (1 + further)
