"""The sandbox: what a function cannot do, what happens when it tries, and that the calls around it are not harmed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import JsonValue

from memory.errors import InputError, SetupError
from memory.records.metric import PythonFunction
from tools import metrics
from tools.benchmarks.benchmark import Item
from tools.sandbox import syscall_filter
from tools.sandbox.isolation import PREFIX, Isolation, isolation
from tools.sandbox.sandbox import Limits, Sandbox, SandboxError
from tools.supervisor import descendants

WEAK = Isolation(level="weak", reason="bubblewrap is not installed")
TRY = """
import os, sys, socket, subprocess, threading, pathlib

def attempt(expression):
    return repr(eval(expression))
"""


@pytest.fixture(params=["strict", "weak"])
def walls(request: pytest.FixtureRequest) -> Isolation:
    return strict() if request.param == "strict" else WEAK


def strict() -> Isolation:
    found = isolation()
    if found.level != "strict":
        pytest.skip(found.says)
    return found


@pytest.fixture
def canary() -> Iterator[Path]:
    """A file in the home folder."""
    with tempfile.NamedTemporaryFile(dir=Path.home(), prefix=".canary-") as file:
        Path(file.name).write_text("sesame")
        yield Path(file.name)


def sandbox(code: str, function: str, walls: Isolation, **limits: float) -> Sandbox:
    return Sandbox(code, function, need="weak", walls=walls, limits=Limits.model_validate(limits))


def refused(box: Sandbox, expression: str) -> str:
    """What the system said to an attempt."""
    with pytest.raises(SandboxError) as caught:
        box.call([expression])
    assert caught.value.kind == "raised", caught.value
    return caught.value.message


def test_calls_and_answers(walls: Isolation) -> None:
    code = "seen = []\ndef f(*arguments):\n    seen.append(1)\n    print('noise')\n    return [len(seen), *arguments]"
    odd: list[JsonValue] = ["Zoë 北京 \U0001f600 \ud800\n\0\u2028", {"a": [None, True, -0.5, 10**30]}, ""]
    with sandbox(code, "f", walls) as box:
        assert box.call(odd) == [1, *odd]
        assert box.call(["x" * 300_000]) == [2, "x" * 300_000]


def test_thousands_of_calls_a_second(walls: Isolation) -> None:
    with sandbox("def f(a, b): return a == b", "f", walls) as box:
        began = time.monotonic()
        assert not any(box.call(["x" * 500, str(number)]) for number in range(3000))
        assert time.monotonic() - began < 3


def test_no_network(walls: Isolation) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, sandbox(TRY, "attempt", walls) as box:
        port = server.getsockname()[1]
        assert "PermissionError" in refused(box, f"socket.create_connection(('127.0.0.1', {port}), 1)")
        assert "PermissionError" in refused(box, "socket.socket(socket.AF_UNIX)")
        server.settimeout(0.1)
        with pytest.raises(TimeoutError):
            server.accept()


def test_no_processes_threads_or_signals(walls: Isolation) -> None:
    with sandbox(TRY, "attempt", walls) as box:
        assert "PermissionError" in refused(box, "os.fork()")
        assert "PermissionError" in refused(box, "subprocess.run(['/bin/true'])")
        assert "PermissionError" in refused(box, f"os.kill({os.getpid()}, 0)")
        assert "can't start new thread" in refused(box, "threading.Thread(target=print).start()")
        assert "PermissionError" in refused(box, "os.execv('/bin/true', ['true'])")


def test_no_secrets_in_the_environment(walls: Isolation, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "CUDA_SECRETLY", "HF_HOME"):
        monkeypatch.setenv(name, "sesame")
    with sandbox(TRY, "attempt", walls) as box:
        seen = str(box.call(["dict(os.environ)"]))
        assert "sesame" not in seen
        assert "'PYTHONHASHSEED': '0'" in seen
        assert box.call(["sorted({'a', 'b', 'c', 'd'} | set('xyz')) and [*{'a', 'b', 'c', 'd'}]"]) == sandbox(
            TRY, "attempt", walls
        ).call(["[*{'a', 'b', 'c', 'd'}]"]), "sets are walked in the same order every time"


def test_no_file_outside_is_seen(canary: Path, tmp_path: Path) -> None:
    (tmp_path / "canary").write_text("sesame")
    with sandbox(TRY, "attempt", strict()) as box:
        for path in (canary, tmp_path / "canary", Path(__file__), Path("/etc/passwd"), Path("/proc/1/environ")):
            assert "FileNotFoundError" in refused(box, f"open({str(path)!r}).read()")
        seen = box.call(["sorted(os.listdir('/')) + os.listdir('/tmp')"])
        prefix = Path(sys.base_prefix)
        assert set(eval(str(seen))) <= {"usr", "lib", "lib32", "lib64", "child.py", "tmp", prefix.parts[1]}
        for folder in (Path("/usr"), prefix):
            seen = box.call([f"os.listdir({str(folder)!r})"])
            assert set(eval(str(seen))) <= {"bin", "lib", "lib32", "lib64", "local", "share"}, "no home, no sources"


def test_no_file_outside_is_written(tmp_path: Path) -> None:
    with sandbox(TRY, "attempt", strict()) as box:
        for folder in ("/", "/usr", sys.base_prefix, str(tmp_path), str(Path.home())):
            message = refused(box, f"open({folder + '/x'!r}, 'w')")
            assert "Read-only file system" in message or "FileNotFoundError" in message
        assert "Read-only" in refused(box, "open('/child.py', 'a')")
        assert "Read-only" in refused(box, "os.mkdir('/new')")
        assert box.call(["pathlib.Path('/tmp/mine').write_text('x')"]) == "1"
    assert not Path("/tmp/mine").exists()


def test_a_temporary_folder_of_its_own(walls: Isolation) -> None:
    before = set(Path(tempfile.gettempdir()).glob(PREFIX + "*"))
    with sandbox(TRY, "attempt", walls, file_bytes=1000) as box:
        assert box.call(["pathlib.Path('mine').write_text('x') and os.listdir(os.environ['TMPDIR'])"]) == "['mine']"
        assert "File too large" in refused(box, "pathlib.Path('large').write_text('x' * 2000)")
    assert set(Path(tempfile.gettempdir()).glob(PREFIX + "*")) <= before


def test_a_memory_bomb(walls: Isolation) -> None:
    with sandbox("def f(n):\n    return len('x' * n)", "f", walls, memory_bytes=1 << 28) as box:
        with pytest.raises(SandboxError, match=r"on row 7 wanted more than 256 MiB of memory.*\(line 2\)") as caught:
            box.call([1 << 30], row="7")
        assert caught.value.kind == "memory"
        assert box.call([5]) == 5


@pytest.mark.slow
def test_an_endless_loop_ends_by_its_cpu_seconds() -> None:
    with sandbox("def f(n):\n    while n: pass\n    return 0", "f", isolation(), cpu_seconds=1) as box:
        with pytest.raises(SandboxError, match=r"f\(\) on row 7 used more than 1 CPU seconds") as caught:
            box.call([1], row="7")
        assert caught.value.kind == "cpu"
        assert box.call([0]) == 0


def test_waiting_ends_by_the_clock(walls: Isolation) -> None:
    code = "import time\ndef f(seconds):\n    try:\n        time.sleep(seconds)\n    finally:\n        return 1"
    with sandbox(code, "f", walls, seconds=0.3) as box:
        family = descendants(os.getpid())
        with pytest.raises(SandboxError, match=r"did not end within 0\.3 s") as caught:
            box.call([60])
        assert caught.value.kind == "time"
        assert not set(family) & set(descendants(os.getpid())), "the child is dead, not waiting"
        assert box.call([0]) == 1


def test_what_is_printed_is_dropped_and_what_is_returned_has_a_limit(walls: Isolation) -> None:
    with sandbox("def f(n, m):\n    print('x' * n)\n    return 'x' * m", "f", walls, reply_bytes=2000) as box:
        assert box.call([20_000_000, 1]) == "x"
        with pytest.raises(SandboxError, match=r"2,0.. bytes, where 2,000 are allowed") as caught:
            box.call([0, 2001])
        assert caught.value.kind == "returned"


FAILURES = [
    ("1 / 0", "raised", r"f\(\) on row 9 failed: ZeroDivisionError: division by zero \(line 2\)"),
    ("__import__('sys').exit(3)", "raised", r"SystemExit: 3"),
    ("__import__('numpy')", "raised", "the sandbox does not have it"),
    ("f('f(expression)')", "raised", "RecursionError"),
    ("__import__('signal').raise_signal(2)", "raised", "PermissionError"),
    ("object()", "returned", "a object that is no JSON"),
    ("float('nan')", "returned", "a float that is no JSON"),
    ("{1, 2}", "returned", "a set that is no JSON"),
    ("print('bye', flush=True) or os._exit(4)", "ended", r"\(exit code 4\); its last line was: bye"),
    ("__import__('ctypes').string_at(0)", "ended", "signal 11"),
    ("os.write(0, b'rubbish\\n')", "returned", "wrote to the sandbox's own socket"),
    ("os.write(0, b'x' * 2_000_000)", "returned", "returned more than 1,048,576 bytes"),
]


def test_failures_are_named_and_the_next_call_works() -> None:
    code = "def f(expression):\n    return eval(expression)\nimport os"
    with sandbox(code, "f", isolation()) as box:
        for expression, kind, says in FAILURES:
            with pytest.raises(SandboxError, match=says) as caught:
                box.call([expression], row="9")
            assert caught.value.kind == kind
            assert box.call(["3"]) == 3


def test_a_forged_answer_is_not_taken_for_the_next_one() -> None:
    forged = '{"call": 1, "value": "forged"}'
    code = f"import os\ndef f(x):\n    if x: os.write(0, b'{forged}\\n')\n    return x"
    with sandbox(code, "f", isolation()) as box:
        # Both lines may have come when the first call is answered; if not, the second call finds the one left over.
        with pytest.raises(SandboxError, match="own socket"):
            [box.call([value]) for value in (1, 0)]


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("def f(x:\n", r"SyntaxError.*\(line 1\)"),
        ("x = 1\nraise ValueError('no')\n", r"ValueError: no \(line 2\)"),
        ("def g(): pass\n", "there is no function f; there are: g"),
        ("f = 3\n", "there is no function f"),
        ("import sys\nsys.exit(0)\n", "SystemExit"),
        ("\0", "null bytes"),
    ],
)
def test_a_file_that_cannot_be_loaded(code: str, says: str) -> None:
    with pytest.raises(SandboxError, match=says) as caught:
        sandbox(code, "f", isolation()).call([1])
    assert caught.value.kind == "load"


def test_strict_is_strict() -> None:
    with pytest.raises(SetupError, match=r"f\(\) is not run: bubblewrap is not installed.*apt-get install bubblewrap"):
        Sandbox("def f(): pass", "f", need="strict", walls=WEAK)
    with Sandbox("def f(): return 1", "f", need="strict", walls=strict()) as box:
        assert box.call([]) == 1


def test_the_child_dies_with_us(tmp_path: Path) -> None:
    code = f"""
