"""What comes of a sentence in the chat: an answer, a wish, a proposal, or one clear line; nothing is pretended."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from graph.background import Launch
from graph.inbox import letters
from graph.page.chat import NOTHING, drawn, hear
from graph.page.conversation import FIRST, SUGGESTIONS, Exchange, messages, suggestions
from graph.page.place import JUST_NOW_SECONDS, Place
from graph.snapshot import write_snapshot
from memory.database import Database
from memory.events import Events
from memory.layout import RunFolder
from memory.records import Question
from memory.state import State
from tests import example_run


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A page whose runs do nothing at all: the module that carries them prints Python's version."""
    return Place(tmp_path / "runs", tmp_path / "cache", tmp_path / "out", Launch("platform"))


@pytest.fixture
def folder(place: Place) -> RunFolder:
    """A run in its third trial."""
    folder = RunFolder(place.runs / "20260101-000000-syllogism")
    example_run.play(folder, steps=11)
    Events(folder.events).emit("run", "run x", phase="start")
    return folder


def state_of(folder: RunFolder) -> State:
    """A run between two trials."""
    return {**example_run.finished(folder), "test": None, "stop": None, "version": 3, "wishes": [], "declined": []}


def test_a_request_is_proposed_and_nothing_starts(place: Place) -> None:
    heard = hear(place, None, FIRST)
    assert heard.request is not None
    assert "20m of wall clock" in heard.answer
    assert place.ids() == []


def test_an_offer_that_is_taken_two_hundred_times_starts_one_run(place: Place) -> None:
    request = hear(place, None, FIRST).request
    assert request is not None
    clicks = [threading.Thread(target=place.start, args=(request.task,)) for _ in range(200)]
    for click in clicks:
        click.start()
    for click in clicks:
        click.join()
    (first,) = place.ids()
    later = request.task.model_copy(update={"seed": 1})
    assert place.start(later).id != first, "another task is another run"
    before = time.time() - 2 * JUST_NOW_SECONDS
    os.utime(place.folder(place.ids()[0]).task, (before, before))
    assert place.start(later).id == place.ids()[0], "what is asked for again later is meant"
    assert len(place.ids()) == 3


def test_a_wish_reaches_a_run_at_work_and_is_promised_in_words(place: Place, folder: RunFolder) -> None:
    write_snapshot(folder, state_of(folder), ["planner"])
    with Database.open(folder.database, []):
        reading = place.read(folder.id)
        assert hear(place, reading, "Try a lower learning rate").answer == "The next plan carries it."
        assert "ends after this trial" in hear(place, reading, "stop after this trial").answer
        assert "no trial 9 to go back to" in hear(place, reading, "go back to trial 9").answer
        assert "Nothing waits for a yes or no" in hear(place, reading, "approve").answer
    assert [one.letter.text for one in letters(folder)] == ["Try a lower learning rate", "stop after this trial"]


def test_of_two_tabs_that_answer_a_question_the_second_is_told(place: Place, folder: RunFolder) -> None:
    question = Question(
        id="a" * 32, place="plan", plan=example_run.plan(4, 3), rows=None, training_seconds=None, seconds_left=900,
        trials_left=2,
    )  # fmt: skip
    state: State = {**state_of(folder), "plan": question.plan}
    state["task"] = state["task"].model_copy(update={"approve": "plan"})
    write_snapshot(folder, state, ["data_engineer"], question)
    with Database.open(folder.database, []):
        reading = place.read(folder.id)
        assert reading.status == "waits for you"
        assert "May trial 4 go on?" in messages(reading, ())[-1]["content"]
        assert "That question is over" in hear(place, reading, "Approve", "b" * 32).answer
        assert hear(place, reading, "Approve", question.id).answer == "Trial 4 goes on."
        assert "answered already" in hear(place, reading, "Decline", question.id).answer


def test_what_is_not_understood_is_said_with_what_can_be_said(place: Place, folder: RunFolder) -> None:
    reading = place.read(folder.id)
    said = hear(place, reading, "make me a sandwich <b>now</b>").answer
    assert said.startswith("I do not understand")
    assert "<b>" not in said.replace("\\<", "")
    assert "what is the best so far?" in said
    assert "no sentence" in hear(place, reading, " ").answer
    assert "no sentence" in hear(place, reading, "a" * 3000).answer


def test_the_chat_tells_what_the_run_went_through_and_what_was_said_here(place: Place, folder: RunFolder) -> None:
    events = Events(folder.events)
    events.emit("said", "use more data")
    events.emit("decision", "trial 1 accepted: <script>alert(1)</script>")
    here = (
        Exchange(folder.id, time.time(), "how long still?", "12 minutes"),
        Exchange("another-run", time.time(), "secret", "no"),
        Exchange(folder.id, time.time(), "use more data", "the next plan carries it."),
    )
    shown = messages(place.read(folder.id), here)
    assert [each["role"] for each in shown].count("user") == 2, "what was said here is not shown twice"
    assert all("secret" not in each["content"] for each in shown)
    assert all("<script>" not in each["content"].replace("\\<", "") for each in shown)


def test_suggestions_fit_the_moment(place: Place, folder: RunFolder) -> None:
    assert suggestions(None) == [FIRST]
    assert suggestions(place.read(folder.id))[0] == "Resume"
    write_snapshot(folder, state_of(folder), ["planner"])
    with Database.open(folder.database, []):
        reading = place.read(folder.id)
    assert "Stop after this trial" in suggestions(reading)
    assert "Why was trial 3 accepted?" in suggestions(reading)
    assert len(suggestions(reading)) <= SUGGESTIONS
    for text in suggestions(reading):
        assert "not understand" not in hear(place, reading, text).answer


def test_a_chat_that_is_as_it_was_is_not_drawn_again(place: Place, folder: RunFolder) -> None:
    reading = place.read(folder.id)
    *_, seen = drawn(reading, (), NOTHING)
    assert len({repr(each) for each in drawn(reading, (), seen)}) == 1
