"""What is made of a finished run: exports, the winning trial again, an endpoint, answers side by side; stand-ins."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from graph import runner
from graph.finished import finished
from graph.handing_over import export, reproduce
from graph.serving import ask, serve
from graph.settings import Settings
from graph.workshop import Workshop
from memory.errors import InputError, RunBusyError, ServerError
from memory.layout import RunFolder, read_record, write_record
from memory.records import Budget, Plan, Task
from nodes.deps import Propose
from tests import fake_run
from tests.fake_environment import interpreter
from tests.scripted_plans import small
from tools import benchmarks
from tools.engines.contract import Engine
from tools.handover.folder import hand_over_model
from tools.handover.reproduction import Reproduced, only_one, place_of, record_path
from tools.proposers.brief import Brief, Stop
from tools.report import RunReport

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
HOLDING = """
import sys
from pathlib import Path
from graph.runner import open_database
from memory.layout import RunFolder
open_database(RunFolder(Path(sys.argv[1])))
print("held", flush=True)
sys.stdin.read()
"""
SERVING = """
import sys
from graph import run
from graph.serving import serve
from tests.test_graph_handing_over import equip, settings
from pathlib import Path
try:
    with run.stoppable():
        serve(settings(Path(sys.argv[1]), "serve", port=int(sys.argv[2])), equip)
except KeyboardInterrupt:
    sys.exit(run.STOPPED)
"""


def equip(task: Task, cache: Path, say: Callable[[str], None]) -> Workshop:
    """Quick engines whose environments play the endpoint and the export worker too; they take faults from ours."""
    workshop = fake_run.workshop(task, cache, say)
    python = interpreter(cache)

    def placed(engine: Engine) -> Engine:
        return replace(engine, python=python)

    engines = workshop.engines
    engines = replace(engines, axolotl=placed(engines.axolotl), vllm=placed(engines.vllm))
    return replace(workshop, engines=engines, propose=small)


def settings(runs: Path, action: str, **changes: object) -> Settings:
    """What the command line makes of an action on the only run."""
    return Settings.model_validate(
        {"action": action, "runs": runs, "run": "run", "cache": runs.parent / "cache", **changes}
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a whole stand-in run in it."""
    return play(tmp_path_factory.mktemp("finished"), small)


def play(place: Path, propose: Propose) -> Path:
    """Make a whole stand-in run in a folder of runs."""
    benchmark = benchmarks.get("spell_backward")
    budget = Budget(seconds=1200, max_trials=2)
    task = Task(base_model="small", benchmark=benchmark.name, metric=benchmark.metric, budget=budget)
    folder = RunFolder(place / "runs" / "run")
    runner.start(task, folder, lambda task: replace(equip(task, place / "cache", print), propose=propose))
    accept(folder)
    return place / "runs"


def accept(folder: RunFolder) -> None:
    """Hand over the run's last trial, whatever was decided: what a stand-in scores is not the question here."""
    report = read_record(folder.root / "report.json", RunReport)
    trial = report.trials[-1]
    tuned = report.test.tuned or report.test.few_shot
    test = report.test.model_copy(update={"winner": trial.number, "tuned": tuned})
    report = report.model_copy(update={"test": test})
    write_record(folder.root / "report.json", report)
    hand_over_model(folder, trial, report)


@pytest.fixture
def runs(made: Path, tmp_path: Path) -> Path:
    """A copy of the finished run that a test may change."""
    shutil.copytree(made.parent, tmp_path / "place")
    return tmp_path / "place" / "runs"


def run_of(runs: Path) -> RunFolder:
    return RunFolder(runs / "run")


# --- which runs ---------------------------------------------------------------------------------------------------


def test_an_unfinished_run_is_refused_with_the_command_that_goes_on(runs: Path) -> None:
    (run_of(runs).root / "report.json").unlink()
    with pytest.raises(InputError, match=rf"has not finished. Go on with: .*--resume run --run-dir {runs}"):
        finished(settings(runs, "ask"))


def test_a_run_at_work_in_another_process_is_said_to_be(runs: Path) -> None:
    (run_of(runs).root / "report.json").unlink()
    argv = [sys.executable, "-c", HOLDING, str(run_of(runs).root)]
    with subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(RunBusyError, match=f"process {holder.pid}"):
            finished(settings(runs, "ask"))
        holder.communicate()


