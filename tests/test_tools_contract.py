"""The engine contract, against real worker processes: results are taken once, failures speak, progress arrives live."""

from __future__ import annotations

import json
import sys
import textwrap
import time
from pathlib import Path

import pytest

from memory.errors import EngineError, StorageError, TrialError
from memory.records import Record
from tests.conftest import MakeDisk
from tools.engines.contract import Engine, Progress, log_tail

WORKER = """
import os, sys, time
from tools.engines import worker_io
folder = sys.argv[1]
with worker_io.reporting(folder):
    request = worker_io.read_request(folder)
    open(folder + "/runs", "a").write("x")
{body}
"""


class Sum(Record):
    a: int
    b: int


class Total(Record):
    total: int


def worker(tmp_path: Path, body: str) -> Engine:
    """An engine whose worker runs `body` inside `reporting`, with `request` and `folder` at hand."""
    file = tmp_path / "worker.py"
    file.write_text(WORKER.format(body=textwrap.indent(textwrap.dedent(body), "    ")))
    return Engine(name="adder", python=Path(sys.executable), worker=file)


ADD = 'worker_io.finish(folder, {"total": request["a"] + request["b"]})'


def add(engine: Engine, folder: Path, a: int = 1, b: int = 2, timeout_s: float = 20.0) -> Total:
    return engine.call(Sum(a=a, b=b), Total, folder, timeout_s=timeout_s)


def failure_of(engine: Engine, folder: Path, timeout_s: float = 20.0) -> EngineError:
    with pytest.raises(EngineError) as caught:
        add(engine, folder, timeout_s=timeout_s)
    assert caught.value.log == str(folder / "run.log")
    assert "\n" not in caught.value.message
    return caught.value


def test_a_finished_request_is_not_run_again(tmp_path: Path) -> None:
    engine, folder = worker(tmp_path, ADD), tmp_path / "job"
    assert add(engine, folder).total == 3
    assert add(engine, folder).total == 3
    assert (folder / "runs").read_text() == "x"


def test_a_result_of_another_request_is_not_taken(tmp_path: Path) -> None:
    engine, folder = worker(tmp_path, ADD), tmp_path / "job"
    assert add(engine, folder).total == 3
    assert add(engine, folder, b=5).total == 6
    assert (folder / "runs").read_text() == "xx"


