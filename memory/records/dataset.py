"""A training file and where its rows come from."""

from __future__ import annotations

from pydantic import Field

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
    step: str = ""
    """The operator that dropped them, in words."""


class Lengths(Record):
    """How long the texts of a file are, in characters."""

    mean: float
    p99: int
    """99 % of the texts are no longer."""
    longest: int


class DatasetCard(Record):
    """A training file: JSONL of `{"id", "messages", "source", "answered_by", "rejected"}` with one user and one
    assistant message a row, and in a file of pairs the text of the answer to reject."""

    path: str
    sha256: str
    rows: int
    mean_answer_chars: float
    groups: tuple[RowGroup, ...]
    dropped: tuple[Dropped, ...] = ()
    """In the order of the operators."""
    prompt_chars: Lengths | None = None
    answer_chars: Lengths | None = None
    """Both are None in files of other makers."""
    answers: dict[str, int] = Field(default_factory=dict)
    """The 20 most frequent answers of several rows, with their rows; empty where answers hardly repeat."""
    notes: tuple[str, ...] = ()
    """What else the person should know: shares that were missed, what sampling showed."""
