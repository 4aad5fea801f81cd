"""A run as viewers see it: its last snapshot, and its events as they come. Nothing here opens the run's database.

A run at work appends to `events.jsonl`; each byte of it is read once, whoever watches and however many do.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Literal

from pydantic_core import from_json

from graph.background import held
from graph.live import Board
from graph.runs import whole
from graph.snapshot import Snapshot, read_snapshot
from memory.errors import StorageError
from memory.events import Event
from memory.layout import RunFolder, read_record
from memory.records import NodeName, Question, Task
from memory.state import State, winner
from tools.engines.contract import log_tail
from tools.report import RunReport

EVENTS_KEPT = 200
"""What happened last, for the log and the chat."""
RUNS_KEPT = 16
"""Runs whose events are held in memory; one more is read again from its start."""
START_SECONDS = 60.0
"""A process that was started needs some seconds until it holds the run; then it has died."""

Status = Literal["starting", "at work", "waits for you", "finished", "stopped"]


@dataclass(frozen=True)
class Reading:
    """All that is known about a run at one moment."""

    folder: RunFolder
    task: Task
    state: State
    """At the last checkpoint; with nothing but the task where there is none."""
    following: NodeName | None
    """The node that comes next by the last checkpoint."""
    question: Question | None
    """What the run asks before it goes on."""
    asked_at: float
    """Unix time at which it was asked; that of the last checkpoint where nothing is."""
    status: Status
    node: NodeName | None
    """The node at work; None between two, and where no process is at work."""
    trial: int | None
    """The trial at work."""
    progress: Event | None
    """Of the work at hand: how far it is."""
    losses: tuple[tuple[float, float], ...]
    """Optimiser step and loss of the training at work or, after it, of the last one."""
    losses_of: int | None
    """The trial of that training."""
    events: tuple[Event, ...]
    """The last ones, oldest first."""
    spent_seconds: float
    """Wall clock used so far, by the events."""
    said: str
    """What the process printed last: set-up that is no event, and why it ended."""

    @property
    def seconds_left(self) -> float:
        """Wall clock of the budget that is left; never negative."""
        return max(0.0, self.state["task"].budget.seconds - self.spent_seconds)

    @property
    def best(self) -> str:
        """`trial N`, or the untouched model while no trial was accepted."""
        best = winner(self.state)
        return f"trial {best.number}" if best else "the untouched model"


class Follower:
    """Follows one run."""

    def __init__(self, folder: RunFolder) -> None:
        """Raises StorageError where the folder holds no task."""
        self.folder = folder
        self.task = read_record(folder.task, Task)
        self.turn = threading.Lock()
        self.snapshot: Snapshot | None = None
        self.written = 0
        """When the snapshot was written, in nanoseconds."""
        self._begin()

    def read(self, now: float) -> Reading:
        """The run at Unix time `now`. Raises StorageError where its snapshot cannot be read."""
        with self.turn:
            self._follow()
            self._look()
            snapshot, board = self.snapshot, self.board
            at_work = held(self.folder)
            state = snapshot.state if snapshot and snapshot.state else State(task=self.task)
            return Reading(
                folder=self.folder,
                task=self.task,
                state=state,
                following=snapshot.following if snapshot else None,
                question=snapshot.question if snapshot else None,
                asked_at=snapshot.at if snapshot else 0.0,
                status=self._status(at_work, state, now),
                node=board.node if at_work else None,
                trial=board.trial,
                progress=board.progress if at_work else None,
                losses=tuple(self.losses),
                losses_of=self.losses_of,
                events=tuple(self.events),
                spent_seconds=max(
                    board.spent(now) if at_work else board.ended_seconds, state.get("spent_seconds", 0.0)
                ),
                said=log_tail(self.folder.process_log, lines=1),
            )

    def _begin(self) -> None:
        self.offset = 0
        self.board = Board(self.task.budget.seconds)
        self.losses: list[tuple[float, float]] = []
        self.losses_of: int | None = None
        self.events: deque[Event] = deque(maxlen=EVENTS_KEPT)

    def _follow(self) -> None:
        """Hear the events that were written since the last time; a line that is still being written waits."""
        try:
            with self.folder.events.open("rb") as file:
                if file.seek(0, 2) < self.offset:  # another file under the same name
                    self._begin()
                file.seek(self.offset)
                news = file.read()
        except FileNotFoundError:
            return
        complete = news[: news.rfind(b"\n") + 1]
        self.offset += len(complete)
        for event in whole(complete.splitlines()):
            self._hear(event)

    def _hear(self, event: Event) -> None:
        self.board.hear(event)
        if event.kind == "node" and event.phase == "start" and event.node == "trainer":
            self.losses.clear()
            self.losses_of = event.trial
        if event.kind == "loss" and event.value is not None:
            self.losses.append((event.done or len(self.losses) + 1, event.value))
        elif event.kind != "progress":
            self.events.append(event)

    def _look(self) -> None:
        """Read the snapshot again if another one was written."""
        path = self.folder.snapshot
        written = path.stat().st_mtime_ns if path.exists() else 0
        if written != self.written:
            self.snapshot, self.written = grown(self.folder, self.snapshot), written
        elif self.snapshot is None and (self.folder.root / "report.json").exists():
            self.snapshot = of_report(read_record(self.folder.root / "report.json", RunReport))

    def _status(self, at_work: bool, state: State, now: float) -> Status:
        if state.get("test") is not None:
            return "finished"
        if self.snapshot is not None and self.snapshot.question is not None:
            return "waits for you"
        if at_work:
            return "at work"
        began = max(path.stat().st_mtime for path in (self.folder.task, self.folder.process_log) if path.exists())
        return "starting" if not self.folder.events.exists() and now - began < START_SECONDS else "stopped"


class Readings:
    """The runs that are watched, each followed once for all tabs."""

    def __init__(self) -> None:
        self.followers: OrderedDict[RunFolder, Follower] = OrderedDict()
        self.turn = threading.Lock()

    def read(self, folder: RunFolder, now: float) -> Reading:
        """The run at Unix time `now`. Raises StorageError where it cannot be read."""
        with self.turn:
            follower = self.followers.pop(folder, None) or Follower(folder)
            self.followers[folder] = follower
            if len(self.followers) > RUNS_KEPT:
                self.followers.popitem(last=False)
        return follower.read(now)


def grown(folder: RunFolder, before: Snapshot | None) -> Snapshot | None:
    """The newest snapshot. Trials are only ever added to a run, so that those of the snapshot `before` are not built
    anew: with hundreds of them that is what takes the time. Raises StorageError where it cannot be read."""
    known = before.state.get("trials", []) if before else []
    if not known:
        return read_snapshot(folder)
    try:
        found = from_json(folder.snapshot.read_bytes())
        found["state"]["trials"] = found["state"].get("trials", [])[len(known) :]
        snapshot = Snapshot.model_validate(found)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StorageError(f"{folder.snapshot} is no readable snapshot: {str(error).splitlines()[0]}") from error
    snapshot.state["trials"][:0] = known
    return snapshot


def of_report(report: RunReport) -> Snapshot:
    """The end of a run whose release wrote no snapshots, from its report."""
    state = State(
        task=report.task,
        baseline=report.baseline,
        trials=list(report.trials),
        lessons=list(report.lessons),
        stop=report.decision.stopped_because,
        test=report.test,
        spent_seconds=report.budget.spent_seconds,
    )
    return Snapshot(at=0.0, state=state, following=None, question=None)
