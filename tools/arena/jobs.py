"""Work that takes longer than a call should: started, then asked for. One at a time: there is one set of engines."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Literal

from memory.errors import InputError, TunewrightError
from tools.arena.answers import Evaluation, FinalTest, Job, Training, Validation

Kind = Literal["validation", "training", "evaluation", "final test"]
Result = Validation | Training | Evaluation | FinalTest
Say = Callable[[str], None]
LONGEST_WAIT = 50.0
"""Seconds that a question for a job may wait: clients give up on a call after a minute."""


class Work:
    """One job at work."""

    def __init__(self, number: int, kind: Kind) -> None:
        self.id, self.kind = f"job-{number}", kind
        self.says = "waiting for the job before it"
        self.began: float | None = None
        self.ended: float | None = None
        self.future: Future[Result] = Future()

    def say(self, line: str) -> None:
        """Where it stands."""
        self.says = line

    def run(self, work: Callable[[Say], Result]) -> Result:
        """Do it."""
        self.began, self.says = time.monotonic(), "begun"
        try:
            return work(self.say)
        finally:
            self.ended = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since it began."""
        return 0.0 if self.began is None else round((self.ended or time.monotonic()) - self.began, 1)

    def told(self) -> Job:
        """The job as an agent sees it. An error that nobody expected goes on to the caller."""
        if not self.future.done():
            state: Literal["waiting", "running"] = "waiting" if self.began is None else "running"
            return Job(id=self.id, kind=self.kind, state=state, says=self.says, seconds=self.seconds)
        try:
            found = self.future.result()
        except TunewrightError as error:
            return Job(id=self.id, kind=self.kind, state="failed", says=str(error), seconds=self.seconds)
        field = self.kind.replace(" ", "_")
        return Job(id=self.id, kind=self.kind, state="done", says="done", seconds=self.seconds, **{field: found})  # type: ignore[arg-type]


class Jobs:
    """All jobs since the start of this process, by id."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._numbers = itertools.count(1)
        self._works: dict[str, Work] = {}

    def start(self, kind: Kind, work: Callable[[Say], Result]) -> Job:
        """Put work in line."""
        one = Work(next(self._numbers), kind)
        self._works[one.id] = one
        one.future = self._pool.submit(one.run, work)
        return one.told()

    def look(self, job: str, wait_s: float) -> Job:
        """A job, after `wait_s` seconds at most. Raises InputError for one that this process did not start."""
        if job not in self._works:
            raise InputError(
                f"no job {job[:40]!r} was started since the server came up",
                "Start the work again: what was finished is found and not repeated.",
            )
        one = self._works[job]
        wait([one.future], min(wait_s, LONGEST_WAIT))
        return one.told()

    @property
    def busy(self) -> bool:
        """Whether any has not ended."""
        return any(not one.future.done() for one in self._works.values())

    def close(self) -> None:
        """Drop what has not begun, and wait for what has."""
        self._pool.shutdown(cancel_futures=True)
