"""Trials that belong together, by weights and by recipe; and which of them is handed over."""

from __future__ import annotations

from pathlib import Path

from memory.layout import RunFolder
from memory.lineage import went_on_from, winner
from memory.records import Decision, Trial
from tests import example_run


def trial(number: int, continue_from: int | None = None) -> Trial:
    plan = example_run.plan(number, continue_from=continue_from)
    return Trial(plan=plan, decision="failed", arithmetic="", seconds=1)


def test_the_weights_of_a_trial_are_followed_back_to_the_base_model() -> None:
    trials = [trial(1), trial(2), trial(3, 1), trial(4, 3)]
    assert [one.number for one in went_on_from(4, trials)] == [1, 3, 4]
    assert went_on_from(None, trials) == []


def test_a_plan_that_named_itself_or_no_trial_is_followed_no_further() -> None:
    assert [one.number for one in went_on_from(2, [trial(1), trial(2, 2)])] == [2]
    assert [one.number for one in went_on_from(1, [trial(1, 2), trial(2, 1)])] == [1]
    assert [one.number for one in went_on_from(3, [trial(3, 9)])] == [3]
    assert went_on_from(9, [trial(1)]) == []


def judged(folder: RunFolder, number: int, right: int, decision: Decision) -> Trial:
    """A trial with `right` of four items right, two of which its rival had."""
    answers = [int(item < right) for item in range(4)]
    return example_run.trial(folder, example_run.plan(number), answers, "accepted").model_copy(
        update={"decision": decision}
    )


def test_of_the_trials_that_rose_the_best_on_validation_is_handed_over(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    accepted, rise = judged(folder, 1, 3, "accepted"), judged(folder, 2, 4, "inconclusive")
    level, worse = judged(folder, 3, 3, "inconclusive"), judged(folder, 4, 1, "inconclusive")
    lost_on_a_guard = judged(folder, 5, 4, "rejected")
    assert winner([]) is None
    assert winner([rise]) is None, "nothing was shown to be better than the base model"
    assert winner([accepted, worse]) == accepted
    assert winner([accepted, level]) == accepted, "of equals the accepted one"
    assert winner([accepted, rise, worse]) == rise
    assert winner([rise, accepted]) == rise
    assert winner([accepted, lost_on_a_guard]) == accepted
