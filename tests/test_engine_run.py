"""Whole runs with real Axolotl, vLLM and lighteval on the embedded model, small."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from graph.history import history
from graph.runner import compiled, open_database
from graph.runs import read_state
from memory.layout import RunFolder
from tests.conftest import MakeDisk, content
from tests.score_engines import real_model

ROOT = Path(__file__).parents[1]
ARGUMENTS = ("--benchmark", "syllogism", "--budget", "30m", "--plain")

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]


def begin(runs: Path, script: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a run, or go on with one."""
    real_model()  # skips with the reason where the engines are not set up
    return subprocess.Popen(
        [sys.executable, "-m", "tests.engine_run", *arguments, "--run-dir", str(runs)],
        cwd=ROOT,
        env={**os.environ, "FAKE_SCRIPT": script},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def only_run(runs: Path) -> RunFolder:
    (task,) = runs.glob("*/task.json")
    return RunFolder(task.parent)


def test_failures_of_three_kinds_go_back_to_the_planner_and_a_sound_trial_is_scored(tmp_path: Path) -> None:
    process = begin(tmp_path, "failing_thrice", *ARGUMENTS)
    out, _ = process.communicate()
    folder = only_run(tmp_path)
    trials = read_state(folder)["trials"]
    failures = [(trial.failure.kind, trial.failure.node) if trial.failure else None for trial in trials]
    assert failures == [("DATA", "data_engineer"), ("CONFIG", "validator"), ("DIVERGED", "trainer"), None], out
    assert process.returncode in (0, 3), out
    sound = trials[3]
    assert sound.verdict is not None
    assert sound.training is not None
    assert sound.score is not None
    assert [check.name for check in sound.verdict.checks][-3:] == ["supervised tokens", "template", "time"]
    assert sound.training.steps == 4
    assert sound.score.n == 20
    report = json.loads((folder.root / "report.json").read_text())
    assert report["budget"]["server_starts"] == 1
    assert report["test"]["zero_shot"]["n"] == 20


def test_kill_9_in_the_middle_of_a_training_and_resume(tmp_path: Path) -> None:
    process = begin(tmp_path, "sound", *ARGUMENTS)
    until = time.monotonic() + 600
    while not list(tmp_path.glob("*/trials/1/train/checkpoints/checkpoint-*/whole")):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < until
        time.sleep(0.2)
    process.kill()
    process.communicate()
    folder = only_run(tmp_path)
    baseline = (folder.baseline / "result.json").stat().st_mtime_ns
    out, _ = begin(tmp_path, "sound", "--resume", folder.id, "--plain").communicate()
    (trial,) = read_state(folder)["trials"]
    assert trial.training is not None, out
    assert trial.training.resumed_from_step > 0
    assert [point.step for point in trial.training.losses] == list(range(1, 129))
    assert trial.score is not None
    assert trial.score.value > 0.3, "what was learnt before the kill is there"
    assert (folder.baseline / "result.json").stat().st_mtime_ns == baseline


PLACES = (
    ("analyst", None),
    ("planner", None),
    ("data_engineer", 1),
    ("validator", 1),
    ("trainer", 1),
    ("analyst", 1),
)
"""Nodes in the order in which they work, each with the trial in progress."""


def reached(folder_of_runs: Path, place: int, after: float) -> bool:
    """Whether a run has come to one of PLACES, or past it, since `after` (Unix time): some nodes take milliseconds, so
    that a kill can come when the next one is at work already."""
    for path in folder_of_runs.glob("*/events.jsonl"):
        for line in path.read_text().split("\n")[:-1]:
            event = json.loads(line)
            said = (event.get("node"), event.get("trial"))
            if said in PLACES[place:] and event.get("phase") == "start" and event["at"] >= after:
                return True
    return False


def test_kill_9_in_every_node_one_after_the_other(tmp_path: Path) -> None:
    """One run, killed in each node in turn and resumed each time; nothing that was finished is done again."""
    arguments = ARGUMENTS
    for place, (node, _) in enumerate(PLACES):
        began = time.time()
        process = begin(tmp_path, "small", *arguments)
        until = time.monotonic() + 300
        while not reached(tmp_path, place, began):
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < until
            time.sleep(0.02)
        time.sleep(2.0 if node in ("analyst", "validator", "trainer") else 0.0)
        process.kill()
        process.communicate()
        arguments = ("--resume", only_run(tmp_path).id, "--plain")
    folder = only_run(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in folder.root.rglob("result.json")}
    out, _ = begin(tmp_path, "small", *arguments).communicate()
    assert {path: path.stat().st_mtime_ns for path in before} == before
    state = read_state(folder)
    assert [trial.failure for trial in state["trials"]] == [None], out
    assert state["test"] is not None

    with open_database(folder) as database:
        planned = next(e for e in history(compiled(database), folder) if e.following == "data_engineer")
    source = content(folder)
    edit = ("--set", "plan.learning_rate=0.0005")
    out, _ = begin(tmp_path, "small", "--fork", f"{folder.id}@{planned.checkpoint}", *edit, "--plain").communicate()
    (fork,) = (RunFolder(task.parent) for task in tmp_path.glob("*/task.json") if task.parent != folder.root)
    assert read_state(fork)["trials"][0].plan.training.learning_rate == 0.0005, out
    assert read_state(fork)["test"] is not None
    assert content(folder) == source


def test_a_server_killed_in_an_evaluation_is_started_once_more(tmp_path: Path) -> None:
    process = begin(tmp_path, "small", *ARGUMENTS)
    until = time.monotonic() + 300
    while not list(tmp_path.glob("*/baseline/progress.jsonl")):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < until
        time.sleep(0.01)
    killed = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes()
            if b"api_server" in command and ours(path.parent, process.pid):
                os.kill(int(path.parent.name), signal.SIGKILL)
                killed += 1
        except OSError:
            continue
    assert killed
    out, _ = process.communicate()
    assert "scoring again with a fresh server" in out
    state = read_state(only_run(tmp_path))
    assert state["test"] is not None, out
    assert state["baseline"] is not None
    assert state["baseline"].zero_shot.n == 20


def ours(process: Path, ancestor: int) -> bool:
    """Whether a process descends from `ancestor`."""
    while process.name not in ("0", "1"):
        parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
        if parent == str(ancestor):
            return True
        process = process.parent / parent
    return False


def test_a_disk_that_fills_up_in_a_training_stops_the_run_which_can_go_on(small_disk: MakeDisk) -> None:
    disk = small_disk("100m")
    process = begin(disk.path, "small", *ARGUMENTS)
    out, _ = process.communicate()
    assert process.returncode == 1, out
    assert "is full" in out or "No space left" in out
    assert "Traceback" not in out
    disk.grow("2g")
    out, _ = begin(disk.path, "small", "--resume", only_run(disk.path).id, "--plain").communicate()
    state = read_state(only_run(disk.path))
    assert [trial.failure for trial in state["trials"]] == [None], out
    assert state["test"] is not None
