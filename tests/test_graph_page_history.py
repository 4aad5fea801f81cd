"""Where a run stands, in the words of its history: finished, stopped and free to go on, at work, or not begun."""

from __future__ import annotations

from pathlib import Path

import pytest

from graph.page import checkpoints, history
from graph.page.place import Place
from memory.errors import InputError
from memory.layout import RunFolder, write_record
from tests import example_run
from tests.test_graph_page_checkpoints import played


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "runs", tmp_path / "cache", tmp_path / "files")


def test_a_stopped_run_can_be_taken_over_wherever_it_was_started(place: Place) -> None:
    folder = played(RunFolder(place.runs / "stopped"), steps=3)
    past = checkpoints.past(folder)
    assert "stopped before validator" in history.status_of(folder, past)
    assert history.may_go_on(folder, past)


def test_a_finished_run_does_not_go_on(place: Place) -> None:
    folder = played(RunFolder(place.runs / "finished"))
    past = checkpoints.past(folder)
    assert "is finished: 17 checkpoints" in history.status_of(folder, past)
    assert not history.may_go_on(folder, past)


def test_a_run_without_checkpoints_says_so_and_its_database_is_left_alone(place: Place) -> None:
    folder = RunFolder(place.runs / "young")
    write_record(folder.task, example_run.task())
    past = checkpoints.past(folder)
    assert history.status_of(folder, past) == checkpoints.NOT_BEGUN
    assert not folder.database.exists()


def test_what_has_not_changed_or_is_not_looked_at_is_not_read_again(place: Place) -> None:
    played(RunFolder(place.runs / "run"), steps=3)
    key, status, *_ = history.looked(place, "run", history.NAME, None)
    assert "stopped before validator" in status
    assert history.looked(place, "run", history.NAME, key) == history.looked(place, "run", "Chat", None)
    assert history.looked(place, "../run", history.NAME, None)[:2] == (None, "No run is chosen.")


def test_a_fork_asks_for_an_open_checkpoint(place: Place) -> None:
    played(RunFolder(place.runs / "run"), steps=3)
    with pytest.raises(InputError, match="no checkpoint is open"):
        history.grown(place, "run", None)
    with pytest.raises(InputError, match="has no checkpoint"):
        history.opened(place, "run", "nowhere")
