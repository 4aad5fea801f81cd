"""The child of the sandbox: it shuts the doors behind itself, loads a person's function and answers calls.

A program of its own, with the standard library alone, unless the settings name a folder of packages. Its stdin is a
socket, on which lines of JSON go both ways: first the settings, answered by `{"call": 0}`; then calls
`{"call": n, "arguments": [...]}`, answered by `{"call": n, "value": ...}` or
`{"call": n, "failed": KIND, "says": ..., "line": ...}`. What the function prints goes to stdout, which is not the
socket.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import resource
import sys
import time
import types
from collections.abc import Callable
from functools import partial
from typing import Any

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
PR_SET_NO_NEW_PRIVS = 38
FILE_NAME = "<the function's file>"
LONGEST_SAYING = 300


class SockFprog(ctypes.Structure):
    """struct sock_fprog of linux/filter.h."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


class Channel:
    """Lines of JSON on the socket."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.pending = b""

    def read(self) -> dict[str, Any]:
        """The next line; the process ends where there is none."""
        parts = [self.pending]
        while b"\n" not in parts[-1]:
            chunk = os.read(self.descriptor, 1 << 16)
            if not chunk:
                os._exit(0)
            parts.append(chunk)
        line, _, self.pending = b"".join(parts).partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def write(self, text: str) -> None:
        """One line, whole."""
        data = text.encode() + b"\n"
        while data:
            data = data[os.write(self.descriptor, data) :]


def main() -> None:
    """Settings, function, calls."""
    channel = Channel(0)
    sys.stdin = None  # the function must not read our socket by mistake
    settings = channel.read()
    limits = settings["limits"]
    if settings["packages"]:
        sys.path.append(settings["packages"])
    set_limits(limits)
    install_filter(bytes.fromhex(settings["filter"]))
    loaded: list[Callable[..., Any]] = []

    def load() -> None:
        loaded.append(function_of(settings["code"], settings["function"]))

    channel.write(answer(0, load, limits))
    while True:
        call = channel.read()
        channel.write(answer(call["call"], partial(loaded[0], *call["arguments"]), limits))


def set_limits(limits: dict[str, Any]) -> None:
    """Limits for the whole life of the child, soft and hard."""
    for kind, value in (
        (resource.RLIMIT_AS, limits["memory_bytes"]),
        (resource.RLIMIT_FSIZE, limits["file_bytes"]),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (value, value))


def install_filter(program: bytes) -> None:
    """Hand the seccomp filter to the kernel; there is no way back. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    filter_ = SockFprog(len(program) // 8, program)
    for arguments in (
        (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(filter_), 0, 0),
    ):
        if libc.prctl(*arguments) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


def function_of(code: str, name: str) -> Callable[..., Any]:
    """Run the file and return its function. Raises NameError where it has none, and whatever the file raises."""
    module = types.ModuleType("functions")
    sys.modules[module.__name__] = module
    exec(compile(code, FILE_NAME, "exec", dont_inherit=True), module.__dict__)
    function: Callable[..., Any] | None = getattr(module, name, None)
    if not callable(function):
        others = [key for key, value in vars(module).items() if isinstance(value, types.FunctionType)]
        raise NameError(f"there is no function {name}" + (f"; there are: {', '.join(others)}" if others else ""))
    return function


def answer(number: int, work: Callable[[], Any], limits: dict[str, Any]) -> str:
    """The line that says what came of one call, within its share of CPU seconds.

    The function could lift this limit, since it shares our process; the parent's clock is what it cannot touch.
    """
    until = math.ceil(time.process_time()) + limits["cpu_seconds"]
    resource.setrlimit(resource.RLIMIT_CPU, (until, resource.RLIM_INFINITY))
    try:
        value = work()
    except BaseException as error:  # SystemExit and KeyboardInterrupt, too: nothing of the function's may end us
        return failed(number, "memory" if isinstance(error, MemoryError) else "raised", described(error), error)
    try:
        line = json.dumps({"call": number, "value": value}, allow_nan=False)
    except (TypeError, ValueError, RecursionError, MemoryError) as error:
        return failed(number, "returned", f"a {type(value).__name__} that is no JSON ({error})")
    if len(line) > limits["reply_bytes"]:
        return failed(number, "returned", f"{len(line):,} bytes, where {limits['reply_bytes']:,} are allowed")
    return line


def failed(number: int, kind: str, says: str, error: BaseException | None = None) -> str:
    """A failure as a line."""
    return json.dumps({"call": number, "failed": kind, "says": says[:LONGEST_SAYING], "line": line_of(error)})


def described(error: BaseException) -> str:
    """Type and message, on one line; an error whose own message fails has its type alone."""
    try:
        text = " ".join(str(error).split())
    except BaseException:  # a person's own class may raise anything from its __str__, SystemExit too
        text = ""
    if isinstance(error, ModuleNotFoundError):
        text += "; the sandbox does not have it"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def line_of(error: BaseException | None) -> int | None:
    """The last line of the function's file that the error came through."""
    if isinstance(error, SyntaxError) and error.filename == FILE_NAME:
        return error.lineno
    line, trace = None, error.__traceback__ if error else None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == FILE_NAME:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


if __name__ == "__main__":
    main()
