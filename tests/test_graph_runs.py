"""The folder of runs: names, and what state each is in, running and broken ones included."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graph.run import main
from graph.runner import open_database
from graph.runs import all_runs, find, last_words, listing, new_run, past_events, read_state, summary
from memory.errors import InputError, RunBusyError
from memory.events import Events
from memory.layout import RunFolder, made, write_record
from tests import example_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, a stopped one, one that never began, and a folder that is none."""
    runs = tmp_path_factory.mktemp("runs")
    example_run.play(RunFolder(runs / "20261201-100000-syllogism"))
    stopped = RunFolder(runs / "20261201-110000-aiw")
    Events(stopped.events).emit("note", "training began")
    example_run.play(stopped, steps=4)
    write_record(made(runs / "20261202-120000-aiw") / "task.json", example_run.task(benchmark="aiw"))
    made(runs / "notes")
    return runs


def test_a_new_run_never_takes_a_name_that_is_there(tmp_path: Path) -> None:
    first = new_run(tmp_path, "aiw")
    made(first.root)
    second = new_run(tmp_path, "aiw")
    assert first.id.endswith("-aiw")
    assert second.root != first.root
    assert not second.root.exists()


def test_the_list_says_what_each_run_is_worth(runs: Path) -> None:
    told = [summary(folder) for folder in all_runs(runs)]
    assert [(one.status, one.trials, one.baseline, one.best, one.test) for one in told] == [
        ("finished", 3, 0.5, 1.0, 1.0),
        ("stopped", 0, 0.5, None, None),
        ("stopped", 0, None, None, None),
    ]
    assert told[0].outcome == "improved"
    assert told[1].says == "training began"
    lines = listing(told)
    assert lines[0].split() == ["RUN", "STATUS", "TRIALS", "BASE", "BEST", "TEST", "MODEL"]
    assert "improved" in lines[1]
    assert listing([]) == ["no runs yet"]


def test_a_run_that_another_process_holds_is_listed_with_its_last_words(runs: Path) -> None:
    folder = find(runs, "20261201-11")
    with open_database(folder):
        told = summary(folder)
        with pytest.raises(RunBusyError):
            read_state(folder)
    assert (told.status, told.says, told.benchmark) == ("running", "training began", "syllogism")


def test_a_broken_run_is_a_line_and_not_the_end_of_the_list(tmp_path: Path) -> None:
    broken = RunFolder(tmp_path / "broken")
    write_record(broken.task, example_run.task())
    broken.database.write_bytes(b"no database at all" * 1000)
    made(tmp_path / "worse").joinpath("task.json").write_text("{}")
    told = [summary(folder) for folder in all_runs(tmp_path)]
    assert [one.status for one in told] == ["unreadable", "unreadable"]
    assert "cannot open" in told[0].says
    assert len(listing(told)) == 3


def test_a_run_is_found_by_enough_of_its_name(runs: Path) -> None:
    for name in ("20261201-110000-aiw", "20261201-11", "110000-aiw"):
        assert find(runs, name).id == "20261201-110000-aiw"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("2026120", "3 runs are called like 2026120. Write more of it: 20261201-100000-syllogism, "),
        ("20261201-110000-aiv", "Did you mean 20261201-110000-aiw?"),
        ("zzz", "--list lists them."),
        ("notes", "there is no run notes"),
        ("", "there is no run"),
    ],
)
def test_an_unknown_run_is_refused_with_the_way_out(runs: Path, name: str, says: str) -> None:
    with pytest.raises(InputError) as refused:
        find(runs, name)
    assert says in str(refused.value)


def test_a_torn_line_of_events_is_left_out(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    assert past_events(folder) == []
    assert last_words(folder) == ""
    Events(folder.events).emit("note", "whole")
    with folder.events.open("a") as file:
        file.write('{"at": 1, "kind": "no')
    assert [event.says for event in past_events(folder)] == ["whole"]
    assert last_words(folder) == "whole"


def test_list_and_history_as_json(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--json", "--run-dir", str(runs)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [run["status"] for run in told] == ["finished", "stopped", "stopped"]
    assert main(["--history", "20261201-11", "--json", "--run-dir", str(runs)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [entry["following"] for entry in told] == ["analyst", "planner", "data_engineer", "validator", "trainer"]


def test_list_and_history_for_a_person(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--run-dir", str(runs)]) == 0
    assert "20261201-110000-aiw" in capsys.readouterr().out
    assert main(["--history", str(runs / "20261201-110000-aiw")]) == 0
    assert "trial 1 validated" in capsys.readouterr().out
    assert main(["--history", "2026", "--run-dir", str(runs)]) == 2


def test_resuming_a_finished_run_shows_its_result_again(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["--resume", "20261201-10", "--run-dir", str(runs)]
    assert main(line) == 0
    out = capsys.readouterr().out
    assert "SEALED TEST      EXACT          95 % INTERVAL   N" in out
    assert "tuned            1.000 ± 0.100  [0.800, 1.000]  4" in out
    assert "report.md" in out
    assert main([*line, "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["run_id"] == "20261201-100000-syllogism"
    assert "SEALED TEST" in err


def test_a_run_that_another_process_holds_cannot_be_resumed(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = find(runs, "20261201-11")
    with open_database(folder):
        assert main(["--resume", folder.id, "--run-dir", str(runs)]) == 2
    assert "is in use by process" in capsys.readouterr().err
