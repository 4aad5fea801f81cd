"""Files to take from a run: only what is offered, only from its own folder, never the database or the sealed split."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from graph.page import downloads
from graph.page.place import Place
from memory.errors import InputError
from memory.layout import RunFolder, write_text
from memory.state import State
from tests import example_run


@pytest.fixture
def run(tmp_path: Path) -> tuple[RunFolder, State]:
    """A finished run whose third trial has an adapter."""
    folder = RunFolder(tmp_path / "runs" / "run")
    state = example_run.finished(folder)
    adapter = "trials/3/train/adapter"
    write_text(folder.resolve(f"{adapter}/adapter_model.safetensors"), "weights")
    write_text(folder.resolve(f"{adapter}/adapter_config.json"), "{}")
    write_text(folder.model / "README.md", "# the card")
    write_text(folder.root / "report.md", "# the report")
    return folder, with_adapter(state, adapter)


def with_adapter(state: State, adapter: str) -> State:
    """The same run, whose last trial says that its adapter lies there."""
    *earlier, last = state["trials"]
    assert last.training is not None
    training = last.training.model_copy(update={"adapter": adapter})
    return {**state, "trials": [*earlier, last.model_copy(update={"training": training})]}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "shelf").mkdir()
    return Place(tmp_path / "runs", tmp_path / "cache", tmp_path / "shelf")


def test_adapter_and_card_of_the_best_trial_can_be_taken(run: tuple[RunFolder, State], place: Place) -> None:
    folder, state = run
    assert {"best: adapter (zip)", "model card", "report (Markdown)"} <= downloads.offered(folder, state).keys()
    card = Path(downloads.take(place, folder, state, "model card"))
    assert card.read_text() == "# the card"
    packed = Path(downloads.take(place, folder, state, "best: adapter (zip)"))
    assert packed.is_relative_to(place.handed_out)
    with zipfile.ZipFile(packed) as archive:
        assert archive.namelist() == ["adapter/adapter_config.json", "adapter/adapter_model.safetensors"]
        assert archive.read("adapter/adapter_model.safetensors") == b"weights"


def test_the_best_is_the_trial_that_is_handed_over_though_its_rise_may_be_noise(run: tuple[RunFolder, State]) -> None:
    folder, state = run
    last = state["trials"][-1]
    higher = example_run.trial(folder, example_run.plan(4, 3), [1, 1, 1, 1], "accepted")
    higher = higher.model_copy(update={"decision": "inconclusive", "training": last.training})
    offered = downloads.offered(folder, {**state, "trials": [*state["trials"], higher]})
    assert offered["best: validation outputs"] == offered["trial 4: validation outputs"]


def test_only_what_is_there_is_offered(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "young")
    assert downloads.offered(folder, State(task=example_run.task())) == {}


def test_a_name_that_is_not_offered_is_refused(run: tuple[RunFolder, State], place: Place) -> None:
    for name in ("run.duckdb", "../secret", "sealed/test.jsonl", "", "best: weights"):
        with pytest.raises(InputError, match="is not offered"):
            downloads.take(place, *run, name)


@pytest.mark.parametrize("where", ["sealed", "run.duckdb", "../outside", ".", "trials/3/link"])
def test_a_record_that_points_elsewhere_is_not_followed(run: tuple[RunFolder, State], where: str) -> None:
    folder, state = run
    write_text(folder.root.parent / "outside" / "secret", "secret")
    write_text(folder.sealed / "test.jsonl", "{}")
    write_text(folder.database, "database")
    (folder.root / "trials" / "3" / "link").symlink_to(folder.root.parent / "outside")
    assert "best: adapter (zip)" not in downloads.offered(folder, with_adapter(state, where))


def test_a_link_within_an_adapter_is_left_out(run: tuple[RunFolder, State], place: Place) -> None:
    folder, state = run
    write_text(folder.root.parent / "secret", "secret")
    (folder.root / "trials/3/train/adapter/more").symlink_to(folder.root.parent / "secret")
    with zipfile.ZipFile(downloads.take(place, folder, state, "best: adapter (zip)")) as archive:
        assert len(archive.namelist()) == 2
