"""Whole runs with real Axolotl, vLLM and lighteval on the embedded model, small."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from graph.runs import read_state
from memory.layout import RunFolder
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
    assert [point.step for point in trial.training.losses] == list(range(1, 65))
    assert trial.score is not None
    assert trial.score.value > 0.3, "what was learnt before the kill is there"
    assert (folder.baseline / "result.json").stat().st_mtime_ns == baseline