def test_a_truncated_result_is_run_again(tmp_path: Path) -> None:
    engine, folder = worker(tmp_path, ADD), tmp_path / "job"
    add(engine, folder)
    text = (folder / "result.json").read_text()
    (folder / "result.json").write_text(text[: len(text) // 2])
    assert add(engine, folder).total == 3
    assert (folder / "runs").read_text() == "xx"


def test_a_failure_keeps_its_kind_and_is_tried_again(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    failed = failure_of(worker(tmp_path, 'raise worker_io.WorkerFailure("DATA", "row 7 is empty")'), folder)
    assert (failed.kind, failed.message) == ("DATA", "adder: row 7 is empty")
    assert add(worker(tmp_path, ADD), folder).total == 3


@pytest.mark.parametrize(
    ("body", "kind", "says"),
    [
        ("pass", "ENV", "left no result.json"),
        ("sys.exit(3)", "ENV", "exited with 3"),
        ("os._exit(3)", "ENV", "exited with 3 and left no failure.json"),
        ("os.kill(os.getpid(), 9)", "OOM", "killed"),
        ("os.kill(os.getpid(), 11)", "ENV", "SIGSEGV"),
        ('print("broken pipe somewhere"); raise OSError("no such device")', "ENV", "no such device"),
        ("raise MemoryError()", "OOM", "MemoryError"),
        ('raise RuntimeError("CUDA error: out of memory")', "OOM", "out of memory"),
        ('worker_io.finish(folder, {"total": "many"})', "ENV", "no valid Total (total: "),
        ('worker_io.finish(folder, {"totals": 1})', "ENV", "no valid Total"),
        ('worker_io.fail(folder, "BAD LUCK", "x"); sys.exit(1)', "ENV", "exited with 1"),
        ('worker_io.fail(folder, "BAD LUCK", "x"); os._exit(1)', "ENV", "failure.json that says nothing valid"),
        ('open(folder + "/result.json", "w").write("{"); os._exit(0)', "ENV", "not an answer"),
        ('worker_io.finish(folder, {"total": 3}); raise ValueError("afterwards")', "ENV", "afterwards"),
    ],
)
def test_every_bad_end_has_its_own_message(tmp_path: Path, body: str, kind: str, says: str) -> None:
    failed = failure_of(worker(tmp_path, body), tmp_path / "job")
    assert (failed.kind, says in failed.message) == (kind, True), failed.message


def test_a_crash_on_the_way_out_spoils_no_result(tmp_path: Path) -> None:
    assert add(worker(tmp_path, ADD + "\nos.kill(os.getpid(), 11)"), tmp_path / "job").total == 3


def test_a_timeout_is_a_matter_of_budget(tmp_path: Path) -> None:
    failed = failure_of(worker(tmp_path, 'print("still loading"); time.sleep(60)'), tmp_path / "job", timeout_s=1.5)
    assert failed.kind == "BUDGET"
    assert "still loading" in failed.way_out


AWAIT = """
def wait_for(name):
    while not os.path.exists(folder + "/" + name):
        time.sleep(0.01)
"""


def test_progress_arrives_while_the_worker_runs(tmp_path: Path) -> None:
    body = """
        for step in range(3):
            worker_io.progress(folder, step=step)
            wait_for(f"seen {step}")
    """
    engine = worker(tmp_path, AWAIT + textwrap.dedent(body) + ADD)
    seen: list[object] = []

    def watch(line: Progress) -> None:
        seen.append(line["step"])
        (tmp_path / "job" / f"seen {line['step']}").touch()

    got = engine.call(Sum(a=1, b=1), Total, tmp_path / "job", timeout_s=20, on_progress=watch)
    assert (got.total, seen) == (2, [0, 1, 2])


def test_half_a_progress_line_waits_for_its_other_half(tmp_path: Path) -> None:
    body = """
        with open(folder + "/progress.jsonl", "w") as file:
            file.write('{"step"'); file.flush(); wait_for("looked at")
            file.write(': 1}\\n')
    """
    lines: list[Progress] = []
    looks = 0

    def tick() -> None:
        nonlocal looks
        looks += (tmp_path / "job" / "progress.jsonl").exists()
        if looks == 3:
            (tmp_path / "job" / "looked at").touch()

    engine = worker(tmp_path, AWAIT + textwrap.dedent(body) + ADD)
    engine.call(Sum(a=1, b=1), Total, tmp_path / "job", timeout_s=20, on_progress=lines.append, on_tick=tick)
    assert lines == [{"step": 1}]


@pytest.mark.parametrize("garbage", ["loss is 3", "[1, 2]"])
def test_a_garbage_progress_line_is_an_error(tmp_path: Path, garbage: str) -> None:
    engine = worker(tmp_path, f'open(folder + "/progress.jsonl", "w").write("{garbage}\\n"); time.sleep(30)')
    with pytest.raises(EngineError, match="no JSON object"):
        engine.call(Sum(a=1, b=1), Total, tmp_path / "job", timeout_s=20, on_progress=lambda line: None)


def test_the_caller_may_end_it_from_a_progress_line(tmp_path: Path) -> None:
    engine = worker(tmp_path, 'worker_io.progress(folder, loss="nan"); time.sleep(60)')

    def watch(line: Progress) -> None:
        if line["loss"] == "nan":
            raise TrialError("DIVERGED", "the loss is NaN")

    began = time.monotonic()
    with pytest.raises(TrialError, match="NaN"):
        engine.call(Sum(a=1, b=1), Total, tmp_path / "job", timeout_s=50, on_progress=watch)
    assert time.monotonic() - began < 5


def test_a_worker_runs_offline_and_sees_the_request(tmp_path: Path) -> None:
    said = 'os.environ["HF_HUB_OFFLINE"] + os.environ["AXOLOTL_DO_NOT_TRACK"] + os.getcwd()'
    body = f'open(folder + "/env", "w").write({said})\n'
    add(worker(tmp_path, body + ADD), tmp_path / "job")
    assert (tmp_path / "job" / "env").read_text() == f"11{Path(__file__).resolve().parents[1]}"
    request = json.loads((tmp_path / "job" / "request.json").read_text())
    assert (request["engine"], request["request"]) == ("adder", {"a": 1, "b": 2})


def test_the_log_tail_leaves_out_progress_bars(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("first\nloading\r 10%|#  | 1/10 [00:01<00:09,  1.0it/s]\n\nValueError: bad row\n")
    assert log_tail(log, lines=2) == "first | ValueError: bad row"


def test_an_engine_that_fails_on_a_full_disk_stops_the_run(small_disk: MakeDisk, tmp_path: Path) -> None:
    disk = small_disk("1m")
    assert add(worker(tmp_path, ADD), disk.path / "fits").total == 3
    with pytest.raises(StorageError, match=r"the adder engine failed because the disk of .* is full"):
        add(worker(tmp_path, 'open(folder + "/big", "wb").write(bytes(2_000_000))'), disk.path / "does not")
    with pytest.raises(StorageError, match="is full"):  # on a large disk, where the engine has cleared away
        add(worker(tmp_path, 'raise OSError(28, "No space left on device")'), tmp_path / "large")
