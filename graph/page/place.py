"""Where the page works, and the only ways from what a browser sends to a file: by the list of runs, and by a copy."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from graph.background import Launch, held, start
from graph.page.reading import Reading, Readings
from graph.runs import all_runs
from graph.workshop import Equip, workshop
from memory.errors import InputError
from memory.layout import RunFolder, disk, link_or_copy, read_record
from memory.records import Task

JUST_NOW_SECONDS = 60.0
News = tuple[str, bool, tuple[int, ...]]
"""A run's id, whether a process holds it, and sizes and times of what is written about it."""


@dataclass(frozen=True)
class Place:
    """What the front door found out and every tab may use."""

    runs: Path
    """Absolute folder that holds the runs."""
    cache: Path
    """Absolute folder of engine environments and base models."""
    handed_out: Path
    """An empty folder of this app, from which files are served; it goes when the app ends."""
    launch: Launch = field(default_factory=Launch)
    """What carries a run in the background; the tests bring quick engines."""
    equip: Equip = workshop
    """Makes engines and model for what the page does itself: trying a tuned model."""
    readings: Readings = field(default_factory=Readings)
    """The runs that are watched."""
    turn: threading.Lock = field(default_factory=threading.Lock)

    def ids(self) -> list[str]:
        """The ids of all runs, newest first."""
        return [folder.id for folder in reversed(all_runs(self.runs))]

    def folder(self, run: str | None) -> RunFolder:
        """The run of exactly this id. What a browser sends is no path: it is looked up. Raises InputError."""
        for folder in all_runs(self.runs):
            if folder.id == run:
                return folder
        raise InputError(
            "there is no such run" if run else "no run is chosen", "Choose one in the list, or start one in the chat."
        )

    def news(self, run: str) -> News:
        """A value that differs as soon as anything new was written about the run. Raises InputError."""
        folder = self.folder(run)
        written = [path.stat() for path in (folder.events, folder.snapshot, folder.process_log) if path.exists()]
        marks = [mark for status in written for mark in (status.st_size, status.st_mtime_ns)]
        return (run, held(folder), tuple(marks))

    def read(self, run: str | None) -> Reading:
        """The run of this id as it is now. Raises InputError for an unknown one, StorageError for a broken one."""
        return self.readings.read(self.folder(run), time.time())

    def chosen(self, run: str | None) -> Reading | None:
        """The run that is looked at; None where none is, and for one that is not there: the chooser lets go of it by
        itself. Raises StorageError."""
        return self.read(run) if run in self.ids() else None

    def start(self, task: Task) -> RunFolder:
        """Begin a run in a process of its own. Where the newest run has the same task and has only just begun, it is
        that one: a second click is no second run. Raises StorageError."""
        with self.turn:
            for newest in all_runs(self.runs)[-1:]:
                age = time.time() - newest.task.stat().st_mtime
                if age < JUST_NOW_SECONDS and read_record(newest.task, Task) == task:
                    return newest
            return start(task, self.runs, self.launch)

    def hand_out(self, folder: RunFolder, path: Path) -> str:
        """A copy of a run's file that may be served, by its own name. Raises InputError for the database, whose lock is
        lost when it is opened here, for the sealed test, and for what lies elsewhere."""
        real, root = path.resolve(), folder.root.resolve()
        if not real.is_relative_to(root) or not real.is_file():
            raise InputError(f"run {folder.id} has no such file")
        if real.is_relative_to(root / folder.sealed.name) or real.name.startswith((folder.database.name, "run.lock")):
            raise InputError(f"{real.name} is not handed out", "Read it on the machine of the run, when it has ended.")
        with disk(self.handed_out):
            shelf = Path(tempfile.mkdtemp(dir=self.handed_out))
            link_or_copy(real, shelf / real.name)
        return os.fspath(shelf / real.name)
