"""A person's own function, or a generated one, behind walls: a warm child answers call after call.

The walls are bubblewrap's where it works (`isolation.py`), and everywhere a filter of system calls, limits on
CPU seconds, memory and file size, an empty environment and a clock. A call goes over a socket and back in a fraction of
a millisecond. A failure is an error that names function and row; no call ever gets the answer of another.
"""

from __future__ import annotations

import json
import signal
import socket
import tempfile
import threading
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal

from pydantic import Field, JsonValue

from memory.errors import SetupError, TunewrightError
from memory.records import Record
from tools import process
from tools.sandbox import syscall_filter
from tools.sandbox.isolation import PACKAGES_INSIDE, Isolation, Level, Scratch, argv, isolation

FailureOfCall = Literal["load", "raised", "returned", "time", "cpu", "memory", "ended"]
"""load: the file has no such function, or fails. raised: the function raised. returned: what it returned cannot be
sent. time, cpu, memory: a limit. ended: the child is gone."""
START_SECONDS = 30.0
"""For the child to come up and load the file, on a busy machine."""
PRINTED_BYTES = 64 * 1024
"""Of what a child prints, the rest is dropped."""


class Limits(Record):
    """What a child may use."""

    seconds: float = Field(default=30.0, gt=0)
    """Wall clock of one call. Larger than the CPU seconds, so that a busy machine does not decide what fails."""
    cpu_seconds: int = Field(default=5, ge=1)
    """CPU of one call."""
    memory_bytes: int = Field(default=1 << 30, ge=1 << 26)
    """Address space of the child, interpreter included."""
    file_bytes: int = Field(default=16 << 20, ge=0)
    """Largest file that it may write, in its temporary folder."""
    reply_bytes: int = Field(default=1 << 20, ge=1 << 10)
    """Largest value that it may return, as JSON."""


class SandboxError(TunewrightError):
    """A call failed; `kind` says how, the message names function and row."""

    def __init__(self, kind: FailureOfCall, message: str) -> None:
        super().__init__(message)
        self.kind: FailureOfCall = kind


class Sandbox:
    """One function in a child of its own, which starts at the first call, and anew after a failure that ended it.

    As a context manager it loads the file at once and ends the child on the way out; without, the child ends with this
    object, and in any case with this process.
    """

    def __init__(
        self,
        code: str,
        function: str,
        *,
        limits: Limits | None = None,
        need: Level,
        walls: Isolation | None = None,
        packages: Path | None = None,
    ) -> None:
        """`need` is the weakest isolation that will do; `walls` is the one to use, by default the machine's best;
        `packages` is a folder of packages that the function may import, beside the standard library.
        Raises SetupError where this machine cannot isolate strictly and `need` says so."""
        self.isolation = walls or isolation()
        if need == "strict" and self.isolation.level != "strict":
            raise SetupError(
                f"{function}() is not run: {self.isolation.reason}", "Install bubblewrap (`apt-get install bubblewrap`)"
            )
        self.function = function
        self.limits = limits or Limits()
        self._packages = packages
        self._code = code
        self._lock = threading.Lock()
        self._child: _Child | None = None
        self._calls = 0

    def call(self, arguments: Sequence[JsonValue], *, row: str = "") -> JsonValue:
        """What the function returns for these arguments. Raises SandboxError; `row` names the row in its message."""
        with self._lock:
            child = self._started()
            self._calls += 1
            reply: dict[str, Any] | None = None
            try:
                message = {"call": self._calls, "arguments": list(arguments)}
                reply = child.ask(message, self.limits.seconds, self._name(row))
            finally:
                # What was interrupted half-way might answer later, and then the next call would get this one's value.
                if reply is None or reply.get("failed") == "memory":
                    self._end()
            return self._value(reply, self._name(row))

    def close(self) -> None:
        """End the child; may be called again."""
        with self._lock:
            self._end()

    def __enter__(self) -> Sandbox:
        with self._lock:
            self._started()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _name(self, row: str) -> str:
        return f"{self.function}() on row {row}" if row else f"{self.function}()"

    def _started(self) -> _Child:
        """The child with the file loaded. Raises SandboxError where the file cannot be loaded."""
        if self._child is not None:
            return self._child
        strict = self.isolation.level == "strict"
        settings = {
            "code": self._code,
            "function": self.function,
            "filter": syscall_filter.program().hex(),
            "limits": self.limits.model_dump(),
            "packages": self._packages and (PACKAGES_INSIDE if strict else str(self._packages)),
        }
        self._calls = 0
        self._child = _Child(self.isolation.level, self.limits, self._packages)
        name = f"the file of {self.function}()"
        reply: dict[str, Any] | None = None
        try:
            reply = self._child.ask(settings, START_SECONDS + self.limits.seconds, name)
        finally:
            if reply is None or "failed" in reply:
                self._end()
        if "failed" in reply:
            raise SandboxError("load", f"{name} cannot be loaded: {_said(reply)}")
        return self._child

    def _value(self, reply: dict[str, Any], name: str) -> JsonValue:
        kind = reply.get("failed")
        if kind == "memory":
            megabytes = self.limits.memory_bytes >> 20
            raise SandboxError("memory", f"{name} wanted more than {megabytes:,} MiB of memory: {_said(reply)}")
        if kind == "returned":
            raise SandboxError("returned", f"{name} returned {_said(reply)}")
        if kind is not None:
            raise SandboxError("raised", f"{name} failed: {_said(reply)}")
        value: JsonValue = reply["value"]
        return value

    def _end(self) -> None:
        if self._child is not None:
            self._child.end()
        self._child = None


