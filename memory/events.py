"""What happens in a run, as it happens: appended to `events.jsonl` for viewers elsewhere, told to listeners here."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from memory.layout import disk, made
from memory.records import NodeName, Record

EventKind = Literal[
    "run", "node", "progress", "loss", "check", "score", "decision", "note", "said", "question", "budget"
]
"""said: what a person said. question: what the run waits for. budget: the run has another one."""


class Event(Record):
    """One thing that happened."""

    at: float
    """Unix time in seconds."""
    kind: EventKind
    node: NodeName | None = None
    """The node at work."""
    says: str
    """One line for a person."""
    trial: int | None = None
    done: float | None = None
    """Of `progress`: units done so far."""
    total: float | None = None
    """Of `progress`: units in all."""
    seconds_left: float | None = None
    """Of `progress`: honest estimate of the rest, in seconds; None while it cannot be known."""
    value: float | None = None
    """Of `loss` and `score`: the figure. Of `budget`: seconds."""
    stderr: float | None = None
    """Of `score`: its standard error."""
    phase: Literal["start", "end", ""] = ""
    """Of `run` and `node`: which edge of it."""


Listener = Callable[[Event], None]


class Events:
    """The stream of one run. One process writes; many may read."""

    def __init__(self, path: Path, listeners: tuple[Listener, ...] = ()) -> None:
        self.path = path
        self.listeners = listeners
        self.node: NodeName | None = None
        self.trial: int | None = None

    def emit(
        self,
        kind: EventKind,
        says: str,
        *,
        done: float | None = None,
        total: float | None = None,
        seconds_left: float | None = None,
        value: float | None = None,
        stderr: float | None = None,
        phase: Literal["start", "end", ""] = "",
    ) -> None:
        """Append one event about the node and trial at work, then tell the listeners. Raises StorageError."""
        event = Event(
            at=time.time(),
            kind=kind,
            node=self.node,
            says=says,
            trial=self.trial,
            done=done,
            total=total,
            seconds_left=seconds_left,
            value=value,
            stderr=stderr,
            phase=phase,
        )
        made(self.path.parent)
        with disk(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(event.model_dump_json(exclude_none=True) + "\n")
        for listener in self.listeners:
            listener(event)
