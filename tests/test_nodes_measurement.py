"""Seeds judged together, and guards in a whole run with stand-in engines: before, after, and in the report."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from memory.layout import RunFolder, read_record
from memory.lineage import last_accepted
from memory.records import Trial
from memory.state import State
from nodes.measurement import champion, compare, of_change, repeated
from tests import example_run
from tools import benchmarks
from tools.report import RunReport

ROOT = Path(__file__).parent.parent


def run(place: Path, *words: str) -> tuple[RunReport, RunFolder]:
    """A finished run of one small trial, its report and its folder."""
    argv = [sys.executable, "-m", "tests.fake_run", "--benchmark", "aiw", "--run-dir", str(place / "runs")]
    argv += ["--max-trials", "1", *words]
    env = {"HOME": str(place), "PATH": "/usr/bin:/bin"}
    ended = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert ended.returncode in (0, 3), ended.stderr
    (root,) = (place / "runs").iterdir()
    return read_record(root / "report.json", RunReport), RunFolder(root)


def scored(folder: RunFolder, number: int, right: range, repeats: int | None = None) -> Trial:
    """An accepted trial with these items right."""
    plan = example_run.plan(number).model_copy(update={"repeats": repeats})
    score = example_run.score(folder, f"trials/{number}/eval", [int(item in right) for item in range(40)])
    return Trial(plan=plan, decision="accepted", arithmetic="", score=score, seconds=1)


def test_seeds_of_one_recipe_are_judged_by_their_mean_and_the_best_of_them_is_handed_over(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    deps = SimpleNamespace(folder=folder, benchmark=benchmarks.get("syllogism"))
    rival = scored(folder, 1, range(10))
    first, second = scored(folder, 2, range(20)), scored(folder, 3, range(10, 24), repeats=2)
    assert first.score is not None
    assert second.score is not None
    assert repeated(second.plan, [rival, first]) == (first.score,)
    compared = compare([second.score, first.score], [rival.score], "trial 1", deps)
    assert compared.difference == pytest.approx((20 + 14) / 2 / first.score.n - 10 / first.score.n)
    assert compared.method == "bootstrap"
    assert last_accepted([rival, first, second]) is first
    scores, name = champion({"trials": [rival, first, second]})
    assert {score.outcomes for score in scores} == {first.score.outcomes, second.score.outcomes}
    assert name == "trial 2 over 2 seeds"


def test_a_change_is_judged_against_the_trial_that_it_changed_and_not_against_the_incumbent(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    deps = SimpleNamespace(folder=folder, benchmark=benchmarks.get("syllogism"))
    parent, incumbent, child = (scored(folder, number, range(right)) for number, right in ((1, 10), (2, 30), (3, 20)))
    assert parent.score is not None
    assert incumbent.score is not None
    assert child.score is not None
    plan = child.plan.model_copy(update={"parent": 1})
    with_incumbent = compare([child.score], [incumbent.score], "trial 2", deps)
    state: State = {"trials": [parent, incumbent]}
    change = of_change(plan, child.score, with_incumbent, state, deps)
    assert (change.against, change.wins, change.losses) == ("trial 1", 10, 0)
    assert with_incumbent.difference < 0 < change.difference
    grown = plan.model_copy(update={"parent": 2})
    assert of_change(grown, child.score, with_incumbent, state, deps) is with_incumbent


@pytest.mark.slow
def test_guards_are_measured_before_and_after(tmp_path: Path) -> None:
    report, folder = run(tmp_path, "--guard", "syllogism,spell_backward")
    (trial,) = report.trials
    assert trial.decision == "accepted"
    assert [guard.benchmark for guard in report.baseline.guards] == ["syllogism", "spell_backward"]
    for before, after in zip(report.baseline.guards, trial.guards, strict=True):
        assert before.score.n == after.score.n == 200
        assert after.score.shots == before.score.shots
        assert after.comparison is not None
        assert abs(after.comparison.difference - (after.score.value - before.score.value)) < 1e-9
    assert "guard syllogism" in trial.arithmetic
    text = (folder.root / "report.md").read_text()
    assert "## Guards" in text
    assert "| spell_backward, " in text
    assert json.loads((folder.root / "task.json").read_text())["guards"] == ["syllogism", "spell_backward"]
