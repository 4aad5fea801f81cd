"""What is recalled of earlier runs in the same folder: lessons that hold, and the recipe that won on the same work."""

import os
from pathlib import Path

import pytest

from memory.layout import RunFolder, made, write_record, write_text
from memory.records import Lesson, Planning, Task
from tests import example_run
from tools.benchmarks.splits import manifest_path
from tools.earlier_runs import best_recipe, lessons_of_earlier_runs
from tools.report import RunReport


def earlier_run(root: Path, name: str, age: float, **task: object) -> RunReport:
    """A finished run that ended so many seconds before another one began."""
    folder = RunFolder(made(root / name))
    report = example_run.run_report(folder, example_run.finished(folder))
    report = report.model_copy(update={"run_id": name, "task": report.task.model_copy(update=task)})
    write_record(folder.root / "report.json", report)
    os.utime(folder.root / "report.json", (1e9 - age, 1e9 - age))
    return report


@pytest.fixture
def now(tmp_path: Path) -> RunFolder:
    """A run that has just begun."""
    folder = RunFolder(made(tmp_path / "now"))
    made(folder.data)
    write_text(manifest_path(folder.data), "{}")
    os.utime(manifest_path(folder.data), (1e9, 1e9))
    return folder


def test_the_recipe_that_won_on_the_same_benchmark_and_model_is_recalled(tmp_path: Path, now: RunFolder) -> None:
    report = earlier_run(tmp_path, "first", 100)
    earlier_run(tmp_path, "other-model", 50, base_model="another")
    earlier_run(tmp_path, "later", -50)
    before = best_recipe(now, report.task)
    assert before is not None
    assert report.winner is not None
    assert (before.run, before.trial, before.training) == ("first", report.winner.number, report.winner.plan.training)
    assert best_recipe(now, report.task.model_copy(update={"benchmark": "aiw"})) is None


def test_nothing_is_recalled_where_a_run_has_to_stand_alone(tmp_path: Path, now: RunFolder) -> None:
    task: Task = earlier_run(tmp_path, "first", 100).task
    alone = task.model_copy(update={"planning": Planning(recall=False)})
    assert lessons_of_earlier_runs(now, task)
    assert lessons_of_earlier_runs(now, alone) == ()
    assert best_recipe(now, alone) is None


def test_retired_lessons_are_not_recalled(tmp_path: Path, now: RunFolder) -> None:
    report = earlier_run(tmp_path, "first", 100)
    stands = Lesson(text="rows helped", trials=(1,), evidence="+0.2")
    gone = Lesson(text="rank helped", trials=(2,), evidence="+0.1", retired="trial 3 shows the opposite")
    written = report.model_copy(update={"lessons": (stands, gone)})
    path = tmp_path / "first" / "report.json"
    write_record(path, written)
    os.utime(path, (1e9 - 100, 1e9 - 100))
    (told,) = lessons_of_earlier_runs(now, report.task)
    assert "rows helped" in told
    assert "rank helped" not in told