def test_a_run_without_an_accepted_trial_has_nothing_to_hand_over(runs: Path) -> None:
    report = read_record(run_of(runs).root / "report.json", RunReport)
    test = report.test.model_copy(update={"winner": None, "tuned": None})
    write_record(run_of(runs).root / "report.json", report.model_copy(update={"test": test}))
    with pytest.raises(InputError, match="no tuned model"):
        finished(settings(runs, "export"))


# --- export -------------------------------------------------------------------------------------------------------


def test_an_export_lies_in_the_run_unless_said_otherwise(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert export(settings(runs, "export", export_format="merged"), equip) == 0
    assert (run_of(runs).root / "export" / "merged" / "quality.json").exists()
    assert "10 of 10 recorded answers are equal" in capsys.readouterr().out
    elsewhere = runs.parent / "elsewhere"
    assert export(settings(runs, "export", export_format="gguf", destination=elsewhere, json_output=True), equip) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["form"] == "gguf"
    assert (elsewhere / "README.md").exists()
    with pytest.raises(InputError, match="exists already"):
        export(settings(runs, "export", export_format="gguf", destination=elsewhere), equip)


# --- reproduce ----------------------------------------------------------------------------------------------------


def test_the_winner_comes_out_bit_for_bit_and_a_second_time_too(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert reproduce(settings(runs, "reproduce"), equip) == 0
        done = read_record(record_path(run_of(runs)), Reproduced)
        assert (done.outcome, done.largest_difference, done.share) == ("equal", 0.0, 0.0)
        assert (done.other_environments, done.other_settings) == ((), ())
        assert [rows.how for rows in done.rows] == ["rebuilt by its recipe"]
        assert "equal, bit for bit" in capsys.readouterr().out


@pytest.mark.parametrize(("source", "why"), [("gone", "train.jsonl"), ("altered", "another content")])
def test_rows_whose_sources_are_gone_or_altered_come_from_the_run(runs: Path, source: str, why: str) -> None:
    train = run_of(runs).data / "train.jsonl"
    lines = train.read_text().splitlines(keepends=True)
    train.unlink()
    if source == "altered":
        train.write_text("".join(lines[len(lines) // 2 :]))
    assert reproduce(settings(runs, "reproduce"), equip) == 0
    (rows,) = read_record(record_path(run_of(runs)), Reproduced).rows
    assert rows.how == "taken from the run's folder"
    assert why in rows.why


def test_rows_that_are_gone_altogether_are_refused(runs: Path) -> None:
    (run_of(runs).data / "train.jsonl").unlink()
    shutil.rmtree(run_of(runs).root / "datasets")
    with pytest.raises(InputError, match="cannot be had again"):
        reproduce(settings(runs, "reproduce"), equip)


def going_on(brief: Brief) -> Plan | Stop:
    """A trial, and a second one that goes on from its weights, with two snapshots on the way."""
    planned = small(brief)
    if brief.number == 1:
        return planned
    first = brief.trials[0].plan
    recipe = first.training.model_copy(update={"continue_from": 1, "snapshots": 2, "epochs": 2})
    return first.model_copy(update={"number": 2, "training": recipe}) if brief.number == 2 else planned


def test_a_trial_that_goes_on_from_another_is_made_again_from_the_beginning(tmp_path: Path) -> None:
    runs = play(tmp_path, going_on)
    assert reproduce(settings(runs, "reproduce"), equip) == 0
    done = read_record(record_path(run_of(runs)), Reproduced)
    assert (done.chain, done.outcome, done.other_settings) == ((1, 2), "equal", ())


def test_another_seed_is_another_model(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = read_record(run_of(runs).root / "report.json", RunReport)
    (trial,) = report.trials
    recipe = trial.plan.training.model_copy(update={"seed": 5})
    trial = trial.model_copy(update={"plan": trial.plan.model_copy(update={"training": recipe})})
    write_record(run_of(runs).root / "report.json", report.model_copy(update={"trials": (trial,)}))
    assert reproduce(settings(runs, "reproduce"), equip) == 3
    done = read_record(record_path(run_of(runs)), Reproduced)
    assert (done.outcome, done.other_settings) == ("different", ("seed",))
    assert "setting seed is not that of the run" in capsys.readouterr().out


def test_a_base_model_that_changed_is_refused(runs: Path) -> None:
    def other(task: Task, cache: Path, say: Callable[[str], None]) -> Workshop:
        workshop = equip(task, cache, say)
        return replace(workshop, model=workshop.model.model_copy(update={"sha256": "0" * 64}))

    with pytest.raises(InputError, match="weights of small have changed"):
        reproduce(settings(runs, "reproduce"), other)
    assert not place_of(run_of(runs)).exists()


def test_a_run_is_reproduced_by_one_process_at_a_time(runs: Path) -> None:
    with only_one(run_of(runs)), pytest.raises(RunBusyError, match="by another process"):
        reproduce(settings(runs, "reproduce"), equip)


# --- serve --------------------------------------------------------------------------------------------------------


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def port() -> int:
    """A free port."""
    return free_port()


def test_the_endpoint_answers_until_ctrl_c_and_leaves_nothing_behind(runs: Path, port: int) -> None:
    argv = [sys.executable, "-c", SERVING, str(runs), str(port)]
    process = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = ""
    while "Ctrl-C ends it" not in said:
        line = process.stdout.readline()
        assert line, process.communicate()
        said += line
    assert f"http://127.0.0.1:{port}/v1" in said
    curl = next(line for line in said.splitlines() if line.startswith("curl "))
    answer = subprocess.run(curl, shell=True, capture_output=True, text=True, check=True).stdout
    assert json.loads(answer)["choices"][0]["message"]["content"] == f"served from {run_of(runs).model}"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (130, "")
    with pytest.raises(ConnectionRefusedError):
        http.client.HTTPConnection("127.0.0.1", port).connect()


def test_a_port_that_is_taken_is_refused_before_anything_starts(runs: Path) -> None:
    def never(task: Task, cache: Path, say: Callable[[str], None]) -> Workshop:
        raise AssertionError("nothing was to be set up")

    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        with pytest.raises(InputError, match=rf"port {number} cannot be used.*--port"):
            serve(settings(runs, "serve", port=number), never)
    with pytest.raises(InputError, match="port 70000 cannot be used"):
        serve(settings(runs, "serve", port=70000), never)


def test_a_server_that_does_not_start_is_one_line(runs: Path, port: int) -> None:
    def refusing(task: Task, cache: Path, say: Callable[[str], None]) -> Workshop:
        workshop = equip(task, cache, say)
        vllm = replace(workshop.engines.vllm, env={"FAKE_ENDPOINT_REFUSE": "no memory for it"})
        return replace(workshop, engines=replace(workshop.engines, vllm=vllm))

    began = time.monotonic()
    with pytest.raises(ServerError, match=r"did not start: .*no memory for it"):
        serve(settings(runs, "serve", port=port), refusing)
    assert time.monotonic() - began < 10


# --- ask ----------------------------------------------------------------------------------------------------------


def test_base_and_tuned_answer_side_by_side(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(settings(runs, "ask", question="who?", json_output=True), equip) == 0
    answers = json.loads(capsys.readouterr().out)["answers"]
    assert [answer["model"] for answer in answers] == ["base", "tuned"]
    assert answers[0]["answer"] == "who? 0.100"
    assert answers[1]["answer"].startswith("who? ")
    assert answers[1]["answer"] != answers[0]["answer"]
    assert ask(settings(runs, "ask", question="who?"), equip) == 0
    said = capsys.readouterr().out
    assert "base (" in said
    assert "tuned (" in said


def test_a_question_may_be_as_long_as_in_the_run(runs: Path) -> None:
    report = read_record(run_of(runs).root / "report.json", RunReport)
    write_record(run_of(runs).root / "report.json", report.model_copy(update={"window": 4096}))
    assert ask(settings(runs, "ask", question="who?"), equip) == 0
    started = json.loads((run_of(runs).root / "asked" / "request.json").read_text())
    assert started["request"]["max_model_len"] == 4096


def test_an_empty_question_is_refused(runs: Path) -> None:
    with pytest.raises(InputError, match="question is empty"):
        ask(settings(runs, "ask", question=" "), equip)


def test_no_process_is_left(runs: Path) -> None:
    place = str(runs.parent.parent)
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes().decode(errors="replace")
        except OSError:
            continue
        assert place not in command or int(entry.parent.name) == os.getpid()
