"""What a file of raw data holds, before anybody trains on it: rows, columns, lengths, and some of its rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from statistics import median

from memory.records import Record
from tools.lengths import tokens_of
from tools.raw_data.rows import Row, count, some

EXAMPLES = 5
LOOKED_AT = 500
"""Rows whose columns and lengths are looked at; some sources do not fit into memory."""
SHOWN = 300
"""Characters of an example."""


class Profile(Record):
    """A file of raw data at a glance."""

    rows: int
    columns: tuple[str, ...]
    median_tokens: int
    """Of a row, as it was counted."""
    longest_tokens: int
    examples: tuple[str, ...]
    """Rows as JSON, cut."""


def as_json(row: Row) -> str:
    """A row as one line."""
    return json.dumps(row, ensure_ascii=False, default=str)


def estimated(row: Row) -> float:
    """Tokens of a row as JSON, about, for any tokenizer."""
    return tokens_of(as_json(row))


def profile(
    path: Path,
    examples: int = EXAMPLES,
    *,
    looked_at: int = LOOKED_AT,
    tokens_in: Callable[[Row], float] = estimated,
    may_be_shown: Callable[[Row], bool] = lambda row: True,
) -> Profile:
    """Look at a file or folder: it is counted, and some of its rows are read. A file that holds test questions is to
    show no `examples`, or only rows that `may_be_shown`. Raises InputError where it cannot be read."""
    rows = [row for _, row in some(path, looked_at, seed=0)]
    tokens = [round(tokens_in(row)) for row in rows]
    shown = [row for row in rows if may_be_shown(row)][:examples] if examples else []
    return Profile(
        rows=count(path),
        columns=tuple(dict.fromkeys(name for row in rows for name in row)),
        median_tokens=round(median(tokens)),
        longest_tokens=max(tokens),
        examples=tuple(as_json(row)[:SHOWN] for row in shown),
    )


def in_words(name: str, told: Profile) -> str:
    """A profile for a person."""
    lines = [
        f"{name}: {told.rows:,} rows of about {told.median_tokens:,} tokens (at most {told.longest_tokens:,})",
        f"  columns: {', '.join(told.columns)}",
        *(f"  {example}" for example in told.examples),
    ]
    return "\n".join(lines)
