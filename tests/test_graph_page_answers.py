"""Questions about a run are answered from its records, with figures; what is not understood is not answered."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from graph.page.answers import answer
from graph.page.reading import Reading
from memory.layout import RunFolder
from memory.records import Blame
from memory.state import State
from tests import example_run


def reading_of(state: State, folder: RunFolder, **changes: object) -> Reading:
    """A run at work in this state."""
    known: dict[str, object] = {
        "folder": folder, "task": state["task"], "state": state, "following": "planner", "question": None,
        "asked_at": 0.0, "status": "at work", "node": "planner", "trial": None, "progress": None, "losses": (),
        "losses_of": None, "events": (), "spent_seconds": 400.0, "said": "",
    }  # fmt: skip
    return Reading(**(known | changes))  # type: ignore[arg-type]


@pytest.fixture
def reading(tmp_path: Path) -> Reading:
    """Three trials have ended; the sealed test is still closed."""
    folder = RunFolder(tmp_path / "run")
    return reading_of({**example_run.finished(folder), "test": None, "stop": None}, folder)


def test_why_quotes_the_figures_of_the_decision(reading: Reading) -> None:
    said = answer("Why did you accept trial 3?", reading) or ""
    assert "Trial 3 was accepted" in said
    assert "2 won, 0 lost" in said
    assert "p = 0.002" in said
    assert "expected +0.100" in said
    assert "Learned: learning\\_rate helped" in said


def test_why_says_what_is_to_blame_for_what_is_still_wrong(reading: Reading) -> None:
    third = reading.state["trials"][2].model_copy(update={"blame": Blame(to="data", says="Too few rows.")})
    state: State = {**reading.state, "trials": [*reading.state["trials"][:2], third]}
    said = answer("why was trial 3 accepted?", replace(reading, state=state)) or ""
    assert "data. Too few rows." in said


def test_why_of_a_failure_names_the_node_and_the_reason(reading: Reading) -> None:
    said = answer("why did trial 2 fail?", reading) or ""
    assert "failed in validator" in said
    assert "3 rows of validation in the data" in said


@pytest.mark.parametrize("number", [0, 4, 99])
def test_there_is_no_answer_about_a_trial_that_is_not_there(reading: Reading, number: int) -> None:
    assert f"There is no trial {number}" in (answer(f"why was trial {number} rejected?", reading) or "")


def test_the_best_stands_beside_the_untouched_model(reading: Reading) -> None:
    said = answer("What is the best so far?", reading) or ""
    assert "Trial 3" in said
    assert "exact 0.750 ± 0.100" in said
    assert "0.250" in said
    assert "0.500" in said
    assert "sealed test is still closed" in said


def test_what_is_left_is_said_with_what_would_fit(reading: Reading) -> None:
    said = answer("how long still?", reading) or ""
    assert "6m40s of 30m" in said
    assert "23m20s" in said
    assert "At most 2 further trials" in said
    assert "1m40s on average" in said


def test_what_a_trial_changed(reading: Reading) -> None:
    said = answer("what did trial 3 change?", reading) or ""
    assert "learning\\_rate\\: 0.001 → 0.003" in said
    assert "grows from trial 1" in said
    assert "first recipe" in (answer("what did trial 1 change?", reading) or "")


def test_before_the_baseline_nothing_is_made_up(tmp_path: Path) -> None:
    state = State(task=example_run.task())
    fresh = reading_of(state, RunFolder(tmp_path / "run"), status="starting", said="installing packages")
    assert "Nothing is measured yet" in (answer("what is the best so far?", fresh) or "")
    assert "none has ended" in (answer("why was trial 1 rejected?", fresh) or "")
    assert "installing packages" in (answer("what are you doing?", fresh) or "")


@pytest.mark.parametrize("text", ["how is the weather?", "what is love?", "", "trial", "tell me a joke"])
def test_what_is_not_understood_is_not_answered(reading: Reading, text: str) -> None:
    assert answer(text, reading) is None


def test_words_of_a_model_are_shown_as_they_are(reading: Reading) -> None:
    trials = reading.state["trials"]
    hostile = "<img src=x onerror=alert(1)> ![p](http://evil.example/p.png) **bold**"
    plan = trials[2].plan.model_copy(update={"hypothesis": hostile, "diagnosis": hostile})
    state: State = {**reading.state, "trials": [*trials[:2], trials[2].model_copy(update={"plan": plan})]}
    said = answer("what did trial 3 change?", reading_of(state, reading.folder)) or ""
    assert "<img" not in said.replace("\\<", "")
    assert "![p]" not in said
    assert "**bold**" not in said
