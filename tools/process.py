"""The only place that starts a process: argv is a list, output goes to a file, and the whole family dies with us.

Each process runs under `tools/supervisor.py`, which ends it and all its descendants when the call times out, when the
caller raises (Ctrl-C included), and when this process itself is killed with -9. A child sees an allow-list of our
environment and what the caller adds; never keys, tokens or passwords. Only `detach` starts one that outlives us.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from memory.errors import EngineError

TICK_SECONDS = 0.1
"""How often `run` looks at its child and calls `on_tick`."""
OUTPUT_LIMIT_BYTES = 64 * 1024 * 1024
"""Output beyond this is drained but not kept; a line in the log says so."""
SUPERVISOR = Path(__file__).with_name("supervisor.py")

INHERITED = re.compile(
    r"PATH|HOME|USER|LOGNAME|LANG|LANGUAGE|LC_[A-Z]+|TZ|TMPDIR|XDG_CACHE_HOME|HF_HOME|SSL_CERT_(FILE|DIR)|LD_LIBRARY_PATH"
    r"|(CUDA|NVIDIA|NCCL|OMP|MKL|OPENBLAS|HIP|ROCR)_[A-Z0-9_]+"
)
INHERITED_FOR_INSTALLING = re.compile(
    r"(PIP|UV)_[A-Z0-9_]+|(https?|all|no|HTTPS?|ALL|NO)_(proxy|PROXY)|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|XDG_CONFIG_(HOME|DIRS)"
)
SECRET = re.compile(r"(^|_)(API_?KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(_|$)", re.IGNORECASE)


def child_environment(added: Mapping[str, str] | None = None, *, installing: bool = False) -> dict[str, str]:
    """The environment of a child: what INHERITED allows of ours, then `added`. `installing` also passes pip's, uv's and
    proxy settings. Raises ValueError where `added` names a secret: a child gets none."""
    env = {
        name: value
        for name, value in os.environ.items()
        if (INHERITED.fullmatch(name) or (installing and INHERITED_FOR_INSTALLING.fullmatch(name)))
        and not SECRET.search(name)
    }
    for name, value in (added or {}).items():
        if SECRET.search(name):
            raise ValueError(f"{name} looks like a secret; children get none")
        env[name] = value
    return env


class Process:
    """A running child with its descendants. As a context manager it stops them on the way out.

    `pid` is the supervisor's: SIGTERM to it ends the whole family within five seconds.
    """

    def __init__(self, popen: subprocess.Popen[bytes], argv: Sequence[str], log: Path) -> None:
        self._popen = popen
        self.argv = tuple(argv)
        self.log = log
        self.pid = popen.pid

    def poll(self) -> int | None:
        """The exit code (128 + signal where a signal ended it), or None while it runs."""
        code = self._popen.poll()
        return code if code is None or code >= 0 else 128 - code

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait up to `timeout` seconds; the exit code, or None if it still runs."""
        try:
            self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        return self.poll()

    def stop(self, grace_s: float = 0.0) -> int:
        """End the whole family: SIGTERM, SIGKILL after `grace_s` seconds. Returns the exit code; may be repeated."""
        stdin = self._popen.stdin
        if stdin is not None and not stdin.closed:
            try:
                if grace_s > 0:
                    stdin.write(f"stop {grace_s}\n".encode())
                stdin.close()
            except BrokenPipeError:
                pass  # the supervisor is gone, which is what we want
        code = self.wait(grace_s + 15.0)
        if code is None:
            self._popen.kill()
            code = self.wait()
        return code if code is not None else 137

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start(
    argv: Sequence[str | Path],
    *,
    log: Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    installing: bool = False,
    output_limit: int = OUTPUT_LIMIT_BYTES,
    stdin: int | None = None,
    ours: bool = False,
) -> Process:
    """Start argv, its output appended to `log`. `env` is added to the inherited allow-list; to all of our environment,
    keys included, where argv is this very program (`ours`).

    The child's stdin is empty, or the file descriptor `stdin` (the end of a socket, to talk both ways), which the
    caller then closes. Raises EngineError (ENV) where the program does not exist.
    """
    words = [str(word) for word in argv]
    child_env = {**os.environ, **(env or {})} if ours else child_environment(env, installing=installing)
    if shutil.which(words[0], path=child_env.get("PATH")) is None:
        raise EngineError("ENV", f"there is no program {words[0]}", log=str(log))
    log.parent.mkdir(parents=True, exist_ok=True)
    handed = "-" if stdin is None else str(stdin)
    with log.open("ab") as output:
        popen = subprocess.Popen(
            [sys.executable, "-I", "-S", str(SUPERVISOR), str(os.getpid()), str(output_limit), handed, "--", *words],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            bufsize=0,
            cwd=cwd,
            env=child_env,
            pass_fds=() if stdin is None else (stdin,),
            start_new_session=True,
        )
    return Process(popen, words, log)


def run(
    argv: Sequence[str | Path],
    *,
    log: Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
    on_tick: Callable[[], None] | None = None,
    grace_s: float = 0.0,
    installing: bool = False,
    output_limit: int = OUTPUT_LIMIT_BYTES,
) -> int:
    """Run argv to its end and return the exit code (128 + signal where a signal ended it, 127 where exec failed).

    `on_tick` is called ten times a second in this thread; what it raises ends the child and goes on to the caller.
    Raises TimeoutError after `timeout_s` seconds, with everything dead (SIGTERM first where `grace_s` > 0).
    """
    until = None if timeout_s is None else time.monotonic() + timeout_s
    process = start(argv, log=log, cwd=cwd, env=env, installing=installing, output_limit=output_limit)
    try:
        while (code := process.wait(TICK_SECONDS)) is None:
            if on_tick is not None:
                on_tick()
            if until is not None and time.monotonic() > until:
                raise TimeoutError(f"{Path(process.argv[0]).name} did not end within {timeout_s:.0f} s")
        return code
    finally:
        process.stop(grace_s)


def detach(argv: Sequence[str | Path], *, log: Path, cwd: Path, env: Mapping[str, str] | None = None) -> None:
    """Start this program anew in a session of its own: it outlives us, and nothing that ends us ends it.

    It is one of us and sees our environment, keys included; `env` is added. Its output is appended to `log`.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        popen = subprocess.Popen(
            [str(word) for word in argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
    # Whoever ends before us must be waited for, or it stays in the table of processes.
    threading.Thread(target=popen.wait, daemon=True).start()


def output_of(argv: Sequence[str | Path], *, timeout_s: float = 60.0, installing: bool = False) -> tuple[int, str]:
    """Exit code and output (both streams) of a short command, for example a version query."""
    with tempfile.TemporaryDirectory(prefix="tunewright-") as folder:
        log = Path(folder) / "output"
        code = run(argv, log=log, timeout_s=timeout_s, installing=installing)
        return code, log.read_text(errors="replace")
