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


class Rehearsal(Record):
    """A step that costs money, or runs generated code, tried on a few rows before the whole is begun."""

    step: str
    """The operator, in words."""
    rows: int
    """Rows of the rehearsal; of a synthesis, rows that were asked for."""
    calls: int
    """Calls of the model or the function: one a row, but for a synthesis, which asks for several rows at once."""
    came: int
    """Rows that came out of it."""
    failed: int
    """Calls without a usable answer or, of generated code, rows on which it failed."""
    first_failure: str = ""
    seconds: float
    dollars: float | None
    """None where the price of the model is not known; 0 for generated code."""
    whole_rows: int
    """Rows of the whole, the rehearsal among them, without those that were answered before."""
    whole_seconds: float
    whole_dollars: float | None
    """What the whole costs at the rate of the rehearsal; None where the price is not known."""

    @property
    def says(self) -> str:
        """One line for a person."""
        lost = f", {self.failed} of {self.calls} calls failed ({self.first_failure})" if self.failed else ""
        paid = "" if self.dollars is None else f" and ${self.dollars:.4f}"
        whole = "" if self.whole_dollars is None else f" and ${self.whole_dollars:.4f}"
        return (
            f"rehearsal of {self.step}: {self.rows} rows in, {self.came} out{lost}, {self.seconds:.1f} s{paid}; "
            f"all {self.whole_rows} take {self.whole_seconds:.0f} s{whole} at that rate"
        )


class DatasetCard(Record):
    """A training file: JSONL of `{"id", "messages", "source", "answered_by", "origin", "rejected"}` with one user and
    one assistant message a row, and in a file of pairs the text of the answer to reject."""

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
    rehearsals: tuple[Rehearsal, ...] = ()
    """Of the steps that cost money or run generated code, in the order of the operators; none for a step whose answers
    were all on disk."""
