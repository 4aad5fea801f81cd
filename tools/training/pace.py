"""The pace of a training that an earlier one of the same run has shown: no micro-run has to measure it again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memory.records import TrainingRecipe, Trial, Verdict
from tools.training.config import EAGER_TOKENS, first_rung
from tools.training.requests import Preflight

FEWEST_STEPS = 8
"""A training of fewer optimiser steps tells its pace no better than a micro-run does."""
LENGTH_CLASS = 1.25
"""Rows are of one class where their mean lengths differ by no more than this factor: the pace in tokens a second then
changes by a few per cent."""


@dataclass(frozen=True)
class Pace:
    """What an earlier training took."""

    trial: int
    token_seconds: float
    """Seconds for each token, padding included."""
    row_tokens: float
    """Mean length of its rows."""

    def applies_to(self, measured: Preflight) -> bool:
        """Whether the rows are of the class of those that it was measured on."""
        mean = sum(measured.lengths) / max(1, len(measured.lengths))
        return self.row_tokens / LENGTH_CLASS <= mean <= self.row_tokens * LENGTH_CLASS

    def predict(self, measured: Preflight, recipe: TrainingRecipe) -> Preflight:
        """The preflight with the time that the training takes at this pace."""
        seconds = recipe.epochs * measured.padded_tokens * self.token_seconds
        says = f"as fast as trial {self.trial}: {1 / self.token_seconds:.0f} padded tokens a second; no micro-run"
        return measured.model_copy(
            update={
                "predicted_seconds": seconds,
                "step_seconds": seconds / max(1, measured.total_steps),
                "timed": says,
            }
        )


def known_pace(recipe: TrainingRecipe, trials: Sequence[Trial]) -> Pace | None:
    """The pace of the newest trial whose steps cost what this recipe's will: same method and rank, same rows in memory
    at once, same way of attention. None where there is none, and for GRPO, whose answers take as long as the model
    makes them."""
    if recipe.objective == "grpo":
        return None
    for trial in reversed(trials):
        run, verdict = trial.training, trial.verdict
        if run is None or verdict is None or not verdict.tokens or not verdict.padded_tokens or not trial.dataset:
            continue
        same = cost_class(trial.plan.training) == cost_class(recipe) and not run.ladder
        if same and run.steps >= FEWEST_STEPS and run.train_seconds > 0 and run.tokens:
            return Pace(trial.number, seconds_per_token(run.train_seconds, run.tokens, verdict), row_tokens(trial))
    return None


def cost_class(recipe: TrainingRecipe) -> tuple[object, ...]:
    """What decides how long a padded token takes on one machine, row lengths left out."""
    rank = None if recipe.method == "full" else recipe.lora_rank
    return recipe.objective, recipe.method, rank, first_rung(recipe).micro_batch, recipe.sequence_len <= EAGER_TOKENS


def seconds_per_token(train_seconds: float, tokens: int, verdict: Verdict) -> float:
    """From the tokens that were seen, without padding, and the epoch's padding as the preflight counted it."""
    return train_seconds / (tokens * verdict.padded_tokens / verdict.tokens)


def row_tokens(trial: Trial) -> float:
    """Mean length of a trial's rows, in tokens."""
    assert trial.verdict is not None and trial.dataset is not None, "only a trial that was tokenised has one"
    return trial.verdict.tokens / max(1, trial.dataset.rows)
