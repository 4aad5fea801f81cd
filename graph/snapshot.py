"""The state of a run as any process may read it: `state.json`, written at every step by the process that holds the run.

DuckDB's file cannot be opened while another process holds it. The snapshot is a copy for viewers; the truth stays in
the checkpoints.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from langgraph.types import StateSnapshot

from memory.layout import RunFolder, read_record, write_text
from memory.records import NodeName, Question, Record
from memory.state import State


class Snapshot(Record):
    """A run at its last checkpoint."""

    at: float
    """Unix time in seconds at which it was written."""
    state: State
    """Empty for a run that has not begun."""
    following: NodeName | None
    """The node at work, or the one that comes next; None at the end."""
    question: Question | None
    """What the run waits for; None while it asks nothing."""


def write_snapshot(
    folder: RunFolder, state: State, following: Sequence[str], question: Question | None = None
) -> Snapshot:
    """Write the snapshot whole or not at all, and nothing before the run has begun; `following` holds the next node or
    nothing. Raises StorageError."""
    node = following[0] if following else None
    made = Snapshot.model_validate({"at": time.time(), "state": state, "following": node, "question": question})
    if state:
        write_text(folder.snapshot, made.model_dump_json(), durable=False)
    return made


def read_snapshot(folder: RunFolder) -> Snapshot | None:
    """The newest snapshot of a run; None for one that has not begun. Whether a process is at work on the run, it does
    not know: see `background.held`. Raises StorageError where the file cannot be read."""
    return read_record(folder.snapshot, Snapshot) if folder.snapshot.exists() else None


def question_of(found: StateSnapshot) -> Question | None:
    """The question that a checkpoint waits with, under the id of its interrupt; None where it asks nothing."""
    for interrupt in found.interrupts:
        return Question.model_validate(interrupt.value).model_copy(update={"id": interrupt.id})
    return None