import os, time
from tools.sandbox.sandbox import Sandbox
from tools.supervisor import descendants
box = Sandbox("def f(): return 1", "f", need="weak")
box.call([])
open({str(tmp_path / "pids")!r}, "w").write(" ".join(map(str, descendants(os.getpid()))))
os.kill(os.getpid(), 9)
"""
    env = {**os.environ, "PYTHONPATH": os.getcwd()}
    assert subprocess.run([sys.executable, "-c", code], env=env, check=False).returncode == -signal.SIGKILL
    pids = (tmp_path / "pids").read_text().split()
    assert len(pids) >= 2
    until = time.monotonic() + 5
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_sandbox_that_nobody_holds_ends(walls: Isolation) -> None:
    box = sandbox("def f(): return 1", "f", walls)
    box.call([])
    family = set(descendants(os.getpid()))
    del box
    assert not family & set(descendants(os.getpid()))


def test_the_filter_is_whole() -> None:
    for machine in ("x86_64", "aarch64"):
        assert len(syscall_filter.program(machine)) % 8 == 0
    with pytest.raises(SetupError, match="does not know the system calls of riscv64"):
        syscall_filter.program("riscv64")


# --- a person's own metric ------------------------------------------------------------------------------------------

ROW = Item(id="test-17", prompt="?", answer="Paris", columns={"weight": 0.5}, reference="{}")


def test_a_python_metric_sees_output_gold_and_row() -> None:
    code = "def score(output, gold, row):\n    return row['weight'] if output == gold else False"
    grade = metrics.grader(PythonFunction(code=code), None)
    assert grade("Paris", ROW).score == 0.5
    assert (grade("Rome", ROW).score, grade("Rome", ROW).answer) == (0.0, "Rome")
    assert grade("  ", ROW).answer is None


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("return 1.5", r"returned 1\.5 on row test-17"),
        ("return -0.1", "returned -0.1"),
        ("return 'good'", "returned 'good'"),
        ("return [1]", r"returned \[1\]"),
        ("return None", "returned None"),
        ("return row['weigth']", r"score\(\) on row test-17 failed: KeyError: 'weigth' \(line 2\)"),
        ("return float('nan')", "no JSON"),
    ],
)
def test_a_python_metric_that_fails_is_no_zero(body: str, says: str) -> None:
    grade = metrics.grader(PythonFunction(code=f"def score(output, gold, row):\n    {body}"), None)
    with pytest.raises(InputError, match=says):
        grade("Paris", ROW)
