"""Asks lighteval's own metric for grades: a process in the score environment that stays, since its imports take long.

Lines of JSON go both ways over a socket: first the task, answered by `{}`; then an output with its item, answered by
`{"graded": ...}` or `{"failed": ...}`.
"""

from __future__ import annotations

import json
import socket
import tempfile
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from memory.errors import EngineError
from memory.records import Record
from tools import process
from tools.benchmarks.benchmark import Graded, Item
from tools.engines.contract import REPOSITORY, Engine, worker_env
from tools.engines.environments import ENGINES

WORKER = ENGINES / "lighteval" / "grader.py"
START_SECONDS = 300.0
"""For lighteval's imports on a busy machine; they take 8 s on an idle one."""
GRADE_SECONDS = 60.0
"""For one output: the metric itself gives up on a formula after some seconds."""


class Grader:
    """The metric of one task. Its process starts at the first grade and ends with this object."""

    def __init__(self, task: Record, python: Callable[[], Path]) -> None:
        """`python` finds the interpreter that has lighteval; what it raises goes on to who wants a grade."""
        self._task, self._python = task, python
        self._lock = threading.Lock()
        self._child: _Child | None = None

    def grade(self, output: str, item: Item) -> Graded:
        """What the metric says. Raises EngineError (ENV) where its process fails, SetupError where there is none."""
        with self._lock:
            if self._child is None:
                child = _Child(Engine("lighteval grader", self._python(), WORKER))
                child.ask(self._task.model_dump(mode="json"), START_SECONDS)
                self._child = child
            try:
                said = self._child.ask({"output": output, "item": item.model_dump(mode="json")}, GRADE_SECONDS)
            except EngineError:
                self._child = None
                raise
        if "failed" in said:
            raise EngineError("ENV", f"lighteval cannot grade an output to {item.id}: {said['failed']}")
        return Graded.model_validate(said["graded"])


class _Child:
    """A running process and the socket to it."""

    def __init__(self, engine: Engine) -> None:
        self._printed = tempfile.NamedTemporaryFile()  # noqa: SIM115  closed by _close
        self._socket, theirs = socket.socketpair()
        with theirs:
            argv: list[str | Path] = [engine.python, "-u", engine.worker]
            log = Path(self._printed.name)
            child = process.start(argv, log=log, cwd=REPOSITORY, env=worker_env(engine), stdin=theirs.fileno())
        self._lines = self._socket.makefile("rb")
        self._end = weakref.finalize(self, _close, self._socket, child, self._printed)

    def ask(self, message: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Send one line and read the line that answers it. Raises EngineError, after which the process is useless."""
        self._socket.settimeout(seconds)
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
            line = self._lines.readline()
        except TimeoutError as error:
            self._end()
            raise EngineError("ENV", f"lighteval's grader gave no answer within {seconds:g} s") from error
        except ConnectionError:
            line = b""
        if not line.endswith(b"\n"):
            said = Path(self._printed.name).read_text(errors="replace").strip().splitlines()
            self._end()
            raise EngineError("ENV", f"lighteval's grader ended: {said[-1][:200] if said else 'it printed nothing'}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def _close(own: socket.socket, child: process.Process, printed: IO[bytes]) -> None:
    own.close()
    child.stop()
    printed.close()
