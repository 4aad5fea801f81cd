"""A run is read as it grows: each event once, torn lines later, and only what changed is drawn again."""

from __future__ import annotations

import time
from pathlib import Path

import gradio as gr
import pytest

from graph.page.place import Place
from graph.page.reading import Follower
from graph.page.run_view import LASTING, TICKING, log_text, nodes_html, now_html, plan_text, redrawn, trial_rows
from graph.snapshot import write_snapshot
from memory.database import Database
from memory.errors import InputError, StorageError
from memory.events import Events
from memory.layout import RunFolder, write_record
from tests import example_run

PARTS = (*TICKING, *LASTING)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A run of which only the task is there."""
    folder = RunFolder(tmp_path / "runs" / "20260101-000000-syllogism")
    write_record(folder.task, example_run.task())
    return folder


def test_events_are_heard_once_and_a_half_written_line_is_heard_when_it_is_whole(folder: RunFolder) -> None:
    follower = Follower(folder)
    events = Events(folder.events)
    events.node, events.trial = "trainer", 1
    events.emit("node", "trainer at work", phase="start")
    events.emit("loss", "step 1 loss 2.0", value=2.0, done=1)
    assert follower.read(time.time()).losses == ((1, 2.0),)
    with folder.events.open("a") as file:
        file.write('{"at": 1, "kind": "loss", "says": "step 2 lo')
    assert follower.read(time.time()).losses == ((1, 2.0),)
    with folder.events.open("a") as file:
        file.write('ss 1.5", "value": 1.5, "done": 2}\n')
    assert follower.read(time.time()).losses == ((1, 2.0), (2, 1.5))


def test_the_state_comes_from_the_snapshot_and_the_status_from_the_lock(folder: RunFolder) -> None:
    follower = Follower(folder)
    assert follower.read(time.time()).status == "starting"
    assert follower.read(time.time() + 3600).status == "stopped"
    with Database.open(folder.database, []):
        assert follower.read(time.time()).status == "at work"
    state = example_run.finished(folder)
    write_snapshot(folder, {**state, "test": None}, ["planner"])
    Events(folder.events).emit("run", "run x", phase="start")
    reading = follower.read(time.time())
    assert (reading.status, reading.following, reading.best) == ("stopped", "planner", "trial 3")
    write_snapshot(folder, state, [])
    assert follower.read(time.time()).status == "finished"


def test_a_snapshot_that_grew_is_the_same_as_one_read_anew(folder: RunFolder) -> None:
    state = {**example_run.finished(folder), "test": None}
    follower = Follower(folder)
    write_snapshot(folder, {**state, "trials": state["trials"][:1]}, ["planner"])
    assert len(follower.read(time.time()).state["trials"]) == 1
    write_snapshot(folder, {**state, "plan": example_run.plan(4, 3)}, ["data_engineer"])
    assert follower.read(time.time()).state == Follower(folder).read(time.time()).state
    folder.snapshot.write_text('{"state": 3')
    with pytest.raises(StorageError):
        follower.read(time.time())


def test_only_what_changed_is_drawn_again(folder: RunFolder) -> None:
    follower = Follower(folder)
    events = Events(folder.events)
    events.emit("run", "run x", phase="start")
    write_snapshot(folder, {**example_run.finished(folder), "test": None}, ["planner"])
    *first, keys = redrawn(PARTS, follower.read(time.time()), ())
    assert all(part != gr.skip() for part in first)
    *second, same = redrawn(PARTS, follower.read(time.time()), keys)
    assert [*second, same] == [gr.skip()] * (len(PARTS) + 1)
    events.emit("note", "news")
    *third, _ = redrawn(PARTS, follower.read(time.time()), keys)
    assert [part != gr.skip() for part in third].count(True) == 1, "the log, and nothing else"


def test_words_of_others_are_text(folder: RunFolder) -> None:
    events = Events(folder.events)
    events.node = "trainer"
    with Database.open(folder.database, []):
        events.emit("node", "trainer at work", phase="start")
        events.emit("progress", "<script>alert(1)</script>", done=1, total=2)
        reading = Follower(folder).read(time.time())
    assert "<script>" not in now_html(reading)
    assert "&lt;script&gt;" in now_html(reading)
    assert "▶ trainer, at work" in nodes_html(reading)
    assert log_text(reading).endswith("trainer: trainer at work")


def test_what_takes_long_before_it_can_be_counted_is_said_beside_the_node_at_work(folder: RunFolder) -> None:
    events = Events(folder.events)
    events.node = "analyst"
    with Database.open(folder.database, []):
        events.emit("node", "analyst at work", phase="start")
        events.emit("note", "the vLLM server starts")
        assert "the vLLM server starts" in now_html(Follower(folder).read(time.time()))
        events.emit("progress", "scoring", done=1, total=2)
        assert "the vLLM server starts" not in now_html(Follower(folder).read(time.time()))


def test_an_ended_run_says_what_the_sealed_test_says(folder: RunFolder) -> None:
    write_snapshot(folder, {**example_run.finished(folder), "test": None}, ["planner"])
    assert "Trial 3, accepted" in plan_text(Follower(folder).read(time.time()))
    write_snapshot(folder, example_run.finished(folder), [])
    said = plan_text(Follower(folder).read(time.time()))
    assert "The run has ended: improved" in said
    assert "better than the " in said
    assert [said.count(name) for name in ("base, zero-shot", "base, 5-shot", "trial 3")] == [1, 1, 1]


def test_a_row_says_whether_the_hypothesis_came_true(folder: RunFolder) -> None:
    write_snapshot(folder, {**example_run.finished(folder), "test": None}, ["planner"])
    newest, failed, _ = trial_rows(Follower(folder).read(time.time()))
    assert newest[:5] == ["3", "learning_rate: 0.001 → 0.003", "0.750 ± 0.100", "[0.550, 0.950]", "✓ accepted"]
    assert failed[4] == "! failed"


def test_a_run_is_found_by_its_id_and_by_nothing_else(folder: RunFolder, tmp_path: Path) -> None:
    place = Place(tmp_path / "runs", tmp_path / "cache", tmp_path / "out")
    assert place.folder(folder.id) == folder
    for guess in (
        "",
        None,
        "..",
        "2026",
        "../runs/20260101-000000-syllogism",
        str(folder.root),
        "20260101-000000-syllogis",
    ):
        with pytest.raises(InputError):
            place.folder(guess)


def test_only_a_copy_of_a_run_s_own_file_is_handed_out(folder: RunFolder, tmp_path: Path) -> None:
    place = Place(tmp_path / "runs", tmp_path / "cache", tmp_path / "out")
    place.handed_out.mkdir()
    (folder.root / "report.md").write_text("the report")
    copy = Path(place.hand_out(folder, folder.root / "report.md"))
    assert copy.read_text() == "the report"
    assert copy.is_relative_to(place.handed_out)
    with Database.open(folder.database, []):
        pass
    folder.sealed.mkdir()
    (folder.sealed / "test.jsonl").write_text("{}")
    (folder.root / "way-out").symlink_to("/etc/passwd")
    (tmp_path / "runs" / "other").mkdir()
    for refused in ("run.duckdb", "sealed/test.jsonl", "way-out", "../other", "missing", "run.lock"):
        with pytest.raises(InputError):
            place.hand_out(folder, folder.root / refused)
