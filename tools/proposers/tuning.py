"""The numbers of a recipe, tuned by Optuna: a planner names the number, and the scores so far say what it is set to.

A trial tunes one number and leaves all else as in its parent, so that a change of the score has one cause. Only trials
that differ in this number alone say something about it; equal briefs draw equal numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Literal, get_args

from optuna.distributions import FloatDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from memory.records import Trial
from tools.proposers.bounds import RefusedError, bounded
from tools.proposers.brief import Brief
from tools.proposers.factors import Recipe, changed, differing, factors, near, shown
from tools.proposers.history import recipe_of, rows_open, tried
from tools.proposers.sampler import Space, draws, inside, points
from tools.proposers.starting_recipe import FEWEST_VISITS, most_epochs, rounded, rows_at_once, size_of

Tunable = Literal["learning_rate", "epochs", "batch_size", "lora_rank", "rows"]
NUMBERS: tuple[Tunable, ...] = get_args(Tunable)
Towards = Literal["lower", "higher"] | None

MODEL_FROM = 3
"""Comparable trials from which Optuna's TPE models one number; with fewer, quasi-random points cover its range."""
BLAMED = ("DIVERGED", "OOM")
"""Failures that a number can cause: they count as bad as the worst score. Others say nothing about it."""
BATCHES, RANKS = (2.0, 64.0), (4.0, 128.0)
FEWEST_EPOCHS = 0.5
SMALLEST_SHARE = 0.25
"""Of the parent's rows: with fewer, hardly anything can be expected."""


def tuned(brief: Brief, start: Recipe, number: Tunable | Literal["all"], towards: Towards) -> tuple[Recipe, str]:
    """The recipe with a number drawn anew, or with `all`, and in words how. Raises RefusedError where no value is both
    new and within what machine and time allow."""
    if number == "all":
        recipe = next((drawn for drawn in draws(brief, start) if usable(brief, start, drawn)), None)
        how, where = f"drawn by Optuna around it from {len(brief.trials)} trials", "all numbers around it"
    else:
        recipe, how, where = _one_tuned(brief, start, number, towards)
    if recipe is None:
        room = f"{brief.training_room:.0f} s are left for training"
        raise RefusedError(f"No value of {where} is new and fits ({room}): change something else.")
    old, new = factors(start), factors(recipe)
    names = [name for name in differing(start, recipe) if name in old]
    return recipe, f"{', '.join(f'{name} {shown(old[name])} -> {shown(new[name])}' for name in names)}, {how}"


def _one_tuned(brief: Brief, start: Recipe, number: Tunable, towards: Towards) -> tuple[Recipe | None, str, str]:
    """The first draw of one number that can be run, how it was drawn, and from where."""
    low, high = reach(brief, start, number, towards)
    where = f"{number} from {shown(GRID[number](low))} to {shown(GRID[number](high))}"
    if low >= high:
        return None, "", where
    space: Space = {number: FloatDistribution(low, high, log=True)}
    history = list(evidence(brief, start, number, space))
    modelled = len(history) >= MODEL_FROM
    drawn = points(space, history, brief.task.seed, modelled=modelled)
    recipes = (with_(start, number, point[number]) for point in drawn)
    how = f"by Optuna's TPE from {len(history)} comparable trials" if modelled else "a first spread over its range"
    return next((one for one in recipes if usable(brief, start, one)), None), f"{how} ({where})", where


def reach(brief: Brief, start: Recipe, number: Tunable, towards: Towards) -> tuple[float, float]:
    """Lowest and highest value that a number may take, as data, time and the model's size allow."""
    size, training = size_of(brief.model.parameters), start.training
    visits = brief.row_visits(brief.training_room, training)
    rates = (size.full / 10, size.full * 5) if training.method == "full" else (size.low, size.high)
    rows = max(1, start.rows)
    low, high = {
        "learning_rate": rates,
        "epochs": (FEWEST_EPOCHS, min(most_epochs(rows), visits / rows)),
        "batch_size": (BATCHES[0], min(BATCHES[1], rows)),
        "lora_rank": RANKS,
        "rows": (
            max(1.0, SMALLEST_SHARE * rows, FEWEST_VISITS / training.epochs),
            min(rows_open(brief, start), visits / training.epochs),
        ),
    }[number]
    now = value_of(start, number)
    return (max(low, now) if towards == "higher" else low), (min(high, now) if towards == "lower" else high)


def evidence(brief: Brief, start: Recipe, number: Tunable, space: Space) -> Iterator[FrozenTrial]:
    """The comparable trials in the number's range, as Optuna's: the number, and the validation score."""
    worst = min((brief.value(trial) for trial in brief.scored), default=0.0)
    for trial in comparable(brief, start, number):
        value = value_of(recipe_of(brief, trial), number)
        if inside(space[number], value):
            score = brief.value(trial) if trial.score else worst
            yield create_trial(state=TrialState.COMPLETE, params={number: value}, distributions=space, value=score)


def comparable(brief: Brief, start: Recipe, number: Tunable) -> list[Trial]:
    """Trials with a score, or a failure that the number may have caused, that differ from a recipe in it alone."""
    same = ("seed", "select_seed", "sequence_len", number)
    table = factors(start)
    return [
        trial
        for trial in brief.trials
        if (trial.score or (trial.failure and trial.failure.kind in BLAMED))
        and near(changed(recipe_of(brief, trial), **{name: table[name] for name in same}), start)
    ]


def usable(brief: Brief, start: Recipe, recipe: Recipe) -> bool:
    """Whether a recipe differs from its start, is not like any trial, and can be run as it is."""
    if not differing(start, recipe) or tried(brief, recipe):
        return False
    try:
        fitting, _ = bounded(brief, recipe)
    except RefusedError:
        return False
    return not set(differing(recipe, fitting)) - {"sequence_len"}


def value_of(recipe: Recipe, number: Tunable) -> float:
    """A number of a recipe."""
    return float(factors(recipe)[number] or 0)


def with_(recipe: Recipe, number: Tunable, value: float) -> Recipe:
    """The recipe with a number at the nearest value that people would write."""
    nice = GRID[number](value)
    if number == "batch_size":
        return changed(recipe, **rows_at_once(int(nice)))
    return changed(recipe, **{number: nice})


def _power_of_two(value: float) -> int:
    return 1 << round(math.log2(max(1.0, value)))


def _quarters(value: float) -> float:
    return max(0.25, math.floor(4 * value) / 4)


GRID: dict[Tunable, Callable[[float], int | float]] = {
    "learning_rate": rounded,
    "epochs": _quarters,
    "batch_size": _power_of_two,
    "lora_rank": _power_of_two,
    "rows": int,
}
"""How each number is written."""
