"""Whole runs with quick engines under the strategies that may grow from any trial, and what a later run takes over."""

from __future__ import annotations

from pathlib import Path

import pytest

from graph.runs import read_state
from tests.test_whole_run import Runs

pytestmark = pytest.mark.slow

START = ("--benchmark", "spell_backward", "--budget", "20m", "--plain")


@pytest.mark.parametrize("strategy", ["best-first", "mcts"])
def test_a_run_ends_well_and_says_how_it_searched(tmp_path: Path, strategy: str) -> None:
    runs = Runs(tmp_path / "runs", tmp_path / "cache")
    runs.call(*START, "--search", strategy, "--max-trials", "2")
    (folder,) = runs.folders()
    state = read_state(folder)
    assert state["task"].planning.search == strategy
    assert [trial.score is not None for trial in state["trials"]] == [True, True]
    assert f"trials, {strategy} search. Stopped" in (folder.root / "report.md").read_text()
    out, _ = runs.call("--history", folder.id)
    assert f"20m, {strategy} search" in out


def test_a_later_run_starts_from_what_won_and_says_so(tmp_path: Path) -> None:
    runs = Runs(tmp_path / "runs", tmp_path / "cache")
    runs.call(*START, FAKE_SCRIPT="wide")
    runs.call(*START, "--max-trials", "1")
    earlier, later = runs.folders()
    plan = read_state(later)["trials"][0].plan
    assert plan.training.lora_rank == 32
    assert f"Settings are those of trial 1 of run {earlier.id}" in plan.diagnosis
