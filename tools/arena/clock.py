"""The session's budget: wall clock while it is open, kept on disk so that a restart gives no time back."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from memory.errors import InputError
from memory.layout import read_record, write_record
from memory.records import Record


class Spent(Record):
    """What is on disk."""

    seconds: float


class Clock:
    """Runs from its making on. The time between two processes does not count: nothing can be done in it."""

    def __init__(self, path: Path, budget_s: float) -> None:
        """`path` holds what was spent before."""
        self.path, self.budget_s = path, budget_s
        self._before = read_record(path, Spent).seconds if path.exists() else 0.0
        self._began = time.monotonic()
        self._writing = threading.Lock()

    @property
    def spent(self) -> float:
        """Seconds so far."""
        return self._before + time.monotonic() - self._began

    @property
    def left(self) -> float:
        """Seconds that are left; never below 0."""
        return max(0.0, self.budget_s - self.spent)

    def save(self) -> None:
        """Write down what is spent."""
        with self._writing:  # a call and the job beside it
            write_record(self.path, Spent(seconds=round(self.spent, 1)))

    def demand(self) -> float:
        """The seconds that are left, written down. Raises InputError where the budget is spent."""
        self.save()
        if self.left <= 0:
            raise InputError(
                f"the budget of {self.budget_s:.0f} s is spent",
                "What was made stays readable; the final test, where it is allowed, can still be asked for.",
            )
        return self.left
