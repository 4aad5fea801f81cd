"""Batches: what their file may say, and whole small batches with quick engines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from graph.arguments import parse
from graph.settings import BatchTask
from memory.errors import InputError
from memory.layout import RunFolder
from tests.conftest import content

ROOT = Path(__file__).parents[1]
HOME = {"HOME": "/home/somebody"}
SMALL = {"budget": "20m", "max_trials": 1}


def write(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value))
    return path


def read(tmp_path: Path, value: Any) -> tuple[BatchTask, ...]:
    return parse(["--batch", str(write(tmp_path / "tasks.json", value)), "--run-dir", str(tmp_path)], HOME).batch


# --- the file ---------------------------------------------------------------------------------------------------------


def test_the_options_of_a_run_are_the_keys_of_a_task(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("{}\n")
    full = {
        "benchmark": "aiw", "base_model": "some/model", "budget": "1h30m", "max_trials": 4, "sample_cap": 200,
        "seed": 7, "dataset": [str(rows), str(rows)], "guard": ["syllogism", "spell_backward"], "guard_margin": 0.1,
    }  # fmt: skip
    (one,) = read(tmp_path, [full])
    line = f"--benchmark aiw --base-model some/model --budget 1h30m --max-trials 4 --sample-cap 200 --seed 7 --dataset {rows} {rows} --guard syllogism,spell_backward --guard-margin 0.1"  # noqa: E501
    assert (one.name, one.task) == ("tasks-01-aiw", parse(line.split(), HOME).task())


def test_tasks_may_have_names(tmp_path: Path) -> None:
    named = read(tmp_path, {"first try": {"benchmark": "aiw"}, "other": {"benchmark": "aiw", "seed": 2}})
    assert [each.name for each in named] == ["tasks-first-try", "tasks-other"]


def test_an_option_without_a_value_is_true_or_false(tmp_path: Path) -> None:
    yes, no = read(tmp_path, [{"benchmark": "aiw", "allow_weak_sandbox": one} for one in (True, False)])
    assert (yes.task.allow_weak_sandbox, no.task.allow_weak_sandbox) == (True, False)


def test_the_file_of_ft_agent_is_taken(tmp_path: Path) -> None:
    theirs = {
        "model": "Qwen/Qwen2.5-7B-Instruct", "benchmark": "aiw", "gpus": "0,1", "port": 8001, "timeout": "12h",
        "benchmark_description": "-- how many sisters?",
    }  # fmt: skip
    (one,) = read(tmp_path, {"tasks": [theirs]})
    task = one.task
    assert (task.base_model, task.benchmark, task.budget.seconds) == ("Qwen/Qwen2.5-7B-Instruct", "aiw", 12 * 3600)
    assert task.description == "-- how many sisters?"
    assert [line.split(":")[0] for line in one.ignored] == ["gpus is ignored", "port is ignored"]


@pytest.mark.parametrize(
    ("tasks", "says"),
    [
        ([{"benchmark": "aiw", "bugdet": "1h"}], "task 01: there is no key bugdet. Did you mean budget?"),
        ([{"benchmark": "aiw"}, {"benchmark": "awi"}], "task 02: there is no benchmark 'awi'"),
        ([{"benchmark": "aiw", "approve": "plan"}], "there is no key approve"),
        ([{"benchmark": "aiw", "resume": "x"}], "there is no key resume"),
        ([{"benchmark": "aiw", "seed": {"a": 1}}], "seed is not a text or a number"),
        ([{"benchmark": "aiw", "allow_weak_sandbox": "yes"}], "allow_weak_sandbox is not true or false"),
        ([{"benchmark": "aiw", "budget": 30}], "'30' is no duration"),
        ([{"model": "a/b", "base_model": "c/d", "benchmark": "aiw"}], "given twice and differs"),
        ({"tasks": [{"benchmark": "aiw"}], "seed": 1}, "there is no key seed beside tasks"),
        ([], "holds no tasks"),
        (["aiw"], "task 1 is no object"),
        ({"a b": {"benchmark": "aiw"}, "a-b": {"benchmark": "aiw"}}, "two tasks called tasks-a-b"),
    ],
)
def test_what_a_file_cannot_say_is_refused_in_one_line(tmp_path: Path, tasks: Any, says: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, tasks)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_batch_has_no_options_of_one_run() -> None:
    with pytest.raises(InputError, match="--budget and --batch exclude each other"):
        parse(["--batch", "tasks.json", "--budget", "1h"], HOME)


# --- whole batches ----------------------------------------------------------------------------------------------------


class Batch:
    """A file of tasks, and the command line that works it off."""

    def __init__(self, tmp_path: Path, tasks: Any) -> None:
        self.file = write(tmp_path / "b.json", tasks)
        self.runs = tmp_path / "runs"
        self.cache = tmp_path / "cache"

    def begin(self, **faults: str) -> subprocess.Popen[str]:
        """Start it; do not wait."""
        env = {"PATH": os.environ["PATH"], "HOME": str(self.cache), "TUNEWRIGHT_CACHE": str(self.cache), **faults}
        argv = [sys.executable, "-m", "tests.fake_batch", "--batch", str(self.file), "--run-dir", str(self.runs)]
        pipe = subprocess.PIPE
        return subprocess.Popen([*argv, "--json"], cwd=ROOT, env=env, stdout=pipe, stderr=pipe, text=True)

    def call(self, code: int, **faults: str) -> tuple[list[dict[str, Any]], str]:
        """Run it to its end; its rows, and what it said to people."""
        out, said = self.ended(self.begin(**faults), code)
        return json.loads(out), said

    def ended(self, process: subprocess.Popen[str], code: int) -> tuple[str, str]:
        out, err = process.communicate(timeout=250)
        assert process.returncode == code, f"{out}\n{err}"
        assert "Traceback" not in err
        return out, err

    def folder(self, name: str) -> RunFolder:
        return RunFolder(self.runs / f"b-{name}")


def wait_for(what: str, done: Any) -> None:
    until = time.monotonic() + 120
    while not done():
        assert time.monotonic() < until, what
        time.sleep(0.05)


@pytest.mark.slow
def test_a_batch_ends_in_a_table_with_the_failures_in_it_and_goes_on(tmp_path: Path) -> None:
    batch = Batch(tmp_path, {"good": {"benchmark": "spell_backward", **SMALL}, "bad": {"benchmark": "aiw", **SMALL}})
    rows, said = batch.call(1, FAKE_MISSING="aiw")
    good, bad = rows
    assert (good["task"], good["status"], good["n"], good["benchmark"]) == ("b-good", "finished", 60, "spell_backward")
    assert good["decision"] == "improved"
    assert good["ci_low"] < good["tuned"] < good["ci_high"]
    assert good["baseline"] < good["tuned"]
    assert good["seconds"] > 0
    assert Path(good["folder"], "report.json").exists()
    assert (bad["status"], bad["tuned"]) == ("failed", None)
    assert bad["says"] == "the train environment could not be installed. Ask for another disk"
    assert "b-bad" in said
    before = content(batch.folder("good"))
    rows, _ = batch.call(0)
    assert [row["status"] for row in rows] == ["finished", "finished"]
    assert content(batch.folder("good")) == before


@pytest.mark.slow
def test_ctrl_c_stops_all_runs_and_the_same_command_goes_on(tmp_path: Path) -> None:
    tasks = {name: {"benchmark": "spell_backward", "seed": seed, **SMALL} for seed, name in enumerate("xyz")}
    batch = Batch(tmp_path, tasks)
    slow = {"FAKE_AXOLOTL_STEP_S": "0.3", "FAKE_GPUS": "4,GPU-7"}
    process = batch.begin(**slow)
    losses = [batch.folder(name).events for name in "xy"]
    wait_for("two trainings at once", lambda: all(p.exists() and '"loss"' in p.read_text() for p in losses))
    process.send_signal(signal.SIGINT)
    out, said = batch.ended(process, 130)
    assert [row["status"] for row in json.loads(out)] == ["stopped", "stopped", "not begun"]
    assert "b-x begins on GPU 4" in said
    assert "b-y begins on GPU GPU-7" in said
    assert "GPU GPU-7" in batch.folder("y").process_log.read_text()
    assert not batch.folder("z").root.exists()
    rows, said = batch.call(0, FAKE_GPUS="4,GPU-7")
    assert [row["status"] for row in rows] == ["finished"] * 3
    assert batch.folder("x").events.read_text().count('"run b-x"') == 2


@pytest.mark.slow
def test_a_folder_with_another_task_is_not_gone_on_with(tmp_path: Path) -> None:
    batch = Batch(tmp_path, {"one": {"benchmark": "aiw", **SMALL}})
    batch.call(1, FAKE_MISSING="aiw")
    write(batch.file, {"one": {"benchmark": "aiw", "budget": "30m", "max_trials": 1}})
    _, said = batch.call(1, FAKE_MISSING="aiw")
    assert "b-one keeps the budget with which it began, 20m" in said
    write(batch.file, {"one": {"benchmark": "spell_backward", **SMALL}})
    _, said = batch.ended(batch.begin(), 2)
    assert "holds a run of another task than b-one" in said
