"""Files that a person uploads: taken for what their content is, of a size that can be read, and read once.

Nothing in them is executed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import duckdb

from graph.page.paging import Stamped, stamped
from memory.errors import InputError
from tools.own_task.files import READERS, RawRow, read_file

LARGEST_BYTES = 100 * 2**20
"""Of an uploaded file."""
MOST_ROWS = 200_000
"""Of an uploaded file; a training uses thousands."""
UNPACKED = 10
"""A Parquet file may unpack to so many times LARGEST_BYTES."""
LOOKED_AT = 65_536
"""Bytes that show what a file is."""
ENDINGS = tuple(READERS)
"""What the name of an upload may end in."""


@dataclass(frozen=True)
class Uploads:
    """The person's files, where the upload put them."""

    train: Path
    validation: Path | None = None
    test: Path | None = None

    def named(self) -> dict[str, Path]:
        """The files there are, by the key of a task file."""
        given = {"train": self.train, "validation": self.validation, "test": self.test}
        return {key: path for key, path in given.items() if path is not None}


def accept(path: Path) -> Path:
    """The upload, if it is what it claims to be: its size, and its kind by content. Raises InputError."""
    size, kind = path.stat().st_size, path.suffix.lower()
    if kind not in READERS:
        raise InputError(f"{path.name} is no data file that is known here", f"Known are {', '.join(READERS)}.")
    if size > LARGEST_BYTES:
        raise InputError(
            f"{path.name} has {size / 2**20:,.0f} MiB, more than {LARGEST_BYTES // 2**20}",
            "Take a part of it, or start from the command line with --task.",
        )
    with path.open("rb") as file:
        head = file.read(LOOKED_AT)
    if (found := _kind(head)) != (expected := _expected(kind)):
        raise InputError(f"{path.name} is named like {expected} and holds {found}", "Give it the name of its kind.")
    if kind == ".parquet":
        _check_parquet(path)
    return path


def _expected(kind: str) -> str:
    return "Parquet" if kind == ".parquet" else "CSV" if kind in (".csv", ".tsv") else "JSON"


def _kind(head: bytes) -> str:
    if head.startswith(b"PAR1"):
        return "Parquet"
    wide = head.startswith((b"\xff\xfe", b"\xfe\xff"))  # UTF-16, which the reader explains
    if not wide and (b"\0" in head or head.startswith((b"\x1f\x8b", b"PK\3\4", b"\x80"))):
        return "binary data"
    return "JSON" if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")) else "CSV"


def _check_parquet(path: Path) -> None:
    """A small Parquet file can unpack to any size; what it will be stands in its footer."""
    with duckdb.connect(":memory:") as database:
        try:
            found = database.execute(
                "SELECT (SELECT sum(num_rows) FROM parquet_file_metadata($1)), "
                "(SELECT sum(total_uncompressed_size) FROM parquet_metadata($1))",
                [str(path)],
            ).fetchone()
        except duckdb.Error as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"{path.name} is no readable Parquet file: {reason}", "Write the file again.") from error
    rows, size = (int(value or 0) for value in found or (0, 0))
    if rows > MOST_ROWS or size > UNPACKED * LARGEST_BYTES:
        raise InputError(
            f"{path.name} unpacks to {rows:,} rows and {size / 2**20:,.0f} MiB",
            f"Take a part of it: {MOST_ROWS:,} rows and {UNPACKED * LARGEST_BYTES // 2**20:,} MiB at most.",
        )


@lru_cache(maxsize=1)
def _rows(file: Stamped) -> tuple[RawRow, ...]:
    rows = tuple(read_file(file.path))
    if len(rows) > MOST_ROWS:
        raise InputError(f"{file.path.name} has {len(rows):,} rows, more than {MOST_ROWS:,}", "Take a part of it.")
    return rows


def rows(path: Path) -> tuple[RawRow, ...]:
    """All rows of an upload. Raises InputError for what cannot be read, and for too many."""
    return _rows(stamped(path))


def columns(path: Path) -> list[str]:
    """The columns of an upload. Raises InputError."""
    return list(rows(path)[0].values)
