"""Runs that a page starts: processes of their own, which outlive page and browser.

`start`, or `resume` for a run that exists, begins a process and comes back at once; `held` says whether one is at work.
What it does is read from the run's folder: `events.jsonl`, and the state in words through `graph.snapshot`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from graph.message import needs_process, post
from graph.runs import new_run
from graph.snapshot import read_snapshot
from memory.database import is_held
from memory.errors import RunBusyError
from memory.layout import RunFolder, made, write_record
from memory.records import Question, Task
from tools import process

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = "15m"
"""A question waits so long with engines warm; after that an answer starts the run again."""


@dataclass(frozen=True)
class Launch:
    """How the process of a run is started."""

    module: str = "graph.run"
    """The front door; the tests name one with quick engines."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to our own environment."""


def start(task: Task, runs: Path, launch: Launch = Launch()) -> RunFolder:
    """Begin a new run in a folder of its own under `runs`. Raises StorageError."""
    folder = new_run(runs, task.benchmark)
    made(folder.root, mode=0o700)
    write_record(folder.task, task)
    _begin(folder, launch)
    return folder


def resume(folder: RunFolder, launch: Launch = Launch()) -> None:
    """Go on with a run that exists, also one just forked. Raises RunBusyError where a process is at work on it."""
    if held(folder):
        raise RunBusyError(f"run {folder.id} is at work already", "Wait until it ends, or stop it.")
    _begin(folder, launch)


def say(folder: RunFolder, text: str, launch: Launch = Launch()) -> str:
    """Say something to a run, as `--answer` does; what will come of it, in words. Where no process holds the run, one
    is started for it.

    Raises InputError where it is not understood or can have no effect; where two answer one question, the second.
    """
    words = post(folder, text)
    if needs_process(folder, text):
        _begin(folder, launch)
    return words


def stop(folder: RunFolder, now: bool) -> str:
    """Stop the process that holds the run: after the step at work, or at once. What will happen, in words. Raises
    InputError where none holds it."""
    return say(folder, "stop now" if now else "stop")


def held(folder: RunFolder) -> bool:
    """Whether a process is at work on the run. One that was just started needs a second or two to be."""
    return is_held(folder.root)


def pending(folder: RunFolder) -> Question | None:
    """The question that the run waits with, whether or not a process waits for the answer; None where it asks nothing.
    Raises StorageError."""
    snapshot = read_snapshot(folder)
    return snapshot.question if snapshot else None


def argv_of(folder: RunFolder, launch: Launch) -> list[str]:
    """The command of a process that drives a run which has a folder."""
    argv = [sys.executable, "-m", launch.module, "--resume", folder.id, "--run-dir", str(folder.root.parent)]
    return [*argv, "--plain"]


def _begin(folder: RunFolder, launch: Launch) -> None:
    """Start the process; what it says goes to `process.log`."""
    argv = [*argv_of(folder, launch), "--wait", PATIENCE]
    process.detach(argv, log=folder.process_log, cwd=ROOT, env=launch.environment)
