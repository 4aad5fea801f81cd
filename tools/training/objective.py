"""What an objective asks of its training rows: pairs for DPO, questions that are sometimes solved for GRPO."""

from __future__ import annotations

from memory.records import DataRecipe, Filter, Operator, Order, PassRate, Preferences, TrainingRecipe

SOMETIMES = "pass_rate > 0 AND pass_rate < 1"
"""Where all answers to a question score the same, no answer is better than the others, and GRPO's gradient is zero
(Online Difficulty Filtering, arXiv 2504.03380)."""
SAMPLES = 4
"""Answers by which a pass rate is told before GRPO. A question solved one time in five shows as 0 in 41 % of cases and
is lost; eight samples would lose 17 % and cost twice as much."""


def rows_for(data: DataRecipe, training: TrainingRecipe, most: int) -> DataRecipe:
    """The data recipe with what its objective needs and it does not say itself: the model that the training begins with
    is asked about each row, `most` of them where the recipe sets no limit."""
    rows = max(2, data.rows or most)
    begins_with, seed = training.continue_from, training.seed
    added: list[Operator] = []
    if training.objective == "dpo" and not has(data, Preferences):
        added = [Preferences(trial=begins_with, rows=rows, seed=seed)]
    elif training.objective == "grpo":
        if not has(data, PassRate):
            added = [PassRate(samples=SAMPLES, temperature=1.0, trial=begins_with, rows=rows, seed=seed)]
        if not any(isinstance(operator, Filter) and operator.where == SOMETIMES for operator in data.operators):
            added.append(Filter(where=SOMETIMES))
    orders = [operator for operator in data.operators if isinstance(operator, Order)]
    others = [operator for operator in data.operators if not isinstance(operator, Order)]
    return DataRecipe(operators=(*others, *added, *orders)) if added else data


def has(data: DataRecipe, kind: type[Operator]) -> bool:
    """Whether the recipe has an operator of a kind."""
    return any(isinstance(operator, kind) for operator in data.operators)
