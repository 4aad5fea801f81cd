"""What was said before a training beside what it came to, time and memory: `python -m tests.bench_estimates`.

Each recipe is measured as a run does it: a preflight predicts the time of the optimiser steps from a micro-run, the
estimate says the memory for the longest row, and the training shows both. Nothing else should be running.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from memory.records import BaseModelCard, TrainingRecipe
from tests.bench_training import real_training
from tests.training_engines import write_benchmark_rows
from tools.engines.contract import Engine
from tools.training.engine import estimate_memory, preflight, train

TIME_AIM, MEMORY_AIM = 0.15, 0.20
"""Largest error, as a share of what it came to."""


class Case(NamedTuple):
    """A recipe and the rows that it is trained on."""

    name: str
    benchmark: str
    rows: int
    recipe: TrainingRecipe


LORA = TrainingRecipe(learning_rate=1e-3, epochs=1, batch_size=4, micro_batch=4, sequence_len=256)
CASES = (
    Case("lora, batch 4", "syllogism", 160, LORA),
    Case("lora, rank 64, batch 16", "syllogism", 160, LORA.model_copy(
        update={"batch_size": 16, "micro_batch": 16, "lora_rank": 64}
    )),
    Case("lora, long rows, in order", "family_relationships", 120, LORA.model_copy(
        update={"batch_size": 8, "micro_batch": 8, "order": "file"}
    )),
    Case("full", "syllogism", 80, LORA.model_copy(update={"method": "full", "learning_rate": 1e-5})),
)  # fmt: skip


def measure() -> list[dict[str, Any]]:
    """One row per recipe and figure: `predicted`, `measured` and the error as a share of what was measured."""
    engine, model = real_training()
    with tempfile.TemporaryDirectory() as place:
        return [row for case in CASES for row in one(case, engine, model, Path(place))]


def one(case: Case, engine: Engine, model: BaseModelCard, place: Path) -> list[dict[str, Any]]:
    """A preflight and a training."""
    data = write_benchmark_rows(case.benchmark, case.rows, place / "data.jsonl")
    said = preflight(engine, case.recipe, model, data, place / "preflight", device="cpu", timeout_s=600)
    run = train(engine, case.recipe, model, data, place / "train", device="cpu", deadline_s=3600)
    shutil.rmtree(place / "train")
    bytes_said = estimate_memory(case.recipe, model, max(said.lengths), "cpu")
    return [
        row(case.name, "seconds", said.predicted_seconds, run.train_seconds),
        row(case.name, "GB", bytes_said / 1e9, run.peak_memory_bytes / 1e9),
    ]


def row(name: str, figure: str, predicted: float, measured: float) -> dict[str, Any]:
    """A line of the table."""
    return {
        "recipe": name,
        "figure": figure,
        "predicted": predicted,
        "measured": measured,
        "error": predicted / measured - 1,
    }


def main() -> None:
    """Print the table."""
    print(f"{'recipe':<28}{'figure':<9}{'predicted':>10}{'measured':>10}{'error':>8}{'aim':>8}")
    for each in measure():
        aim = TIME_AIM if each["figure"] == "seconds" else MEMORY_AIM
        figures = f"{each['predicted']:>10.2f}{each['measured']:>10.2f}{each['error']:>+8.0%}"
        print(f"{each['recipe']:<28}{each['figure']:<9}{figures}{f'±{aim:.0%}':>8}")


if __name__ == "__main__":
    main()
