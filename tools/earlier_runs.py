"""What earlier runs in the same folder taught about a benchmark or a model: the memory across runs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from memory.errors import StorageError
from memory.layout import RunFolder, read_record
from memory.records import Task
from tools.benchmarks.splits import manifest_path
from tools.plan_text import recipe
from tools.proposers.brief import Remembered
from tools.report import RunReport

RUNS = 5
"""The newest so many runs are recalled."""
LESSONS = 4
"""The last so many lessons of each."""


def lessons_of_earlier_runs(folder: RunFolder, task: Task) -> tuple[str, ...]:
    """Outcome, winning recipe and lessons of finished runs on the task's benchmark or base model, newest first."""
    return tuple(told(report) for report in islice(earlier(folder, task), RUNS))


def best_recipe(folder: RunFolder, task: Task) -> Remembered | None:
    """The training that won among the newest runs with the same benchmark and base model, by validation alone; None
    where none of them handed a trial over."""
    alike = (report for report in earlier(folder, task) if same_work(report.task, task))
    found = [
        Remembered(run=report.run_id, trial=won.number, score=won.score, training=won.plan.training)
        for report in islice(alike, RUNS)
        if (won := report.winner) is not None and won.score is not None
    ]
    return max(found, key=lambda one: one.score.oriented, default=None)


def earlier(folder: RunFolder, task: Task) -> Iterator[RunReport]:
    """Reports of finished runs on the task's benchmark or base model, newest first; none where the task recalls none.

    Only runs that had ended before this one began count, so that a resumed run recalls the same.
    """
    began = manifest_path(folder.data).stat().st_mtime
    if not task.planning.recall:
        return
    for report in reports(folder.root.parent, began):
        if report.task.benchmark == task.benchmark or report.task.base_model == task.base_model:
            yield report


def same_work(one: Task, other: Task) -> bool:
    """Whether a recipe of one task can be expected to suit the other."""
    return (one.benchmark, one.own, one.base_model) == (other.benchmark, other.own, other.base_model)


def reports(runs: Path, before: float = math.inf) -> Iterator[RunReport]:
    """The reports in a folder of runs that were written before a Unix time, newest first. One of another version, which
    cannot be read, is left out."""
    written = {path: path.stat().st_mtime for path in runs.glob("*/report.json")}
    for path in sorted(written, key=written.__getitem__, reverse=True):
        if written[path] < before:
            with suppress(StorageError):
                yield read_record(path, RunReport)


def told(report: RunReport) -> str:
    """A run in a line; lessons that were retired are left out."""
    winner = report.winner
    best = "nothing was accepted"
    if winner is not None:
        best = f"best: {recipe(winner.plan, winner.dataset.rows if winner.dataset else None)}"
        best += f"; validation {winner.score.value:.3f}" if winner.score else ""
    holding = [lesson for lesson in report.lessons if not lesson.retired]
    lessons = "".join(f"; {one.text} ({one.evidence})" for one in holding[-LESSONS:])
    return f"{report.task.benchmark} with {report.task.base_model}: {report.decision.outcome}; {best}{lessons}"
