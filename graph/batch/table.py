"""The table of a batch: what came of each task, read from its run's folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from graph.live import columns
from graph.runs import last_words
from graph.settings import BatchTask
from graph.values import in_words
from memory.layout import RunFolder, read_record
from memory.records import Record
from tools.report import RunReport

STOPPED = 130
"""The exit code after Ctrl-C."""
LAST_LINES = 3
"""A process that failed has said why, and how to go on."""
TOLD = "tunewright: "
"""How the front door begins the line that says why a run failed."""


class Row(Record):
    """What came of one task."""

    task: str
    benchmark: str
    base_model: str
    status: Literal["finished", "failed", "stopped", "not begun"]
    baseline: float | None = None
    """The better of the two base prompts, on the sealed test."""
    tuned: float | None = None
    """The tuned model there; None where no trial was accepted."""
    n: int | None = None
    """Items of the sealed test."""
    ci_low: float | None = None
    """95 % interval of `tuned`."""
    ci_high: float | None = None
    decision: str = ""
    """improved, not improved, or nothing accepted."""
    seconds: float | None = None
    """Wall clock of the run."""
    folder: str
    says: str = ""
    """Why it failed, or what happened last."""


def row_of(wanted: BatchTask, runs: Path, code: int | None = None) -> Row:
    """The row of a task; `code` is the exit code of its process, None where it was not run now."""
    folder = RunFolder(runs / wanted.name)
    row = Row(
        task=wanted.name,
        benchmark=wanted.task.benchmark,
        base_model=wanted.task.base_model,
        status="not begun",
        folder=str(folder.root),
    )
    if (folder.root / "report.json").exists():
        return row.model_copy(update=figures(read_record(folder.root / "report.json", RunReport)))
    if not folder.task.exists():
        return row
    if code in (None, STOPPED):
        return row.model_copy(update={"status": "stopped", "says": last_words(folder)})
    return row.model_copy(update={"status": "failed", "says": complaint(folder)})


def figures(report: RunReport) -> dict[str, object]:
    """Those of a finished run: base and tuned model on the sealed test."""
    test = report.test
    better = max if test.zero_shot.higher_is_better else min
    tuned = test.tuned
    return {
        "status": "finished",
        "baseline": better(test.zero_shot.value, test.few_shot.value),
        "tuned": tuned.value if tuned else None,
        "n": test.zero_shot.n,
        "ci_low": tuned.ci_low if tuned else None,
        "ci_high": tuned.ci_high if tuned else None,
        "decision": report.decision.outcome,
        "seconds": report.budget.spent_seconds,
    }


def complaint(folder: RunFolder) -> str:
    """The line with which the run's process ended; its last words where it said none."""
    try:
        lines = folder.process_log.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return ""
    last = [line for line in lines if line.strip()][-LAST_LINES:]
    return ([line.removeprefix(TOLD) for line in last if line.startswith(TOLD)] or last or [""])[-1]


def lines(rows: Sequence[Row]) -> list[str]:
    """The rows for a person, columns aligned."""
    head = ("TASK", "MODEL", "BASE", "TUNED", "95 % INTERVAL", "N", "DECISION", "TIME", "RUN")
    return columns([head, *(cells(row) for row in rows)])


def cells(row: Row) -> tuple[str, ...]:
    """One row in words."""
    interval = "" if row.ci_low is None else f"[{row.ci_low:.3f}, {row.ci_high:.3f}]"
    return (
        row.task,
        Path(row.base_model).name,
        *("" if value is None else f"{value:.3f}" for value in (row.baseline, row.tuned)),
        interval,
        "" if row.n is None else str(row.n),
        row.decision or row.status,
        "" if row.seconds is None else in_words(row.seconds),
        f"{row.folder}: {row.says}" if row.says else row.folder,
    )
