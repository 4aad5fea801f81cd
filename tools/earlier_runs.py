"""What earlier runs in the same folder taught about a benchmark or a model: the memory across runs."""

from __future__ import annotations

from memory.errors import StorageError
from memory.layout import RunFolder, read_record
from memory.records import Task
from tools.benchmarks.splits import manifest_path
from tools.report import RunReport

RUNS = 5
"""The newest so many runs are recalled."""
LESSONS = 4
"""The last so many lessons of each."""


def lessons_of_earlier_runs(folder: RunFolder, task: Task) -> tuple[str, ...]:
    """Outcome, winning recipe and lessons of finished runs on the task's benchmark or base model, newest first.

    Only runs that had ended before this one began count, so that a resumed run recalls the same. A report of another
    version, which cannot be read, is left out: it is no part of this run.
    """
    began = manifest_path(folder.data).stat().st_mtime
    found: list[str] = []
    reports = {path: path.stat().st_mtime for path in folder.root.parent.glob("*/report.json")}
    for path in sorted(reports, key=reports.__getitem__, reverse=True):
        if reports[path] >= began or len(found) == RUNS:
            continue
        try:
            report = read_record(path, RunReport)
        except StorageError:
            continue
        if report.task.benchmark == task.benchmark or report.task.base_model == task.base_model:
            found.append(told(report))
    return tuple(found)


def told(report: RunReport) -> str:
    """A run in a line."""
    winner = report.winner
    recipe = "nothing was accepted"
    if winner is not None:
        training = winner.plan.training
        rows = winner.dataset.rows if winner.dataset else winner.plan.data.rows
        recipe = (
            f"best: {training.method}, learning rate {training.learning_rate:g}, {rows} rows x {training.epochs:g}, "
            f"batch {training.batch_size}, rank {training.lora_rank}"
            + (f", validation {winner.score.value:.3f}" if winner.score else "")
        )
    lessons = "".join(f"; {one.text} ({one.evidence})" for one in report.lessons[-LESSONS:])
    return f"{report.task.benchmark} with {report.task.base_model}: {report.decision.outcome}; {recipe}{lessons}"
