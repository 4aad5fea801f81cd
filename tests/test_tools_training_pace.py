"""A pace that is known needs no micro-run; one that was measured on something else does not count."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory.layout import RunFolder
from memory.records import TrainingRecipe, Trial, Verdict
from tests import example_run
from tools.training.pace import known_pace
from tools.training.requests import Preflight


def trained(folder: RunFolder, number: int, **recipe: object) -> Trial:
    """A trial of 100 rows of 40 tokens, two epochs in 80 s: 100 tokens a second, 125 with padding."""
    made = example_run.trial(folder, example_run.plan(number, **recipe), [1, 1, 1, 0], "accepted")
    assert made.training is not None
    verdict = Verdict(
        checks=(), step_seconds=1, predicted_seconds=70, tokens=4000, supervised_tokens=400, longest_row=50,
        padded_tokens=5000,
    )  # fmt: skip
    run = made.training.model_copy(update={"steps": 26, "tokens": 8000, "train_seconds": 80.0})
    return made.model_copy(update={"verdict": verdict, "training": run})


def tokenised(row_tokens: int, rows: int = 200) -> Preflight:
    """What a preflight without a micro-run says."""
    lengths = (row_tokens,) * rows
    return Preflight(
        rows=rows, dropped=0, lengths=lengths, supervised=lengths, samples=(), total_steps=50,
        padded_tokens=sum(lengths), step_seconds=0, predicted_seconds=0, peak_memory_bytes=0, timed="nothing",
        losses=(), seconds=8,
    )  # fmt: skip


RECIPE = TrainingRecipe(learning_rate=1e-3, epochs=2)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run")


def test_the_newest_training_of_the_same_cost_predicts_the_next(folder: RunFolder) -> None:
    pace = known_pace(RECIPE, [trained(folder, 1), trained(folder, 2), trained(folder, 3, micro_batch=2)])
    assert pace is not None and pace.trial == 2
    rows = tokenised(42)
    assert pace.applies_to(rows)
    predicted = pace.predict(rows, RECIPE)
    assert predicted.predicted_seconds == pytest.approx(2 * 42 * 200 / 125)
    assert predicted.step_seconds == pytest.approx(predicted.predicted_seconds / 50)
    assert predicted.timed == "as fast as trial 2: 125 padded tokens a second; no micro-run"


@pytest.mark.parametrize("change", [{"micro_batch": 4}, {"method": "full"}, {"lora_rank": 64}, {"sequence_len": 1024}])
def test_another_cost_class_is_measured_anew(folder: RunFolder, change: dict[str, object]) -> None:
    assert known_pace(RECIPE.model_copy(update=change), [trained(folder, 1)]) is None


def test_rows_of_another_length_are_measured_anew(folder: RunFolder) -> None:
    pace = known_pace(RECIPE, [trained(folder, 1)])
    assert pace is not None
    assert not pace.applies_to(tokenised(60))
    assert not pace.applies_to(tokenised(30))


def test_a_failed_trial_and_one_that_ran_out_of_memory_tell_no_pace(folder: RunFolder) -> None:
    climbed = trained(folder, 1)
    assert climbed.training is not None
    run = climbed.training.model_copy(update={"ladder": ("micro-batch 8 to 4",)})
    failed = example_run.failed_trial(example_run.plan(2))
    assert known_pace(RECIPE, [climbed.model_copy(update={"training": run}), failed]) is None
