"""A sound first recipe for a model and a data set, sized to the share of the budget that a first trial may take.

Learning rates come from published sweeps (tinker-cookbook, alignment-handbook) and, for the smallest models, from
our own measurements of short runs; see `SIZES`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from memory.records import DataRecipe, Deduplicate, Select, TrainingRecipe
from tools.proposers.brief import MICRO_COST, SAFETY, Brief, Stop
from tools.proposers.factors import Recipe, changed

FEWEST_VISITS = 64
"""Row visits below which a trial shows nothing: 50 to 100 good rows show whether tuning works (OpenAI's guide)."""
FIRST_SHARE = 0.12
"""Share of the trainable seconds that a first of several trials takes: 10 to 20 % of a training already ranks recipes
(Tuning Playbook), and what is left goes into the one that won."""
FIRST_VISITS = 400
"""Row visits that a first trial should see: 100 optimiser steps of 4 rows (tinker-cookbook's floor). With half of that
`syllogism` learnt only which answer is the more frequent one."""
FIRST_SHARE_AT_MOST = 0.25
"""Share that a first trial takes at most to reach `FIRST_VISITS`."""
FIXED_AT_MOST = 0.45
"""Share of the spendable seconds that the fixed costs of all planned trials may take; beyond it, fewer trials are
planned."""


@dataclass(frozen=True)
class Size:
    """Learning rates for models of at most `parameters` weights, at the small batches of short runs."""

    parameters: float
    lora: float
    low: float
    high: float
    """Bounds of the search for LoRA."""
    full: float
    """Learning rate for training all weights."""


# The smallest size is ours: at batch 8, 3e-3 beat 1e-3 and 5e-4 (49, 33, 24 % on `family_relationships`). That is 2e-3
# at batch 4, as the best rate goes with the square root of the batch. 4e-3 at batch 8 diverges after a hundred steps.
SIZES = (
    Size(4e8, lora=2e-3, low=3e-4, high=3e-3, full=2e-4),
    Size(2e9, lora=5e-4, low=1e-4, high=2e-3, full=5e-5),
    Size(5e9, lora=3e-4, low=1e-4, high=1e-3, full=2e-5),
    Size(1e10, lora=2e-4, low=5e-5, high=1e-3, full=1e-5),
    Size(math.inf, lora=2e-4, low=5e-5, high=5e-4, full=5e-6),
)
EPOCHS: tuple[tuple[float, float, float], ...] = (
    (300, 4, 10),
    (2_000, 3, 5),
    (20_000, 2, 3),
    (200_000, 1, 2),
    (math.inf, 1, 1),
)
"""Below so many unique rows: epochs to start with at most, and epochs at most (LIMA; Axolotl and Unsloth guides)."""


INHERITED = ("method", "lora_rank", "lora_alpha", "lora_dropout", "warmup_ratio", "schedule", "weight_decay")
"""What a first trial takes over from an earlier run, beside the learning rate. Rows, epochs and batch go with the time
and the rows of the run at hand."""


def size_of(parameters: int) -> Size:
    """The row of `SIZES` for a model of so many weights."""
    return next(size for size in SIZES if parameters <= size.parameters)


def most_epochs(rows: int, *, start: bool = False) -> float:
    """Epochs that so many unique rows bear: to start with, or at most."""
    return next(first if start else most for limit, first, most in EPOCHS if rows < limit)


def rounded(value: float) -> float:
    """A learning rate with two significant digits."""
    return float(f"{value:.1e}")


def sequence_length(longest_row: int) -> int:
    """Room for the longest row, in steps of 64 tokens."""
    return max(128, math.ceil((longest_row + 8) / 64) * 64)


def batch_for(visits: float) -> int:
    """Effective batch: the largest that leaves enough optimiser steps (at least 100, more for larger batches)."""
    return next((batch for batch, steps in ((32, 500), (16, 250), (8, 100)) if visits / batch >= steps), 4)


def rows_at_once(batch: int) -> dict[str, int]:
    """An effective batch with its rows in memory: all of them, up to eight."""
    return {"batch_size": batch, "micro_batch": min(batch, 8)}


def rows_and_epochs(brief: Brief, visits: int) -> tuple[int, float]:
    """Spend row visits on unique rows first, then on epochs in quarters up to what the rows bear to start with."""
    rows = min(visits, brief.rows_available)
    epochs = min(visits / max(1, rows), most_epochs(rows, start=True))
    return rows, max(1.0, math.floor(epochs * 4) / 4)


def planned_trials(brief: Brief) -> int:
    """How many trials the whole budget bears: `min_trials`, or fewer where their fixed costs would eat the training."""
    whole = brief.spendable + sum(trial.seconds for trial in brief.trials)
    allowed = (
        brief.min_trials if brief.trials_left is None else min(brief.min_trials, brief.trials_left + len(brief.trials))
    )
    return max(1, min(allowed, int(FIXED_AT_MOST * whole / max(1e-6, brief.fixed_seconds))))


def slots(brief: Brief) -> tuple[int, int]:
    """How many trials to plan for, and the row visits of the first of them; zero trials where none is useful."""
    for trials in range(planned_trials(brief), 0, -1):
        visits = brief.row_visits((brief.spendable - trials * brief.fixed_seconds) * SAFETY)
        first = visits if trials == 1 else min(visits * FIRST_SHARE_AT_MOST, max(visits * FIRST_SHARE, FIRST_VISITS))
        if first >= FEWEST_VISITS:
            return trials, int(first)
    return 0, 0


def starting_recipe(brief: Brief) -> tuple[DataRecipe, TrainingRecipe] | Stop:
    """The first recipe: LoRA on as many unique rows as the first slot can see, answer-only loss, room for the
    longest row."""
    if brief.rows_available == 0:
        return Stop(reason="No training rows. Give a benchmark with a training split, or raise the sample cap.")
    trials, visits = slots(brief)
    if trials == 0:
        needed = brief.fixed_seconds + FEWEST_VISITS * brief.row_tokens * brief.speed
        return Stop(
            reason=f"{brief.spendable:.0f} s are left for trials, and the smallest useful one takes {needed:.0f} s. "
            "Give a larger budget."
        )
    batch = rows_at_once(batch_for(visits))
    rows, epochs = rows_and_epochs(brief, max(1, int(visits / MICRO_COST[batch["micro_batch"]])))
    training = TrainingRecipe(
        learning_rate=size_of(brief.model.parameters).lora,
        epochs=epochs,
        batch_size=batch["batch_size"],
        micro_batch=batch["micro_batch"],
        sequence_len=sequence_length(brief.longest_row),
        seed=brief.task.seed,
    )
    return DataRecipe(operators=(Deduplicate(), Select(rows=rows, seed=brief.task.seed))), training


def as_remembered(brief: Brief, recipe: Recipe) -> Recipe:
    """The recipe with the settings that won in an earlier run, its learning rate fitted to the batch at hand: the best
    one goes with the square root of the batch (tinker-cookbook). Unchanged where nothing is remembered, or where that
    training does not run here or does not fit the time."""
    if brief.remembered is None:
        return recipe
    won = brief.remembered.training
    settings = {name: getattr(won, name) for name in INHERITED}
    rate = won.learning_rate * math.sqrt(recipe.training.batch_size / won.batch_size)
    mended = changed(recipe, learning_rate=rounded(rate), **settings)
    runs = won.method != "qlora" or brief.device == "cuda"
    fitting = brief.training_seconds(mended.data, mended.training) <= brief.training_room
    return mended if runs and fitting else recipe
