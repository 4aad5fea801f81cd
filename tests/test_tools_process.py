"""Processes: whoever ends, nobody is left behind, and a child sees no secret."""

from __future__ import annotations

import _thread
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from memory.errors import EngineError
from tools import process

FAMILY = """
import os, subprocess, sys, time
grandchild = subprocess.Popen(["sleep", "300"], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:  # the classic daemon: two forks, a session of its own, its parent gone
        open(sys.argv[1] + "/daemon", "w").write(str(os.getpid()))
        time.sleep(300)
    os._exit(0)
open(sys.argv[1] + "/child", "w").write(str(os.getpid()))
open(sys.argv[1] + "/grandchild", "w").write(str(grandchild.pid))
time.sleep(float(sys.argv[2]))
"""


def family_of(folder: Path) -> list[int]:
    """Process ids of child, grandchild and daemon, once all three are there."""
    until = time.monotonic() + 10
    names = ("child", "grandchild", "daemon")
    while time.monotonic() < until:
        files = [folder / name for name in names]
        if all(file.exists() and file.read_text() for file in files):
            return [int(file.read_text()) for file in files]
        time.sleep(0.02)
    raise AssertionError("the family did not start")


def alive(pid: int) -> bool:
    """True while the process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def all_gone(pids: list[int], seconds: float = 5.0) -> bool:
    until = time.monotonic() + seconds
    while any(alive(pid) for pid in pids):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def family_argv(folder: Path, seconds: float = 300) -> list[str]:
    return [sys.executable, "-c", FAMILY, str(folder), str(seconds)]


@pytest.mark.parametrize("how", ["main thread", "thread that ends", "a forked copy of us lives on"])
def test_killing_us_with_9_leaves_nobody(tmp_path: Path, how: str) -> None:
    parent = f"""
import os, sys, threading, time
from pathlib import Path
from tools import process
def go():
    global kept
    kept = process.start({family_argv(tmp_path)!r}, log=Path({str(tmp_path / "log")!r}))
if {how!r} == "thread that ends":
    thread = threading.Thread(target=go); thread.start(); thread.join()
else:
    go()
if "forked" in {how!r} and os.fork() == 0:
    time.sleep(8)  # holds our end of the pipe open
    os._exit(0)
time.sleep(300)
"""
    us = subprocess.Popen([sys.executable, "-c", parent], env={**os.environ, "PYTHONPATH": os.getcwd()})
    pids = family_of(tmp_path)
    time.sleep(0.3)
    assert all(alive(pid) for pid in pids), "the end of the starting thread must not end the child"
    us.send_signal(signal.SIGKILL)
    us.wait()
    assert all_gone(pids)


def test_a_timeout_ends_the_whole_family(tmp_path: Path) -> None:
    with pytest.raises(TimeoutError, match="did not end within 1 s"):
        process.run(family_argv(tmp_path), log=tmp_path / "log", timeout_s=1.0)
    assert all_gone(family_of(tmp_path), 0.5)


def test_a_child_that_ends_takes_its_daemons_along(tmp_path: Path) -> None:
    assert process.run(family_argv(tmp_path, 0.5), log=tmp_path / "log") == 0
    assert all_gone(family_of(tmp_path), 0.5)


def test_ctrl_c_ends_the_whole_family(tmp_path: Path) -> None:
    timer = threading.Timer(1.0, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        process.run(family_argv(tmp_path), log=tmp_path / "log")
    assert all_gone(family_of(tmp_path), 0.5)


def test_what_a_tick_raises_ends_the_child_and_reaches_the_caller(tmp_path: Path) -> None:
    def tick() -> None:
        if (tmp_path / "daemon").exists():
            raise RuntimeError("loss is NaN")

    with pytest.raises(RuntimeError, match="NaN"):
        process.run(family_argv(tmp_path), log=tmp_path / "log", on_tick=tick)
    assert all_gone(family_of(tmp_path), 0.5)


def test_stop_is_polite_first(tmp_path: Path) -> None:
    handler = "lambda *_: (print('bye'), sys.exit(7))"
    code = f"import signal, sys, time; signal.signal(15, {handler}); print('up'); time.sleep(300)"
    log = tmp_path / "log"
    server = process.start([sys.executable, "-u", "-c", code], log=log)
    while "up" not in log.read_text():
        time.sleep(0.02)
    assert server.poll() is None
    assert server.stop(5.0) == 7
    assert server.stop(5.0) == 7
    assert "bye" in log.read_text()


def test_stop_kills_what_does_not_listen(tmp_path: Path) -> None:
    code = "import signal,time; signal.signal(15, signal.SIG_IGN); print('up'); time.sleep(300)"
    server = process.start([sys.executable, "-u", "-c", code], log=tmp_path / "log")
    while "up" not in (tmp_path / "log").read_text():
        time.sleep(0.02)
    began = time.monotonic()
    assert server.stop(0.3) == 128 + signal.SIGKILL
    assert time.monotonic() - began < 2


@pytest.mark.parametrize(
    ("code", "expected"), [("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", 137)]
)
def test_exit_codes(tmp_path: Path, code: str, expected: int) -> None:
    assert process.run([sys.executable, "-c", code], log=tmp_path / "log") == expected


@pytest.mark.parametrize("ending", ["", "os.kill(os.getpid(), 9)"])
def test_what_a_child_leaves_in_its_temporary_folder_goes_with_it(tmp_path: Path, ending: str) -> None:
    code = f"import os, tempfile; print(tempfile.mkdtemp(), flush=True); {ending}"
    process.run([sys.executable, "-c", code], log=tmp_path / "log")
    left = Path((tmp_path / "log").read_text().strip())
    assert left.parent.name.startswith("tunewright-")
    assert not left.parent.exists()


def test_a_missing_program_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="there is no program no-such-program"):
        process.start(["no-such-program"], log=tmp_path / "log")


def test_a_child_sees_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = ("OPENAI_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "SOMETHING_ELSE", "UV_PUBLISH_TOKEN")
    for name in (*secrets, "PIP_FIND_LINKS"):
        monkeypatch.setenv(name, "sesame")
    for installing, expected in ((False, 0), (True, 1)):
        log = tmp_path / f"log-{installing}"
        process.run(["/usr/bin/env"], log=log, env={"TOKENIZERS_PARALLELISM": "false"}, installing=installing)
        assert log.read_text().count("sesame") == expected
        assert "TOKENIZERS_PARALLELISM=false" in log.read_text()
        assert "PATH=" in log.read_text()
    with pytest.raises(ValueError, match="secret"):
        process.child_environment({"OPENAI_API_KEY": "x"})


def test_output_is_capped_and_the_child_is_not_blocked(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = process.run([sys.executable, "-c", "print('x' * 5_000_000)"], log=log, output_limit=10_000, timeout_s=20)
    assert code == 0
    assert log.stat().st_size < 10_200
    assert "not kept" in log.read_text()


def test_all_output_is_kept_up_to_the_last_line(tmp_path: Path) -> None:
    code, text = process.output_of([sys.executable, "-c", "print('x' * 900_000); print('last')"])
    assert (code, len(text)) == (0, 900_006)


def test_waiting_costs_next_to_nothing(tmp_path: Path) -> None:
    before = time.process_time()
    process.run(["sleep", "2"], log=tmp_path / "log", on_tick=lambda: None)
    assert time.process_time() - before < 0.06
