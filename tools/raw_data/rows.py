"""Rows of raw data, and the published way to split them: shuffled with seed 42, first and last hundred."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from memory.errors import InputError
from tools.own_task.files import READERS, read_file

Row = dict[str, object]
T = TypeVar("T")

SHUFFLE_SEED = 42
HELD_OUT = 100
"""Rows of validation and of test, at most, in each view of a benchmark."""


def read(path: Path) -> list[Row]:
    """The rows of a file (JSONL, JSON, CSV, Parquet), or of all such files in a folder, by name. A JSON file with one
    object is one row. Raises InputError that names file, row and fix."""
    if not path.is_dir():
        return [row.values for row in read_file(path)]
    files = sorted(file for file in path.iterdir() if file.suffix in READERS)
    if not files:
        raise InputError(f"{path} holds no data files", f"Their names should end in one of: {', '.join(READERS)}.")
    return [row for file in files for row in read(file)]


def shuffled(rows: Sequence[T]) -> list[T]:
    """Rows in the order of `datasets.Dataset.shuffle(seed=42)`, which published splits are cut from."""
    from datasets import Dataset  # its import takes a second

    order = Dataset.from_dict({"row": range(len(rows))}).shuffle(seed=SHUFFLE_SEED)["row"]
    return [rows[place] for place in order]


def first_and_last(rows: Sequence[T]) -> tuple[list[T], list[T]]:
    """Validation and test as FT-Dojo cuts them from a view: its first and last 100 rows, or halves where there are
    fewer than 200; the row in the middle of an odd number is in neither."""
    size = min(HELD_OUT, len(rows) // 2)
    return list(rows[:size]), list(rows[len(rows) - size :])
