"""The reference without thought: one fine-tune on all data with the settings that guides and examples start from.

Rank 16, alpha 32, dropout 0.05, learning rate 2e-4 and the cosine schedule are Axolotl's own LoRA example for its
smallest models (examples/llama-3/lora-1b.yml). 2e-4 is also the starting point of Unsloth's hyperparameter guide, which
recommends 1 to 3 epochs. Three epochs and a batch of 8 are the defaults of Transformers' TrainingArguments. None of
it is fitted to the task, the model's size or the machine.

The recipe is proposed whole. Where the validator's micro-run shows that it does not fit the time, it is cut to what
does, first epochs, then rows: what a person does who starts a training, reads how long it will take, and starts
again. That costs one preflight and no training, and the assumed speed of a machine never makes the reference smaller.
"""

from __future__ import annotations

import math

from memory.records import DataRecipe, Plan, Select, TrainingRecipe
from tools.proposers.brief import Brief, Stop
from tools.proposers.factors import Recipe
from tools.proposers.history import tried
from tools.proposers.repairs import persistent_failure
from tools.proposers.starting_recipe import FEWEST_VISITS, sequence_length

LEARNING_RATE = 2e-4
EPOCHS = 3.0
BATCH = 8
RANK, ALPHA, DROPOUT = 16, 32, 0.05
WARMUP = 0.05
CUT_AT_LEAST = 0.75
"""A training that was refused for its length is cut to this share of it at the most."""


def propose(brief: Brief) -> Plan | Stop:
    """The one fine-tune, cut to the time left once that is known to be short, and once more where the machine failed;
    then the end. Never a second attempt at a better recipe."""
    if brief.scored:
        return Stop(reason="The one default fine-tune is done.")
    if brief.trials_left == 0:
        return Stop(reason=f"All {len(brief.trials)} trials that were allowed are done.")
    if (why := persistent_failure(brief)) is not None:
        return Stop(reason=why)
    if brief.rows_available == 0:
        return Stop(reason="No training rows. Give a benchmark with a training split, or raise the sample cap.")
    recipe = _recipe(brief)
    if recipe is None:
        return Stop(reason=f"{brief.training_room:.0f} s are left for training, too few for {FEWEST_VISITS} rows.")
    last = brief.trials[-1].failure if brief.trials else None
    if last is not None and last.kind != "ENV" and tried(brief, recipe, exactly=True):
        return Stop(reason=f"The default fine-tune failed with {last.kind}: {last.message}")
    return _plan(brief, recipe)


def _recipe(brief: Brief) -> Recipe | None:
    """The default settings: whole where nothing was refused for its length, else cut to the time left; None where
    that bears no training that shows anything."""
    rows, epochs = brief.rows_available, EPOCHS
    too_long = [
        Recipe(data=trial.plan.data, training=trial.plan.training).visits
        for trial in brief.trials
        if trial.failure is not None and trial.failure.kind == "BUDGET"
    ]
    if too_long:
        visits = int(min(brief.row_visits(brief.training_room), CUT_AT_LEAST * min(too_long)))
        if visits < FEWEST_VISITS:
            return None
        epochs = max(1.0, min(EPOCHS, math.floor(4 * visits / rows) / 4))
        rows = min(rows, visits)
    training = TrainingRecipe(
        learning_rate=LEARNING_RATE,
        epochs=epochs,
        batch_size=BATCH,
        micro_batch=BATCH,
        lora_rank=RANK,
        lora_alpha=ALPHA,
        lora_dropout=DROPOUT,
        warmup_ratio=WARMUP,
        schedule="cosine",
        sequence_len=sequence_length(brief.longest_row),
        seed=brief.task.seed,
    )
    return Recipe(data=DataRecipe(operators=(Select(rows=rows, seed=brief.task.seed),)), training=training)


def _plan(brief: Brief, recipe: Recipe) -> Plan:
    training = recipe.training
    whole = recipe.rows == brief.rows_available and training.epochs == EPOCHS
    size = f"{recipe.rows} of {brief.rows_available} rows, {training.epochs:g} of {EPOCHS:g} epochs"
    return Plan(
        number=brief.number,
        parent=None,
        diagnosis="None is made: these are the settings that guides and examples start from."
        + ("" if whole else f" All of it was refused for its length; {brief.training_room:.0f} s are left."),
        hypothesis=f"{size} at learning rate {LEARNING_RATE:g}, rank {RANK} and batch {BATCH} beat the base model.",
        change=None,
        expected_gain=0.0,
        data=recipe.data,
        training=training,
        proposer="default",
        predicted_seconds=round(brief.trial_seconds(recipe.data, training), 1),
    )
