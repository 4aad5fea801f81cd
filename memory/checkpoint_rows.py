"""The three tables in which checkpoints lie, and the SQL that reads, writes and sweeps their rows.

A checkpoint's channel values lie apart from it, one row per channel and version, so that a value that did not change
is stored once. The checkpoint itself and its metadata are JSON, to be read in plain SQL. `checkpointer.py` gives the
rows their meaning; nothing here knows LangGraph.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import duckdb
from duckdb import DuckDBPyConnection

from memory.database import Database, Schema

CHECKPOINT_SCHEMA = Schema(
    "checkpoints",
    (
        """
        CREATE TABLE checkpoints (
            thread_id VARCHAR, checkpoint_ns VARCHAR, checkpoint_id VARCHAR,
            parent_checkpoint_id VARCHAR,
            checkpoint JSON,
            metadata JSON,
            PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id)
        );
        CREATE TABLE checkpoint_blobs (
            thread_id VARCHAR, checkpoint_ns VARCHAR, channel VARCHAR, version VARCHAR,
            kind VARCHAR,
            value BLOB,
            PRIMARY KEY (thread_id, checkpoint_ns, channel, version)
        );
        CREATE TABLE checkpoint_writes (
            thread_id VARCHAR, checkpoint_ns VARCHAR, checkpoint_id VARCHAR, task_id VARCHAR, idx INTEGER,
            task_path VARCHAR,
            channel VARCHAR,
            kind VARCHAR,
            value BLOB,
            PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
        );
        """,
    ),
)

Key = tuple[str, ...]
CHECKPOINT_KEY = ("thread_id", "checkpoint_ns", "checkpoint_id")
EMPTY = "empty"
"""The `kind` of a blob that says that its channel held nothing."""
PAGE = 64
"""Ancestors read at once while walking back."""
BLOB_KEY = ("thread_id", "checkpoint_ns", "channel", "version")


class CheckpointRow(NamedTuple):
    """One checkpoint, without the values of its channels."""

    thread_id: str
    checkpoint_ns: str
    """Empty for the graph itself; a path for a subgraph."""
    checkpoint_id: str
    """Sorts by time."""
    parent_checkpoint_id: str | None
    """None at the root."""
    checkpoint: str
    """JSON; `channel_versions` names the blobs."""
    metadata: str
    """JSON."""

    @property
    def key(self) -> Key:
        """Under `CHECKPOINT_KEY`."""
        return self[:3]

    def blob_keys(self, channels: Collection[str] | None = None) -> dict[str, Key]:
        """Channel to key under `BLOB_KEY`, for all channels or those asked for."""
        versions: dict[str, object] = json.loads(self.checkpoint)["channel_versions"]
        return {
            channel: (self.thread_id, self.checkpoint_ns, channel, str(version))
            for channel, version in versions.items()
            if channels is None or channel in channels
        }


class BlobRow(NamedTuple):
    """The value of one channel at one version."""

    thread_id: str
    checkpoint_ns: str
    channel: str
    version: str
    kind: str
    """How `value` is encoded; `EMPTY` where the channel held nothing at this version."""
    value: bytes


class WriteRow(NamedTuple):
    """What one task wrote to one channel in the step that follows its checkpoint."""

    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str
    task_id: str
    idx: int
    """Place among the task's writes; negative for the special channels, which have one place each."""
    task_path: str
    channel: str
    kind: str
    value: bytes


class Stored(NamedTuple):
    """A checkpoint and what belongs to it."""

    row: CheckpointRow
    blobs: dict[str, BlobRow]
    """By channel; channels that hold nothing are left out."""
    writes: list[WriteRow]
    """In the order in which a live run applies them."""


Row = TypeVar("Row", CheckpointRow, BlobRow, WriteRow)
TABLES: dict[type, str] = {
    CheckpointRow: "checkpoints",
    BlobRow: "checkpoint_blobs",
    WriteRow: "checkpoint_writes",
}
Batch = tuple[str, Sequence[CheckpointRow] | Sequence[BlobRow] | Sequence[WriteRow]]
"""Rows of one table, and what to do about those that are there already: REPLACE or IGNORE."""


def store(database: Database, batches: Sequence[Batch]) -> None:
    """Write all batches in one transaction. Raises StorageError.

    A plain INSERT costs a third of an upsert and conflicts are rare (a retry, a step taken again after a crash), so the
    upsert comes only after a conflict.
    """
    try:
        with database.transaction() as connection:
            for _, rows in batches:
                _insert(connection, "INSERT", rows)
    except duckdb.ConstraintException:
        with database.transaction() as connection:
            for on_conflict, rows in batches:
                _insert(connection, f"INSERT OR {on_conflict}", rows)


def _insert(connection: DuckDBPyConnection, verb: str, rows: Sequence[tuple[object, ...]]) -> None:
    if rows:
        place = f"({', '.join('?' * len(rows[0]))})"
        sql = f"{verb} INTO {TABLES[type(rows[0])]} VALUES {', '.join([place] * len(rows))}"
        connection.execute(sql, [value for row in rows for value in row])


def find(
    connection: DuckDBPyConnection,
    *,
    thread_id: str | None = None,
    checkpoint_ns: str | None = None,
    checkpoint_id: str | None = None,
    before: str | None = None,
    limit: int | None = None,
) -> list[CheckpointRow]:
    """Checkpoints that meet all given conditions, newest first."""
    conditions = {
        "thread_id = ?": thread_id,
        "checkpoint_ns = ?": checkpoint_ns,
        "checkpoint_id = ?": checkpoint_id,
        "checkpoint_id < ?": before,
    }
    given = {sql: value for sql, value in conditions.items() if value is not None}
    sql = f"SELECT * FROM checkpoints WHERE {' AND '.join(['TRUE', *given])} ORDER BY checkpoint_id DESC LIMIT ?"
    return [CheckpointRow(*row) for row in connection.execute(sql, [*given.values(), limit]).fetchall()]


