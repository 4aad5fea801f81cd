"""Runs that a page starts: they outlive it, can be read while they work, and are begun once."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from graph.background import Launch, held, pending, resume, start
from graph.snapshot import read_snapshot
from memory.errors import RunBusyError
from memory.layout import RunFolder
from memory.records import Budget, Task

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PAGE = """
import sys
from pathlib import Path
from graph.background import Launch, start
from memory.records import Task
launch = Launch("tests.fake_run", {"TUNEWRIGHT_CACHE": sys.argv[2]})
print(start(Task.model_validate_json(sys.argv[3]), Path(sys.argv[1]), launch).root, flush=True)
"""


def task(**changes: object) -> Task:
    budget = Budget(seconds=1200, max_trials=1)
    return Task(base_model="smollm2", benchmark="spell_backward", metric="accuracy", budget=budget).model_copy(
        update=changes
    )


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    return Launch("tests.fake_run", {"TUNEWRIGHT_CACHE": str(tmp_path / "cache")})


def until(holds: Callable[[], bool], folder: RunFolder, seconds: float = 120) -> None:
    """Wait; fail with what the process said."""
    end = time.monotonic() + seconds
    while not holds():
        said = folder.process_log.read_text() if folder.process_log.exists() else "no log"
        assert time.monotonic() < end and "Traceback" not in said, said
        time.sleep(0.05)


def finished(folder: RunFolder) -> bool:
    found = read_snapshot(folder)
    return found is not None and found.state.get("test") is not None and not held(folder)


def test_a_run_that_a_page_started_goes_on_when_the_page_is_gone(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", PAGE, str(tmp_path / "runs"), str(tmp_path / "cache"), task().model_dump_json()]
    page = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert page.returncode == 0, page.stderr
    folder = RunFolder(Path(page.stdout.strip()))
    until(lambda: held(folder) and read_snapshot(folder) is not None, folder)
    until(lambda: finished(folder), folder)
    found = read_snapshot(folder)
    assert found is not None
    assert found.following is None
    assert [trial.number for trial in found.state["trials"]] == [1]
    assert pending(folder) is None
    assert (folder.root / "report.md").exists()


def test_a_run_at_work_is_read_and_not_begun_again(tmp_path: Path, launch: Launch) -> None:
    folder = start(task(), tmp_path / "runs", launch)
    assert read_snapshot(folder) is None
    until(lambda: (found := read_snapshot(folder)) is not None and found.following == "trainer", folder)
    found = read_snapshot(folder)
    assert found is not None
    assert found.state["baseline"] is not None
    assert held(folder)
    with pytest.raises(RunBusyError, match="at work already"):
        resume(folder, launch)
    until(lambda: finished(folder), folder)
