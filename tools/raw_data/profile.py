"""What a file of raw data holds, before anybody trains on it: rows, columns, lengths, and the first of its rows."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

from memory.records import Record
from tools.lengths import tokens_of
from tools.raw_data.rows import read

EXAMPLES = 5
SHOWN = 300
"""Characters of an example."""


class Profile(Record):
    """A file of raw data at a glance."""

    rows: int
    columns: tuple[str, ...]
    median_tokens: int
    """Of a row as JSON, about: as `tools/lengths.py` estimates them for any tokenizer."""
    longest_tokens: int
    examples: tuple[str, ...]
    """The first rows as JSON, cut."""


def profile(path: Path) -> Profile:
    """Read all of a file or folder. Raises InputError where it cannot be read."""
    rows = read(path)
    texts = [json.dumps(row, ensure_ascii=False, default=str) for row in rows]
    tokens = [round(tokens_of(text)) for text in texts]
    return Profile(
        rows=len(rows),
        columns=tuple(dict.fromkeys(name for row in rows for name in row)),
        median_tokens=round(median(tokens)),
        longest_tokens=max(tokens),
        examples=tuple(text[:SHOWN] for text in texts[:EXAMPLES]),
    )
