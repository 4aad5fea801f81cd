"""The DuckDB file of one run: how it is opened, who may use it, and the one connection through which everybody speaks.

DuckDB wants one owner per file. `Database` makes sure of it: another process is refused, a forked child is refused,
and the threads of the owner take turns.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import duckdb

from memory.errors import RunBusyError, StorageError
from memory.layout import disk, locked, made

CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": False,  # SQL cannot read or write other files, nor attach other databases
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "threads": 1,  # rows come by the dozen; the cores belong to training
    "memory_limit": "1GB",
    "wal_autocheckpoint": "4MB",  # the default of 16 MB stalls a commit for up to half a second
    "lock_configuration": True,  # no statement can loosen the above; CHECKPOINT is not affected
}

BROKEN = (duckdb.IOException, duckdb.FatalException, duckdb.InternalException, duckdb.OutOfMemoryException)
"""What DuckDB raises when the machine refuses, not when a statement is wrong."""

LOCK = "run.lock"
GLANCE_SECONDS = 0.05
"""Longer than `is_held` keeps the lock; a process that begins in that instant must not take it for a holder."""

VERSIONS = "CREATE TABLE IF NOT EXISTS schema_version (name VARCHAR PRIMARY KEY, version INTEGER NOT NULL)"


@dataclass(frozen=True)
class Schema:
    """The tables of one owner. Migrations are numbered from 1 by their place and only ever appended."""

    name: str
    """Key in the table `schema_version`."""
    migrations: tuple[str, ...]
    """DDL, each possibly of several statements; run once, at open. No CREATE INDEX: a primary key is the only index."""


class Database:
    """The open database of a run, held by this process until `close`."""

    def __init__(self, path: Path, connection: duckdb.DuckDBPyConnection, lease: int) -> None:
        self.path = path
        self._connection = connection
        self._lease = lease
        self._owner = os.getpid()
        self._turn = threading.RLock()
        self._in_transaction = False
        self._closed = False

    @classmethod
    def open(cls, path: Path, schemas: Sequence[Schema]) -> Database:
        """Take the lease of the run, open its database (made if missing) and bring the tables of `schemas` up to date.

        Raises RunBusyError where another process holds the run, StorageError where the file cannot be read or was
        written by a newer version. Nothing is ever deleted or repaired here.
        """
        # DuckDB opens a second engine on the same file when it is reached through a symbolic link.
        path = Path(os.path.realpath(path))
        made(path.parent, 0o700)
        lease = _take_lease(path.parent)
        try:
            database = cls(path, _connect(path), lease)
        except BaseException:  # Ctrl-C, too: a lease that stays would lock the run for this process's life
            _release(lease)
            raise
        try:
            database._migrate(schemas)
        except BaseException:  # as above; closing gives the lease back
            database.close()
            raise
        return database

    @contextmanager
    def transaction(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Everything inside happens, or nothing does. Other threads wait. Fetch results before leaving.

        Transactions do not nest (RuntimeError). Raises StorageError where the disk is full or the file cannot be used.
        """
        with self._my_turn() as connection:
            if self._in_transaction:
                raise RuntimeError("a transaction is open already: pass its connection on instead")
            self._in_transaction = True
            try:
                connection.execute("BEGIN")
                yield connection
                self._commit()
            except BaseException:  # also one that is thrown into us while we yield: nothing half-done is kept
                # A failed commit has rolled back by itself, and a broken engine refuses: either way nothing was kept.
                with suppress(duckdb.Error):
                    connection.execute("ROLLBACK")
                raise
            finally:
                self._in_transaction = False

    def rows(self, sql: str, params: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """All rows of one statement, which commits by itself unless this thread has a transaction open."""
        with self._my_turn() as connection:
            return connection.execute(sql, params).fetchall()

    def checkpoint(self) -> None:
        """Fold the write-ahead log into the file; worth doing between phases. Raises StorageError."""
        self.rows("CHECKPOINT")

    def close(self) -> None:
        """Fold the log into the file and let go of the run. Closing twice is fine."""
        with self._turn:
            if self._closed:
                return
            self._refuse_child()
            self._closed = True
            try:
                self._connection.close()
            finally:
                _release(self._lease)

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _my_turn(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """The connection, for this thread alone; what the machine refuses becomes a StorageError."""
        self._refuse_child()
        with self._turn:
            if self._closed:
                raise RuntimeError(f"{self.path} is closed")
            try:
                yield self._connection
            except BROKEN as error:
                raise _cannot_use(self.path, error) from error

    def _commit(self) -> None:
        try:
            self._connection.execute("COMMIT")
        except duckdb.Error as error:  # a full disk shows as a TransactionException here
            raise _cannot_use(self.path, error) from error

    def _refuse_child(self) -> None:
        """A forked child that writes corrupts the log for both. It must start a process of its own instead."""
        if os.getpid() != self._owner:
            raise RuntimeError(f"{self.path} belongs to process {self._owner}, not to its forked child {os.getpid()}")

    def _migrate(self, schemas: Sequence[Schema]) -> None:
        self.rows(VERSIONS)
        stored: dict[str, int] = dict(self.rows("SELECT name, version FROM schema_version"))
        for schema in schemas:
            done, known = stored.get(schema.name, 0), len(schema.migrations)
            if done > known:
                raise StorageError(
                    f"{self.path} was written by a newer version ({schema.name} {done}, this one knows {known})",
                    "Open it with the version that wrote it, or a newer one.",
                )
            for number in range(done + 1, known + 1):
                with self.transaction() as connection:
                    connection.execute(schema.migrations[number - 1])
                    connection.execute("INSERT OR REPLACE INTO schema_version VALUES (?, ?)", [schema.name, number])
        # DuckDB has had bugs in replaying DDL from the log: leave none there.
        self.checkpoint()


def _take_lease(folder: Path) -> int:
    """Lock `run.lock` for this process; returns its descriptor. Raises RunBusyError.

    DuckDB locks the database itself, but with a POSIX record lock, which the kernel drops as soon as this process opens
    and closes the file in any other way (a copy, a hash, a download). A flock on a file that nobody else opens holds.
    """
    with disk(folder / LOCK):
        lease = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not locked(lease):
        time.sleep(GLANCE_SECONDS)  # it may have been a glance of `is_held`
    if not locked(lease):
        pid, _, host = os.pread(lease, 200, 0).decode(errors="replace").strip().partition(" ")
        os.close(lease)
        raise RunBusyError(
            f"run {folder.name} is in use by process {pid or '(starting)'} on {host or 'this machine'}",
            f"Wait until it ends, or stop it (kill {pid or 'PID'}), then try again.",
        )
    os.ftruncate(lease, 0)
    os.pwrite(lease, f"{os.getpid()} {socket.gethostname()}\n".encode(), 0)
    return lease


def is_held(folder: Path) -> bool:
    """Whether some process holds the run in this folder. The holder does not notice."""
    try:
        glance = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(glance, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(glance)
    return False


def _release(lease: int) -> None:
    """Unlock by name: a forked child may still hold the descriptor."""
    fcntl.flock(lease, fcntl.LOCK_UN)
    os.close(lease)


def _connect(path: Path) -> duckdb.DuckDBPyConnection:
    try:
        connection = duckdb.connect(str(path), config=CONFIG)
    except duckdb.Error as error:
        raise _cannot_open(path, error) from error
    os.chmod(path, 0o600)
    return connection


def _cannot_open(path: Path, error: duckdb.Error) -> StorageError:
    reason, log = _first_line(error), path.with_name(path.name + ".wal")
    if re.search(r"\bWAL\b", reason):
        return StorageError(
            f"cannot open {path}: its log {log} is damaged ({reason})",
            f"Nothing was changed. Keep a copy of both files; then move {log.name} out of the folder and resume: "
            "the run goes on from the last state that lies in the database itself.",
        )
    return StorageError(
        f"cannot open {path}: {reason}",
        "Nothing was changed. Check the file and the disk, or restore it from a backup.",
    )


def _cannot_use(path: Path, error: duckdb.Error) -> StorageError:
    reason = _first_line(error)
    full = "No space left" in reason or "Disk quota" in reason
    remedy = f"Free space on the disk of {path.parent}" if full else f"Check the disk of {path.parent}"
    return StorageError(
        f"cannot {'write' if full else 'use'} {path}: {reason}",
        f"{remedy}, then go on with --resume {path.parent.name}; everything committed before is kept.",
    )


def _first_line(error: duckdb.Error) -> str:
    return str(error).splitlines()[0]
