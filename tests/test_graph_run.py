"""The front door: signals, broken pipes and exit codes, with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from graph.runs import read_state
from memory.layout import RunFolder
from tests import example_run

ROOT = Path(__file__).parent.parent
STOPPABLE = """
import sys, time
from graph import run
run.SHUTDOWN_SECONDS = float(sys.argv[1])
try:
    with run.stoppable():
        try:
            print("at work", flush=True)
            time.sleep(30)
        finally:
            print("clearing away", flush=True)
            time.sleep(1)
            print("cleared away", flush=True)
except KeyboardInterrupt:
    print("stopped", flush=True)
    sys.exit(run.STOPPED)
"""

AT_WORK = """
import sys, time
from pathlib import Path
from graph import commands, run
from graph.arguments import parse
from graph.workshop import workshop
from memory.layout import RunFolder
from tests import example_run

def wait():
    print("deep in the trainer", flush=True)
    time.sleep(60)

def drive(prepare, ears):
    example_run.play(folder, 4, wait)

folder = RunFolder(Path(sys.argv[1]) / "some run")
settings = parse(["--benchmark", "syllogism", "--run-dir", sys.argv[1]], {})
try:
    with run.stoppable():
        commands.work(settings, workshop, folder, example_run.task(), drive)
except KeyboardInterrupt:
    sys.exit(run.STOPPED)
"""


def stoppable(shutdown_seconds: float) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", STOPPABLE, str(shutdown_seconds)]
    process = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "at work\n"
    return process


def test_ctrl_c_stops_and_a_second_one_does_not_disturb_the_clearing_away() -> None:
    process = stoppable(20)
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    assert process.stdout.readline() == "clearing away\n"
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert out == "cleared away\nstopped\n"
    assert "stopping already" in err
    assert "Traceback" not in err


def test_sigterm_stops_in_the_same_way() -> None:
    process = stoppable(20)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=10)
    assert (process.returncode, out) == (130, "clearing away\ncleared away\nstopped\n")


def test_a_signal_counts_again_when_the_first_led_nowhere() -> None:
    process = stoppable(0.1)
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    assert process.stdout.readline() == "clearing away\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=10)
    assert (process.returncode, out) == (130, "stopped\n")


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    argv = [sys.executable, "-m", "graph.run", "--list", "--run-dir", str(tmp_path)]
    ended = subprocess.run(argv, cwd=ROOT, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_bad_input_is_told_before_anything_slow_is_loaded() -> None:
    code = (
        "import sys; from graph.run import main; code = main(['--benchmark', 'sylogism']); "
        "sys.exit(code + 100 * any(name.startswith(('langgraph', 'duckdb')) for name in sys.modules))"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "Did you mean syllogism" in ended.stderr


def test_ctrl_c_deep_in_a_node_keeps_the_run_and_says_how_to_go_on(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", AT_WORK, str(tmp_path)]
    process = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    while (line := process.stdout.readline()) != "deep in the trainer\n":
        assert line, process.communicate()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert err == f"stopped. Go on with: python -m graph.run --resume 'some run' --run-dir {tmp_path}\n"
    state = read_state(RunFolder(tmp_path / "some run"))
    assert state["verdict"] == example_run.VERDICT


def test_a_disk_that_is_full_gets_one_line(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "graph.run", "--list", "--run-dir", str(tmp_path)]
    with open("/dev/full", "w") as full:
        ended = subprocess.run(argv, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.stderr.startswith("tunewright: the disk: No space left on device")
