"""A plan in words, as every place says them that shows one: the report, the chat, the command line."""

from __future__ import annotations

from memory.records import Plan


def recipe(plan: Plan, rows: int | None = None) -> str:
    """The recipe in one line. `rows` of the training file where there is one; else those that the plan allows."""
    training, rows = plan.training, rows or plan.data.rows
    rank = [] if training.method == "full" else [f"rank {training.lora_rank}"]
    return ", ".join(
        [
            training.approach,
            f"learning rate {training.learning_rate:g}",
            f"{training.epochs:g} epochs" if training.epochs != 1 else "1 epoch",
            "all rows" if rows is None else "1 row" if rows == 1 else f"{rows} rows",
            f"batch {training.batch_size}",
            *rank,
            training.schedule,
            f"seed {training.seed}",
        ]
    )


def changed(plan: Plan) -> str:
    """The one factor that a plan changes."""
    change = plan.change
    return f"{change.factor}: {change.before} → {change.after}" if change else "first recipe"
