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
from tools.report import RunReport

RUNS = 5
"""The newest so many runs are recalled."""
LESSONS = 4
"""The last so many lessons of each."""


def lessons_of_earlier_runs(folder: RunFolder, task: Task) -> tuple[str, ...]:
    """Outcome, winning recipe and lessons of finished runs on the task's benchmark or base model, newest first.

    Only runs that had ended before this one began count, so that a resumed run recalls the same.
    """
    began = manifest_path(folder.data).stat().st_mtime
    alike = (
        report
        for report in reports(folder.root.parent, began)
        if report.task.benchmark == task.benchmark or report.task.base_model == task.base_model
    )
    return tuple(told(report) for report in islice(alike, RUNS))


def reports(runs: Path, before: float = math.inf) -> Iterator[RunReport]:
    """The reports in a folder of runs that were written before a Unix time, newest first. One of another version, which
    cannot be read, is left out."""
    written = {path: path.stat().st_mtime for path in runs.glob("*/report.json")}
    for path in sorted(written, key=written.__getitem__, reverse=True):
        if written[path] < before:
            with suppress(StorageError):
                yield read_record(path, RunReport)


def told(report: RunReport) -> str:
    """A run in a line."""
    winner = report.winner
    best = "nothing was accepted"
    if winner is not None:
        best = f"best: {recipe(winner.plan, winner.dataset.rows if winner.dataset else None)}"
        best += f"; validation {winner.score.value:.3f}" if winner.score else ""
    lessons = "".join(f"; {one.text} ({one.evidence})" for one in report.lessons[-LESSONS:])
    return f"{report.task.benchmark} with {report.task.base_model}: {report.decision.outcome}; {best}{lessons}"
