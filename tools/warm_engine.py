"""A warm engine: one process answers request after request, so that its imports are paid once.

The contract with the worker is the same as `Engine.call`'s, a folder for each request; only the folder's name comes
through a file that grows. A worker that failed has ended, and the next call starts a new one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from memory.layout import made
from memory.records import Record
from tools import process
from tools.engines import contract, worker_io
from tools.engines.lighteval.inbox import INBOX

R = TypeVar("R", bound=Record)


class WarmEngine:
    """A worker that stays. As a context manager it is ended on the way out; the supervisor ends it if we are killed."""

    def __init__(self, engine: contract.Engine, folder: Path) -> None:
        """Nothing starts yet. `folder` takes the inbox and what the worker prints before its first request."""
        self.engine = engine
        self.folder = folder
        self._inbox = folder / "inbox"
        self._process: process.Process | None = None

    def warm_up(self) -> None:
        """Start the worker unless it runs; does not wait for it. Raises EngineError where there is no such program."""
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        made(self.folder)
        self._inbox.write_text("")
        argv: list[str | Path] = [self.engine.python, "-u", self.engine.worker, INBOX, self._inbox]
        env = contract.worker_env(self.engine)
        self._process = process.start(argv, log=self.folder / "run.log", cwd=contract.REPOSITORY, env=env)

    def call(
        self,
        request: Record,
        answer: type[R],
        folder: Path,
        *,
        timeout_s: float,
        on_progress: Callable[[contract.Progress], None] | None = None,
        on_tick: Callable[[], None] | None = None,
    ) -> R:
        """As `Engine.call`: the worker's answer, or an earlier one to the same request. What `on_progress` and
        `on_tick` raise ends the worker and goes on. Raises EngineError."""
        folder = folder.resolve()
        earlier = contract.finished(request, answer, folder)
        if earlier is not None:
            return earlier
        digest = contract.write_request(self.engine, request, folder)
        self.warm_up()
        with self._inbox.open("a") as inbox:
            inbox.write(f"{folder}\n")
        follower = contract.Follower(folder / worker_io.PROGRESS, self.engine.name, on_progress)
        code: int | None = 0
        try:
            code = self._wait(folder, follower, time.monotonic() + timeout_s, on_tick)
        finally:
            if code is None or not (folder / worker_io.RESULT).exists():
                self.close()
        return contract.judge(self.engine, digest, answer, folder, code, timeout_s)

    def close(self) -> None:
        """End the worker; may be called again."""
        if self._process is not None:
            self._process.stop()
        self._process = None

    def __enter__(self) -> WarmEngine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wait(
        self, folder: Path, follower: contract.Follower, until: float, on_tick: Callable[[], None] | None
    ) -> int | None:
        """Exit code as `contract.judge` wants it: 0 where the worker answered and stays, None after a time-out."""
        assert self._process is not None
        while True:
            code = self._process.wait(process.TICK_SECONDS)
            answered = any((folder / name).exists() for name in (worker_io.RESULT, worker_io.FAILURE))
            follower.follow()
            if on_tick is not None:
                on_tick()
            if code is not None or answered:
                return code or 0
            if time.monotonic() > until:
                return None
