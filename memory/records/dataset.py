"""A training file and where its rows come from."""

from __future__ import annotations

from memory.records.record import Record


class RowGroup(Record):
    """Provenance: rows that took the same way into the training file."""

    source: str
    rows: int
    steps: tuple[str, ...]
    """Operators that the rows passed, in order, in words."""


class Dropped(Record):
    """Rows that did not make it, and why."""

    reason: str
    rows: int
    examples: tuple[str, ...] = ()


class DatasetCard(Record):
    """A training file: JSONL of `{"id", "messages", "source"}` with one user and one assistant message a row."""

    path: str
    sha256: str
    rows: int
    mean_answer_chars: float
    groups: tuple[RowGroup, ...]
    dropped: tuple[Dropped, ...] = ()
