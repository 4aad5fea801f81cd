"""Remedies fitted to the time left: cut to it, or stretched into it where no further trial would use it up."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log2

from tools.proposers.brief import SNAPSHOT_SECONDS, Brief
from tools.proposers.diagnosis import EPOCHS_GAIN, ROWS_GAIN, gain_of_rows
from tools.proposers.factors import Recipe, changed
from tools.proposers.history import AMOUNTS, rows_open, tried
from tools.proposers.look import WORTHWHILE, Diagnosis
from tools.proposers.starting_recipe import most_epochs, planned_trials
from tools.proposers.worth import GROWTH_CONFIDENCE, gain_of

MOST_LOOKS = 3
LOOKING_SHARE = 0.2
"""Share of a training's time that may go into scoring its snapshots."""
SURE = 0.6
"""Confidence from which a remedy may be combined with growth in a last trial, unseen at the smaller size."""


def looks(brief: Brief, recipe: Recipe) -> Recipe:
    """The recipe with a snapshot after each epoch but the last, where there are several and looking costs little: its
    best point by the metric need not be its end."""
    training, room = recipe.training, brief.training_room - brief.training_seconds(recipe.data, recipe.training)
    each = brief.evaluation_seconds + SNAPSHOT_SECONDS
    affordable = min(LOOKING_SHARE * brief.training_seconds(recipe.data, training), room) / each
    return changed(recipe, snapshots=max(0, min(MOST_LOOKS, ceil(training.epochs) - 1, int(affordable))))


def all_rows_and_epochs(brief: Brief, recipe: Recipe) -> list[Diagnosis]:
    """All rows, and as many epochs over them as the time left pays for: where rows alone cannot use it up."""
    rows = rows_open(brief, recipe)
    fitting = brief.row_visits(brief.training_room, recipe.training)
    epochs = int(4 * min(fitting / rows, most_epochs(rows, start=True))) / 4
    mended = changed(recipe, rows=rows, epochs=max(epochs, 1.0))
    if recipe.training.objective != "sft":
        return []  # questions that must first be asked do not count as rows
    if rows < WORTHWHILE * recipe.rows or epochs < WORTHWHILE * recipe.training.epochs or tried(brief, mended):
        return []
    gain = gain_of_rows(brief, recipe, rows) + EPOCHS_GAIN * log2(epochs / recipe.training.epochs)
    return [
        Diagnosis(
            cause="rows are left, and more time than they take",
            figure=f"trained on {recipe.rows} of {rows} rows, {brief.training_room:.0f} s are left for training",
            remedy=f"rows {recipe.rows} -> {rows} and epochs {recipe.training.epochs:g} -> {epochs:g}",
            factor="several",
            recipe=mended,
            gain=gain,
            confidence=GROWTH_CONFIDENCE,
            source="accuracy is about log-linear in rows (RFT, 2308.01825); our reference runs",
        )
    ]


def stretched(brief: Brief, remedies: Sequence[Diagnosis]) -> list[Diagnosis]:
    """Sure remedies with rows for all the time left: where the planned trials are used up, a small trial of the remedy
    would leave no time to grow it."""
    if planned_trials(brief) > len(brief.trials) + 1:
        return []
    found = []
    for one in remedies:
        recipe = one.recipe
        fitting = int(brief.row_visits(brief.training_room, recipe.training) / recipe.training.epochs)
        rows = min(rows_open(brief, recipe), fitting)
        mended = changed(recipe, rows=max(1, rows))
        grown = one.factor in (*AMOUNTS, "continue_from")
        if grown or one.confidence < SURE or rows < WORTHWHILE * recipe.rows or tried(brief, mended):
            continue
        gain = one.gain + GROWTH_CONFIDENCE * gain_of_rows(brief, recipe, rows) / one.confidence
        remedy = f"{one.remedy}, with rows {recipe.rows} -> {rows} for the time left,"
        found.append(one.model_copy(update={"recipe": mended, "gain": gain, "remedy": remedy, "factor": "several"}))
    return found


def cut(brief: Brief, remedies: Sequence[Diagnosis]) -> Diagnosis | None:
    """The best remedy that does not fit, with its rows cut to the time left; None where the cut costs more than it
    brings."""
    cuts = []
    for one in remedies:
        rows = int(brief.row_visits(brief.training_room, one.recipe.training) / one.recipe.training.epochs)
        share = rows / one.recipe.rows
        gain = one.gain + ROWS_GAIN * log2(share) / one.confidence if 0 < share < 1 else 0.0
        mended = changed(one.recipe, rows=max(1, rows))
        if gain > 0 and not tried(brief, mended):
            remedy = f"{one.remedy} with rows cut to {rows} for the time left"
            cuts.append(one.model_copy(update={"recipe": mended, "gain": gain, "remedy": remedy}))
    return max(cuts, key=lambda one: gain_of(brief, one), default=None)
