"""What is made of a finished run, with the real engines: exports that answer again, equal weights, an endpoint."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from graph.finished import Finished, finished
from graph.handing_over import export, reproduce
from graph.serving import ask
from graph.settings import Settings
from graph.workshop import workshop
from memory.errors import EngineError, NotReproducedError
from memory.layout import read_record, read_rows, write_rows
from memory.records import Outcome
from tests.test_engine_run import ARGUMENTS, begin, only_run
from tests.test_graph_handing_over import accept, free_port
from tools.engines.contract import Engine
from tools.engines.environments import ENGINES, cache_folder
from tools.handover import exports
from tools.handover.exports import Exported, GgufRequest, GgufWritten, Source
from tools.handover.reproduction import Reproduced, record_path

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[1]
CACHE = cache_folder(os.environ)
SERVING = """
import os, sys
from pathlib import Path
from graph import run
from graph.serving import serve
from graph.settings import Settings
from graph.workshop import workshop
runs, cache, port = sys.argv[1:]
try:
    with run.stoppable():
        serve(Settings(action="serve", runs=Path(runs), run="syllogism", cache=Path(cache), port=int(port)), workshop)
except KeyboardInterrupt:
    sys.exit(run.STOPPED)
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one small real run in it, whose trial is handed over whatever was decided."""
    place = tmp_path_factory.mktemp("runs")
    out, _ = begin(place, "small", *ARGUMENTS).communicate()
    assert (only_run(place).root / "report.json").exists(), out
    accept(only_run(place))
    return place


def settings(runs: Path, action: str, **changes: object) -> Settings:
    """What the command line makes of an action on the only run."""
    return Settings.model_validate({"action": action, "runs": runs, "run": "syllogism", "cache": CACHE, **changes})


def source_of(runs: Path) -> Source:
    """The run as exports see it."""
    run: Finished = finished(settings(runs, "export"))
    tools = workshop(run.report.task, CACHE, print)
    return Source(run.folder, run.report, run.winner, tools.model, tools.engines.axolotl)


@pytest.mark.parametrize("form", ["adapter", "merged", "gguf"])
def test_every_form_is_loaded_and_gives_its_answers_again(runs: Path, tmp_path: Path, form: str) -> None:
    place = tmp_path / form
    assert export(settings(runs, "export", export_format=form, destination=place), workshop) == 0
    done = read_record(place / "check.json", Exported)
    assert len(done.answers) == 10
    assert done.equal >= 7
    largest = max(place.iterdir(), key=lambda path: path.stat().st_size)
    assert largest.suffix == {"adapter": ".safetensors", "merged": ".safetensors", "gguf": ".gguf"}[form]


def test_an_export_that_does_not_answer_as_recorded_is_refused(runs: Path, tmp_path: Path) -> None:
    run = source_of(runs)
    assert run.winner.score is not None
    path = run.folder.resolve(run.winner.score.outcomes)
    before = list(read_rows(path, Outcome))
    write_rows(path, [each.model_copy(update={"output": "Perhaps on Tuesday"}) for each in before])
    try:
        with pytest.raises(NotReproducedError, match="Perhaps on Tuesday"):
            exports.export(run, "merged", tmp_path / "out")
    finally:
        write_rows(path, before)
    assert not (tmp_path / "out").exists()


def test_gguf_of_another_architecture_is_refused(runs: Path, tmp_path: Path) -> None:
    run = source_of(runs)
    shutil.copytree(run.weights, tmp_path / "weights", copy_function=os.link)
    config = json.loads((run.weights / "config.json").read_text())
    (tmp_path / "weights" / "config.json").unlink()
    (tmp_path / "weights" / "config.json").write_text(json.dumps({**config, "architectures": ["MambaForCausalLM"]}))
    request = GgufRequest(weights=str(tmp_path / "weights"), file=str(tmp_path / "x.gguf"), name="x", licence="mit")
    engine: Engine = replace(run.train, worker=ENGINES / "axolotl" / "export.py")
    with pytest.raises(EngineError, match=r"MambaForCausalLM, not a LlamaForCausalLM.*--format merged"):
        engine.call(request, GgufWritten, tmp_path / "work", timeout_s=300)
    assert not (tmp_path / "x.gguf").exists()


def test_the_winning_trial_comes_out_bit_for_bit(runs: Path) -> None:
    assert reproduce(settings(runs, "reproduce"), workshop) == 0
    assert read_record(record_path(only_run(runs)), Reproduced).outcome == "equal"


def test_both_models_answer_side_by_side(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    question = "Do all lions hunt? (Answer Yes or No)"
    assert ask(settings(runs, "ask", question=question, json_output=True), workshop) == 0
    base, tuned = json.loads(capsys.readouterr().out)["answers"]
    assert (base["model"], tuned["model"]) == ("base", "tuned")
    assert base["answer"] != tuned["answer"]


def test_the_endpoint_answers_and_ends_with_ctrl_c(runs: Path) -> None:
    port = free_port()
    argv = [sys.executable, "-c", SERVING, str(runs), str(CACHE), str(port)]
    process = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    said = ""
    while "Ctrl-C ends it" not in said:
        line = process.stdout.readline()
        assert line, said
        said += line
    curl = next(line for line in said.splitlines() if line.startswith("curl "))
    answer = json.loads(subprocess.run(curl, shell=True, capture_output=True, text=True, check=True).stdout)
    assert answer["choices"][0]["message"]["content"]
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130
