"""Trials that belong together: by the weights that they went on from, and by their recipe."""

from __future__ import annotations

from memory.lineage import went_on_from
from memory.records import Trial
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
