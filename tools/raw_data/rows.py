"""Rows of raw data, and the published way to split them: shuffled with seed 42, first and last hundred."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

from memory.errors import InputError
from tools.own_task.files import READERS, read_file, text_of

Row = dict[str, object]
T = TypeVar("T")

SHUFFLE_SEED = 42
HELD_OUT = 100
"""Rows of validation and of test, at most, in each view of a benchmark."""


def read(path: Path) -> list[Row]:
    """The rows of a file (JSONL, JSON, CSV, Parquet), or of all such files in a folder, by name. A JSON file with one
    object is one row. Raises InputError that names file, row and fix."""
    if not path.is_dir():
        return _one_object(path) or [row.values for row in read_file(path)]
    files = sorted(file for file in path.iterdir() if file.suffix in READERS)
    if not files:
        raise InputError(f"{path} holds no data files", f"Their names should end in one of: {', '.join(READERS)}.")
    return [row for file in files for row in read(file)]


def _one_object(path: Path) -> list[Row] | None:
    """The row of a JSON file that is one object, over several lines; None for any other file."""
    if path.suffix != ".json":
        return None
    try:
        value = json.loads(text_of(path))
    except (OSError, json.JSONDecodeError):
        return None
    return [value] if isinstance(value, dict) else None


def some(path: Path, size: int, seed: int) -> list[tuple[int, Row]]:
    """At most `size` rows of a file or folder with their places in it, in an order that the seed decides. Of a Parquet
    file no others are read: a source of documents would not fit into memory. Raises InputError."""
    if path.suffix != ".parquet":
        rows = list(enumerate(read(path)))
        random.Random(seed).shuffle(rows)
        return rows[:size]
    with _parquet(path) as query:
        places = random.Random(seed).sample(range(count(path)), min(size, count(path)))
        wanted = ", ".join(map(str, places)) or "NULL"
        found = query(f"SELECT * FROM read_parquet(?, file_row_number = true) WHERE file_row_number IN ({wanted})")
    by_place = {row.pop("file_row_number"): row for row in found}
    return [(place, by_place[place]) for place in places]


def count(path: Path) -> int:
    """Rows of a file or folder. Raises InputError."""
    if path.suffix != ".parquet":
        return len(read(path))
    with _parquet(path) as query:
        return int(query("SELECT count(*) AS rows FROM read_parquet(?)")[0]["rows"])


@contextmanager
def _parquet(path: Path) -> Iterator[Callable[[str], list[dict[str, Any]]]]:
    """Ask a Parquet file in SQL; the answer is rows. Raises InputError where it cannot be read."""
    import duckdb  # the score environment has none

    def query(sql: str) -> list[dict[str, Any]]:
        found = database.execute(sql, [str(path)])
        names = [column[0] for column in found.description or []]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    try:
        with duckdb.connect(":memory:") as database:
            yield query
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path} is no readable Parquet file: {reason}", "Fetch it again.") from error


def nested(value: object) -> Any:
    """A nested column: some files of a source hold it as it is, others as JSON text. Raises InputError for other
    text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except json.JSONDecodeError as error:
        raise InputError(f"a nested column holds no JSON: {value[:60]!r}", "Fetch the file again.") from error


def shuffled(rows: Sequence[T]) -> list[T]:
    """Rows in the order of `datasets.Dataset.shuffle(seed=42)`, which published splits are cut from."""
    from datasets import Dataset  # its import takes a second

    order = Dataset.from_dict({"row": range(len(rows))}).shuffle(seed=SHUFFLE_SEED)["row"]
    return [rows[place] for place in order]


def first_and_last(rows: Sequence[T], most: int = HELD_OUT) -> tuple[list[T], list[T]]:
    """Validation and test as FT-Dojo cuts them from a view: its first and last 100 rows (`most`), or halves where there
    are fewer than 200; the row in the middle of an odd number is in neither."""
    size = min(most, len(rows) // 2)
    return list(rows[:size]), list(rows[len(rows) - size :])


def published(rows: Sequence[T], most: int = HELD_OUT) -> dict[Literal["validation", "test"], list[T]]:
    """Validation and test of a view that FT-Dojo shuffles before it cuts them."""
    first, last = first_and_last(shuffled(rows), most)
    return {"validation": first, "test": last}
