"""Data files of a person: JSONL, JSON, CSV and Parquet become rows; what cannot be read is named by row and place.

A row's number counts from 1: in JSONL it is the line, in a CSV file the header does not count.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from memory.errors import InputError

DELIMITERS = ",;\t|"
INDEX = "index"
"""Name of a first column without one: many programs write the row's number there."""
LOOKED_AT = 200
"""Records of a CSV file that decide about its delimiter."""
LONGEST_FIELD = 100_000_000
"""Characters; the csv module stops at 131,072 by itself, which a long document passes."""


class RawRow(NamedTuple):
    """A row as it stands in its file."""

    number: int
    values: dict[str, object]
    """Column to value: text in a CSV file, else whatever the format can hold."""


def read_file(path: Path) -> list[RawRow]:
    """All rows of a file. Raises InputError that names file, row and fix: for an unknown kind of file, one that cannot
    be read, is not UTF-8, or holds a malformed row, and for one without any row."""
    kind = path.suffix.lower()
    if kind not in READERS:
        known = ", ".join(READERS)
        raise InputError(f"{path.name} is no data file that is known here", f"Its name should end in one of: {known}.")
    try:
        rows = list(READERS[kind](path))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}", "Name a readable file.") from error
    if not rows:
        raise InputError(f"{path.name} holds no rows", "Name a file with one row for each question.")
    return rows


def text_of(path: Path) -> str:
    """A UTF-8 file as text, without a byte order mark. Raises InputError naming line and byte of what is not UTF-8."""
    data = path.read_bytes()
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InputError(f"{path.name} is UTF-16 text", f"Save it as UTF-8: iconv -f UTF-16 -t UTF-8 {path.name}")
    mark = len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0
    try:
        return data[mark:].decode("utf-8")
    except UnicodeDecodeError as error:
        at = mark + error.start
        line = data.count(b"\n", 0, at) + 1
        raise InputError(
            f"{path.name} is not UTF-8: line {line}, byte {at + 1} of the file is 0x{data[at]:02x}",
            f"Save it as UTF-8; if it comes from Windows: iconv -f WINDOWS-1252 -t UTF-8 {path.name}",
        ) from error


def _json_rows(path: Path) -> Iterator[RawRow]:
    """One object a line, or a single array of objects."""
    text = text_of(path)
    if text.lstrip().startswith("["):
        values = _json(text, path.name)
        yield from (RawRow(number, _object(value, path, number)) for number, value in enumerate(values, 1))
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield RawRow(number, _object(_json(line, f"{path.name} row {number}"), path, number))


def _json(text: str, where: str) -> list[object]:
    try:
        value: list[object] = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, character {error.colno}" if error.lineno > 1 else f"character {error.colno}"
        raise InputError(f"{where} is no JSON: {error.msg} at {place}", "Write one JSON object a line.") from error
    except (RecursionError, ValueError) as error:  # Python's own limits, for depth and for the digits of a number
        raise InputError(f"{where} is nested too deeply, or holds a number of thousands of digits") from error
    return value


def _object(value: object, path: Path, number: int) -> dict[str, object]:
    if not isinstance(value, dict):
        raise InputError(f"{path.name} row {number} is no JSON object", 'Write {"column": value, ...} a line.')
    return value


def _csv_rows(path: Path) -> Iterator[RawRow]:
    csv.field_size_limit(LONGEST_FIELD)
    text = text_of(path)
    delimiter = _delimiter(text)
    records = _records(text, delimiter, path)
    _, header = next(records, (1, []))
    names = [name.strip() or (INDEX if place == 0 else "") for place, name in enumerate(header)]
    if odd := [place for place, name in enumerate(names, 1) if not name]:
        raise InputError(f"{path.name}: column {odd[0]} of the header has no name", "Name every column in line 1.")
    if odd_names := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"{path.name}: two columns are called {odd_names[0]!r}", "Give each column its own name.")
    for number, (line, fields) in enumerate(records, 1):
        if len(fields) != len(names):
            raise InputError(
                f"{path.name} row {number} (line {line}) has {len(fields)} fields where the header has {len(names)}",
                f"Put quotes around texts that hold {delimiter!r}.",
            )
        yield RawRow(number, dict(zip(names, fields, strict=True)))


def _records(text: str, delimiter: str, path: Path) -> Iterator[tuple[int, list[str]]]:
    """The records of a CSV text with the lines on which they begin; empty lines are none. Raises InputError."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(
                f"{path.name} line {line} is malformed: {error}", 'Write a quote within a quoted text twice: "".'
            ) from error
        if fields:
            yield line, fields


def _delimiter(text: str) -> str:
    """The delimiter that cuts the most records into as many fields as the header, at least two; of equal ones the one
    that makes more columns. A file of one column has none."""

    def fit(delimiter: str) -> tuple[float, int]:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        try:
            widths = [len(fields) for fields, _ in zip(reader, range(LOOKED_AT + 1), strict=False) if fields]
        except csv.Error:
            return 0.0, 0
        if not widths or widths[0] < 2:
            return 0.0, 0
        return widths.count(widths[0]) / len(widths), widths[0]

    return max(DELIMITERS, key=fit)


def _parquet_rows(path: Path) -> Iterator[RawRow]:
    """Rows of a Parquet file, lists and structs included. DuckDB is imported here because the score environment, which
    revives own tasks, has none."""
    import duckdb

    with path.open("rb"):
        pass  # a missing file is an OSError, as for the other kinds
    pattern = re.sub(r"([*?\[])", r"[\1]", str(path))
    with duckdb.connect(":memory:") as database:
        try:
            found = database.execute("SELECT * FROM read_parquet(?)", [pattern])
            names = [column[0] for column in found.description or []]
            rows = found.fetchall()
        except duckdb.Error as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"{path.name} is no readable Parquet file: {reason}", "Write the file again.") from error
    for number, values in enumerate(rows, 1):
        yield RawRow(number, dict(zip(names, values, strict=True)))


READERS: dict[str, Callable[[Path], Iterator[RawRow]]] = {
    ".jsonl": _json_rows,
    ".ndjson": _json_rows,
    ".json": _json_rows,
    ".csv": _csv_rows,
    ".tsv": _csv_rows,
    ".parquet": _parquet_rows,
}
"""By the end of a file's name."""
