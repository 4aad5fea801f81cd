"""What trials teach: one lesson for one change, and none that later evidence contradicts."""

import pytest

from memory.records import Comparison, Lesson
from tests.test_tools_proposers_history import START, trial
from tools.lessons import distilled, holding, taught
from tools.proposers.factors import Value, changed


def compared(difference: float, p_value: float, against: str = "trial 1") -> Comparison:
    return Comparison(
        against=against,
        n=200,
        difference=difference,
        ci_low=difference - 0.05,
        ci_high=difference + 0.05,
        wins=0,
        losses=0,
        p_value=p_value,
        method="mcnemar",
    )


def learnt(number: int, difference: float, p_value: float, against: str = "trial 1", **change: Value) -> Lesson:
    """What a trial taught that changed something of trial 1."""
    first = trial(1, START, 0.5)
    return taught(
        trial(number, changed(START, **change), 0.5 + difference, first), compared(difference, p_value, against)
    )


def test_a_lesson_names_the_change_and_what_it_did() -> None:
    lesson = learnt(2, 0.1, 0.01, learning_rate=3e-3)
    assert lesson.text == "learning_rate 0.001 -> 0.003 helped"
    assert (lesson.factor, lesson.way, lesson.effect, lesson.trials) == ("learning_rate", "up", "helped", (1, 2))
    assert learnt(2, -0.1, 0.01, learning_rate=3e-3).effect == "hurt"
    assert learnt(2, 0.1, 0.06, learning_rate=3e-3).effect == "unclear"
    assert learnt(2, 0.1, 0.01, learning_rate=3e-4).way == "down"
    assert learnt(2, 0.1, 0.01, schedule="linear").way == "linear"
    assert learnt(2, 0.1, 0.01, continue_from=1, rows=600, skip=400).way == "on"


def test_two_lessons_on_one_change_become_one_with_the_evidence_of_both() -> None:
    once, again = learnt(2, 0.1, 0.01, learning_rate=3e-3), learnt(3, 0.08, 0.03, learning_rate=2e-3)
    (both,) = distilled([once, again])
    assert both.text == "learning_rate 0.001 -> 0.003, 0.001 -> 0.002 helped (2 of 2 times beyond noise)"
    assert both.trials == (1, 2, 3)
    assert once.evidence in both.evidence
    assert again.evidence in both.evidence
    (with_noise,) = distilled([once, learnt(3, -0.01, 0.8, learning_rate=2e-3)])
    assert (with_noise.effect, with_noise.text[-27:]) == ("helped", "(1 of 2 times beyond noise)")


def test_other_directions_factors_and_several_at_once_stay_apart() -> None:
    lessons = [
        learnt(2, 0.1, 0.01, learning_rate=3e-3),
        learnt(3, 0.1, 0.01, learning_rate=3e-4),
        learnt(4, 0.1, 0.01, lora_rank=64),
        learnt(5, 0.1, 0.01, lora_rank=64, learning_rate=3e-3),
        learnt(6, 0.1, 0.01, lora_rank=64, learning_rate=3e-3),
    ]
    assert distilled(lessons) == tuple(lessons)


@pytest.mark.parametrize("difference", [0.1, -0.1])
def test_a_lesson_that_later_evidence_contradicts_is_retired_with_the_reason(difference: float) -> None:
    before, after = learnt(2, difference, 0.01, learning_rate=3e-3), learnt(3, -difference, 0.02, learning_rate=2e-3)
    stands, gone = distilled([before, after])
    assert stands == after
    assert gone.retired == f"trial 3 shows the opposite: {after.text} ({after.evidence})"
    assert gone.says.endswith(f"Retired: {gone.retired}")
    assert holding([before, after]) == (after,)


def test_noise_retires_nothing_and_a_third_lesson_joins_the_one_that_stands() -> None:
    before, noise = learnt(2, 0.1, 0.01, learning_rate=3e-3), learnt(3, -0.1, 0.3, learning_rate=3e-3)
    assert all(not lesson.retired for lesson in distilled([before, noise]))
    third, fourth = learnt(4, -0.1, 0.01, learning_rate=3e-3), learnt(5, -0.2, 0.001, learning_rate=3e-3)
    stands, gone = distilled([before, noise, third, fourth])
    assert (stands.effect, stands.trials) == ("hurt", (1, 4, 5))
    assert (gone.effect, gone.trials) == ("helped", (1, 2, 3))


def test_a_change_that_was_compared_with_another_trial_is_no_evidence_about_it() -> None:
    lesson = learnt(5, 0.1, 0.01, "trial 4", learning_rate=3e-3)
    assert lesson.factor == ""
    assert "against trial 4" in lesson.evidence


def test_lessons_of_an_older_run_stay_as_they_are() -> None:
    old = Lesson(text="rows 400 -> 800 helped", trials=(1, 2), evidence="+0.1")
    assert distilled([old, old]) == (old, old)