def load(
    connection: DuckDBPyConnection, rows: Sequence[CheckpointRow], channels: Collection[str] | None = None
) -> list[Stored]:
    """`rows` with what belongs to them, for all channels or those asked for; two queries, however many rows."""
    named = {key for row in rows for key in row.blob_keys(channels).values()}
    blobs = {blob[:4]: blob for blob in _select(connection, BlobRow, BLOB_KEY, named) if blob.kind != EMPTY}
    writes: dict[Key, list[WriteRow]] = {row.key: [] for row in rows}
    for write in _select(connection, WriteRow, CHECKPOINT_KEY, writes, "ORDER BY task_path, task_id, idx"):
        writes[write[:3]].append(write)
    return [
        Stored(
            row,
            {channel: blobs[key] for channel, key in row.blob_keys(channels).items() if key in blobs},
            writes[row.key],
        )
        for row in rows
    ]


def ancestors(
    connection: DuckDBPyConnection, row: CheckpointRow, channels: Collection[str] | None = None
) -> Iterator[Stored]:
    """The ancestors of `row`, nearest first, read page by page, for most walks end early."""
    chain = _lineage(connection, row)[1:]
    for start in range(0, len(chain), PAGE):
        page = chain[start : start + PAGE]
        found = {each.key: each for each in _select(connection, CheckpointRow, CHECKPOINT_KEY, page)}
        yield from load(connection, [found[key] for key in page], channels)


def _lineage(connection: DuckDBPyConnection, row: CheckpointRow) -> list[Key]:
    """Keys of `row` and its ancestors, nearest first."""
    sql = "SELECT checkpoint_id, parent_checkpoint_id FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ?"
    parents: dict[str, str | None] = dict(connection.execute(sql, row.key[:2]).fetchall())
    chain: list[Key] = []
    current: str | None = row.checkpoint_id
    # Taken out as they are visited, so that a checkpoint stored again under its own descendant ends the walk.
    while current is not None and current in parents:
        chain.append((*row.key[:2], current))
        current = parents.pop(current)
    return chain


def copy_thread(connection: DuckDBPyConnection, source: str, target: str) -> None:
    """All rows of one thread once more, under another id."""
    for table in TABLES.values():
        sql = f"INSERT OR REPLACE INTO {table} SELECT ?, * EXCLUDE (thread_id) FROM {table} WHERE thread_id = ?"
        connection.execute(sql, [target, source])


def store_under(database: Database, thread_id: str, chain: Sequence[Stored]) -> None:
    """Write these checkpoints and what belongs to them under another thread id. Raises StorageError."""
    blobs = {blob[:4]: blob for stored in chain for blob in stored.blobs.values()}
    batches: list[Batch] = [
        ("REPLACE", [stored.row._replace(thread_id=thread_id) for stored in chain]),
        ("REPLACE", [blob._replace(thread_id=thread_id) for blob in blobs.values()]),
        ("REPLACE", [write._replace(thread_id=thread_id) for stored in chain for write in stored.writes]),
    ]
    store(database, batches)


def delete_thread(connection: DuckDBPyConnection, thread_id: str) -> None:
    """Everything of one thread."""
    for table in TABLES.values():
        connection.execute(f"DELETE FROM {table} WHERE thread_id = ?", [thread_id])


def delete_checkpoints(connection: DuckDBPyConnection, keys: Collection[Key]) -> None:
    """These checkpoints, their writes, and the blobs that no remaining checkpoint of the thread names.

    Writes go by checkpoint, not by being orphans: a live run may store writes before their checkpoint.
    """
    _delete(connection, CheckpointRow, CHECKPOINT_KEY, keys)
    _delete(connection, WriteRow, CHECKPOINT_KEY, keys)
    for thread_id in {key[0] for key in keys}:
        named = {key for row in find(connection, thread_id=thread_id) for key in row.blob_keys().values()}
        sql = f"SELECT {', '.join(BLOB_KEY)} FROM checkpoint_blobs WHERE thread_id = ?"
        _delete(connection, BlobRow, BLOB_KEY, set(connection.execute(sql, [thread_id]).fetchall()) - named)


def _select(
    connection: DuckDBPyConnection, kind: type[Row], columns: Key, keys: Collection[Key], order: str = ""
) -> list[Row]:
    """Rows whose `columns` are among `keys`, all in one query."""
    if not keys:
        return []
    sql = f"SELECT * FROM {TABLES[kind]} WHERE {_among(columns)} {order}"
    return [kind(*row) for row in connection.execute(sql, _columns(keys)).fetchall()]


def _delete(connection: DuckDBPyConnection, kind: type, columns: Key, keys: Collection[Key]) -> None:
    if keys:
        connection.execute(f"DELETE FROM {TABLES[kind]} WHERE {_among(columns)}", _columns(keys))


def _among(columns: Key) -> str:
    return f"({', '.join(columns)}) IN (SELECT {', '.join(['unnest(?)'] * len(columns))})"


def _columns(keys: Iterable[Key]) -> list[list[str]]:
    return [list(column) for column in zip(*keys, strict=True)]
