"""The checkpoints of a run on the page: told in words, opened, forked with the values that a person changed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from graph.edits import EDITS, edited
from graph.page import checkpoints
from graph.page.safe_text import document
from graph.runner import open_database
from graph.runs import past_events, read_state
from graph.snapshot import write_snapshot
from memory.errors import InputError, RunBusyError
from memory.events import Events
from memory.layout import RunFolder, read_record
from memory.records import Plan
from tests import example_run


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return played(RunFolder(tmp_path_factory.mktemp("runs") / "old"))


def played(folder: RunFolder, steps: int = len(example_run.STEPS)) -> RunFolder:
    """A run with so many of its nodes done, and its snapshot."""
    example_run.play(folder, steps)
    write_snapshot(folder, read_state(folder), [])
    return folder


def at(folder: RunFolder, happened: str) -> str:
    """The id of the checkpoint at which this had happened."""
    return next(e.checkpoint_id for e in checkpoints.past(folder).entries if e.happened.startswith(happened))


def test_the_newest_checkpoint_stands_first_and_each_can_be_chosen(finished: RunFolder) -> None:
    past = checkpoints.past(finished)
    assert not past.busy
    rows = checkpoints.rows(past.entries)
    assert rows[0][1].startswith("sealed test opened")
    assert rows[0][3] == "end"
    assert rows[-1][1].startswith("begun: syllogism")
    assert len(checkpoints.choices(past.entries)) == len(rows) == len(example_run.STEPS) + 1


def test_a_checkpoint_is_opened_with_its_plan_trials_and_lessons(finished: RunFolder) -> None:
    told = checkpoints.in_full(*checkpoints.state_at(finished, at(finished, "trial 3 planned")))
    assert "2 trials ended; next: data_engineer" in told
    assert "trial 1 accepted: 0.500 (base few-shot) -> 0.750" in told
    assert "Hypothesis: more of it helps" in told
    assert "sealed test" not in told


def test_a_run_that_is_at_work_elsewhere_shows_its_events_and_says_why(tmp_path: Path) -> None:
    folder = played(RunFolder(tmp_path / "busy"), steps=3)
    Events(folder.events).emit("note", "a line of the run")
    with open_database(folder):
        past = checkpoints.past(folder)
        assert not past.entries
        assert "at work in a process of its own" in past.busy
        assert [row[1] for row in checkpoints.event_rows(past_events(folder))] == ["a line of the run"]
        with pytest.raises(RunBusyError):
            checkpoints.grow(folder, "1", [])


def test_a_fork_takes_the_fields_that_were_changed_and_leaves_the_run_alone(tmp_path: Path) -> None:
    source = played(RunFolder(tmp_path / "old"))
    checkpoint = at(source, "trial 3 planned")
    state, entry = checkpoints.state_at(source, checkpoint)
    before = checkpoints.values(state, entry)
    assert before["plan.learning_rate"] == "0.003"
    assert before["budget"] == "30m"
    edits = checkpoints.edits_of(before, before | {"plan.learning_rate": " 0.002 ", "budget": "40m"})
    target, origin = checkpoints.grow(source, checkpoint, edits)
    assert origin.edits == ("budget=40m", "plan.learning_rate=0.002")
    assert read_record(target.trial(3) / "plan.json", Plan).training.learning_rate == 0.002
    assert checkpoints.state_at(source, checkpoint)[0]["plan"] == state["plan"]
    assert checkpoints.past(target).busy == checkpoints.NOT_BEGUN
    shutil.rmtree(source.root)
    write_snapshot(target, read_state(target), [])
    assert checkpoints.past(target).entries[0].happened.startswith("edited by hand")


def test_fields_that_are_left_alone_are_no_edits_and_bad_values_are_named(finished: RunFolder) -> None:
    state, entry = checkpoints.state_at(finished, at(finished, "trial 3 planned"))
    before = checkpoints.values(state, entry)
    assert checkpoints.edits_of(before, before) == []
    with pytest.raises(InputError, match="'fast' is no value for plan"):
        checkpoints.edits_of(before, before | {"plan.learning_rate": "fast"})


@pytest.mark.parametrize("happened", ["begun", "base model", "trial 3 planned", "trial 3 data", "trial 3 validated"])
def test_exactly_the_offered_fields_can_be_changed(finished: RunFolder, happened: str) -> None:
    state, entry = checkpoints.state_at(finished, at(finished, happened))
    offered = checkpoints.values(state, entry)
    values = {"budget": "2h", "max_trials": "9", "sample_cap": "100", "plan.rows": "100", "plan.balance": "answer"}
    values |= {"plan.method": "full", "plan.order": "file", "plan.schedule": "linear", "plan.lora_dropout": "0.1"}
    values |= {"plan.warmup_ratio": "0.1", "plan.sequence_len": "64", "approve": "plan", "search": "mcts"}
    values |= {"plan.objective": "dpo"}
    taken = set()
    for key in EDITS:
        value = values.get(key, "8")
        edits = checkpoints.edits_of({key: ""}, {key: value})
        try:
            edited(state, entry.following, edits)
            taken.add(key)
        except InputError:
            continue
    assert taken == set(offered)


def test_the_end_offers_nothing_to_change(finished: RunFolder) -> None:
    assert checkpoints.values(*checkpoints.state_at(finished, at(finished, "sealed test"))) == {}


def test_a_closed_list_of_values_can_be_chosen_from() -> None:
    assert checkpoints.allowed("plan.method") == ("lora", "qlora", "full")
    assert checkpoints.allowed("plan.balance") == ("none", "answer", "length", "difficulty")
    assert checkpoints.allowed("plan.learning_rate") is None
    assert checkpoints.allowed("approve") == ("never", "plan", "data", "train")
    assert checkpoints.allowed("search") == ("greedy", "best-first", "mcts")
    assert checkpoints.allowed("budget") is None


def test_what_models_wrote_is_no_markup_in_a_state() -> None:
    assert "![" not in document("![x](http://elsewhere/x.png) <img src=x>")
    assert "<" not in document("<script>alert(1)</script>")
