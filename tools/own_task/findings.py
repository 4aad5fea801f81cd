"""What is odd about a person's rows, each oddity with its count and places: said before anything trains, and kept with
the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from memory.records import Record
from tools.own_task.shapes import OwnRow

FILE = "findings.json"
"""Name in the run's data folder."""
EXAMPLES = 5
"""Rows that a finding names."""

Kind = Literal["empty", "long", "encoding", "spelling", "duplicate", "conflict", "single", "group", "copy", "error bar"]


class Finding(Record):
    """One oddity."""

    kind: Kind
    rows: int
    """Rows that it concerns."""
    left_out: int = 0
    """Rows that were left out because of it."""
    examples: tuple[str, ...] = ()
    """The first places, such as `data.csv row 17`."""
    says: str
    """One line with the count, what was done about it, and what the person can do."""


class Findings(Record):
    """All of them, and what they leave."""

    task: str
    rows: int
    """Rows in the person's files."""
    usable: int
    """Rows in the splits."""
    found: tuple[Finding, ...] = ()


def finding(kind: Kind, rows: Sequence[OwnRow], says: str, left_out: int = 0) -> Finding:
    """A finding about `rows`; the first of them are named."""
    places = tuple(row.place for row in rows[:EXAMPLES])
    return Finding(
        kind=kind, rows=len(rows), left_out=left_out, examples=places, says=f"{says} ({named(rows)})" if rows else says
    )


def named(rows: Sequence[OwnRow]) -> str:
    """The first places in a few words: `data.csv rows 3, 17, 20 and 4 more`."""
    first = rows[:EXAMPLES]
    files = {row.file for row in first}
    if len(files) == 1:
        numbers = ", ".join(str(row.number) for row in first)
        words = f"{first[0].file} row{'s' if len(first) > 1 else ''} {numbers}"
    else:
        words = ", ".join(row.place for row in first)
    return words + (f" and {len(rows) - len(first)} more" if len(rows) > len(first) else "")


def counted(count: int, what: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{count} {what}" if count == 1 else f"{count:,} {what}s"