class _Child:
    """A running child and the socket to it."""

    def __init__(self, level: Level, limits: Limits, packages: Path | None) -> None:
        self._limits = limits
        self._scratch = Scratch() if level == "weak" else None
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115  closed by _close
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = process.start(
                argv(level, self._scratch.inside if self._scratch else None, packages),
                # A file without a name: nothing is left when this process is killed.
                log=Path(f"/proc/self/fd/{self._printed.fileno()}"),
                cwd=self._scratch.inside if self._scratch else None,
                output_limit=PRINTED_BYTES,
                stdin=theirs.fileno(),
            )
        self.end = weakref.finalize(self, _close, self._socket, self._process, self._printed, self._scratch)
        """End the child with all that it made; also when nobody holds it any more, and when this process exits."""

    def ask(self, message: dict[str, Any], seconds: float, name: str) -> dict[str, Any]:
        """Send one line and read the line that answers it. Raises SandboxError, after which the child is useless."""
        until = time.monotonic() + seconds
        number = message.get("call", 0)
        try:
            self._socket.settimeout(seconds)
            self._socket.sendall(json.dumps(message).encode() + b"\n")
            line = self._line(until, name)
        except TimeoutError as error:
            raise SandboxError("time", f"{name} did not end within {seconds:g} s") from error
        except ConnectionError:
            line = b""
        if not line:
            raise self._ended(name)
        try:
            reply: dict[str, Any] = json.loads(line)
            if reply["call"] == number and ("value" in reply or "failed" in reply or number == 0):
                return reply
        except (ValueError, TypeError, KeyError, RecursionError):
            pass
        raise SandboxError("returned", f"{name} wrote to the sandbox's own socket: {line[:80]!r}")

    def _line(self, until: float, name: str) -> bytes:
        """The next line, which must be all there is; empty where the child has ended. Raises TimeoutError."""
        got = bytearray()
        while not got.endswith(b"\n"):
            if (left := until - time.monotonic()) <= 0:
                raise TimeoutError
            self._socket.settimeout(left)
            chunk = self._socket.recv(1 << 16)
            if not chunk:
                return b""
            got += chunk
            if len(got) > self._limits.reply_bytes + 1024:
                raise SandboxError("returned", f"{name} returned more than {self._limits.reply_bytes:,} bytes")
        return bytes(got)

    def _ended(self, name: str) -> SandboxError:
        code = self._process.wait(10.0)
        if code == 128 + signal.SIGXCPU:
            return SandboxError("cpu", f"{name} used more than {self._limits.cpu_seconds} CPU seconds")
        how = f"exit code {code}"
        if code is not None and code > 128:
            how = f"signal {code - 128}"
        self._printed.seek(0)
        lines = self._printed.read().decode(errors="replace").strip().splitlines()
        printed = f"; its last line was: {lines[-1][:200]}" if lines else ""
        return SandboxError("ended", f"{name} ended its process ({how}){printed}")


def _close(own: socket.socket, child: process.Process, printed: IO[bytes], scratch: Scratch | None) -> None:
    own.close()
    child.stop()
    printed.close()
    if scratch is not None:
        scratch.remove()


def _said(reply: dict[str, Any]) -> str:
    """What the child says of a failure, with the line of the function's file."""
    line = reply.get("line")
    return f"{reply.get('says')}" + (f" (line {line})" if isinstance(line, int) else "")
