"""How a training asks for rewards: the worker writes down what was answered, and its caller scores it.

The benchmark's scorer lives with the caller and in no second copy. The worker announces a batch and waits, as it does
with a snapshot. Both sides use this module, so it needs the standard library only.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.engines import worker_io

ASKED, ANSWER = "answers_to_score.json", "scores.json"
POLL_SECONDS = 0.02


def rewards(
    prompts: Sequence[Any], completions: Sequence[list[dict[str, str]]], row: Sequence[str], folder: Sequence[str],
    **rest: Any,
) -> list[float]:  # fmt: skip
    """TRL's reward function: the score of each completion. `row` and `folder` are columns of the training set: the id
    of the training row, and the folder of the training, the same in every row."""
    return ask(Path(folder[0]), row, [completion[0]["content"] for completion in completions])


def ask(folder: Path, rows: Sequence[str], answers: Sequence[str]) -> list[float]:
    """The scores of answers to the questions of training rows. Fails where one is missing or no number: a reward that
    failed must never count as 0.

    There is no limit to the wait: if the caller is gone, the supervisor ends this process.
    """
    (folder / ANSWER).unlink(missing_ok=True)
    worker_io.write_json(folder / ASKED, {"rows": list(rows), "answers": list(answers)})
    worker_io.progress(folder, to_score=len(answers))
    while not (folder / ANSWER).exists():
        time.sleep(POLL_SECONDS)
    scores: list[float] = json.loads((folder / ANSWER).read_text())
    (folder / ANSWER).unlink()
    if len(scores) != len(answers) or not all(isinstance(score, float) and math.isfinite(score) for score in scores):
        raise worker_io.WorkerFailure("ENV", f"{len(scores)} scores came back for {len(answers)} answers: {scores}")
    return scores


def asked(folder: Path) -> tuple[list[str], list[str]]:
    """The caller's side: rows and answers that wait for their scores."""
    said = json.loads((folder / ASKED).read_text())
    return said["rows"], said["answers"]


def answer(folder: Path, scores: Sequence[float]) -> None:
    """The caller's side of `ask`."""
    worker_io.write_json(folder / ANSWER, list(scores))
