"""The database of a run keeps what it acknowledged, and lets nobody in who would spoil it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest
from duckdb import DuckDBPyConnection

from memory.database import Database, Schema, is_held
from memory.errors import RunBusyError, StorageError
from tests.conftest import MakeDisk

NOTES = Schema("notes", ("CREATE TABLE notes (id INTEGER PRIMARY KEY, text VARCHAR)",))
ROOT = Path(__file__).parents[1]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run-7" / "run.duckdb"


def note(database: Database, number: int, text: str = "x") -> None:
    with database.transaction() as connection:
        connection.execute("INSERT INTO notes VALUES (?, ?)", [number, text])


def python(path: Path, code: str) -> list[str]:
    """The command that runs `code` in a process of its own, with `Database`, `NOTES` and `path` at hand."""
    head = f"""
import os
from pathlib import Path
from memory.database import Database, Schema
NOTES = {NOTES!r}
path = Path({str(path)!r})
"""
    return [sys.executable, "-c", head + code]


def in_child(path: Path, code: str) -> str:
    """Run `code` in a process of its own; returns the last line it printed as an error."""
    child = subprocess.run(python(path, code), cwd=ROOT, capture_output=True, text=True, timeout=60)
    return (child.stderr.strip().splitlines() or [""])[-1]


# --- Keeping ---


def test_what_was_committed_is_there_after_reopening(path: Path) -> None:
    with Database.open(path, [NOTES]) as database:
        note(database, 1, "kept")
    with Database.open(path, [NOTES]) as database:
        assert database.rows("SELECT * FROM notes") == [(1, "kept")]


def test_closing_folds_the_log_into_the_file(path: Path) -> None:
    database = Database.open(path, [NOTES])
    note(database, 1)
    assert path.with_name("run.duckdb.wal").exists()
    database.close()
    assert not path.with_name("run.duckdb.wal").exists()
    database.close()


def test_a_checkpoint_folds_the_log_under_the_locked_configuration(path: Path) -> None:
    with Database.open(path, [NOTES]) as database:
        note(database, 1)
        database.checkpoint()
        wal = path.with_name("run.duckdb.wal")
        assert not wal.exists() or wal.stat().st_size == 0


def test_acknowledged_commits_survive_kill_9(path: Path) -> None:
    code = """
database = Database.open(path, [NOTES])
for number in range(100000):
    with database.transaction() as connection:
        connection.execute("INSERT INTO notes VALUES (?, ?)", [number, "x" * 500])
    print(number, flush=True)
"""
    for _ in range(2):
        child = subprocess.Popen(python(path, code), cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        acknowledged = [int(child.stdout.readline()) for _ in range(40)]
        child.send_signal(signal.SIGKILL)
        acknowledged += [int(line) for line in child.stdout.read().split()]
        child.wait()
        with Database.open(path, [NOTES]) as database:
            kept = [row[0] for row in database.rows("SELECT id FROM notes ORDER BY id")]
            assert kept[: len(acknowledged)] == acknowledged
            assert len(kept) <= len(acknowledged) + 1
            database.rows("DELETE FROM notes")


# --- All or nothing ---


def half(database: Database, then: Callable[[DuckDBPyConnection], object]) -> None:
    with database.transaction() as connection:
        connection.execute("INSERT INTO notes VALUES (1, 'half')")
        then(connection)


def fail_with(error: type[BaseException]) -> None:
    raise error


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_transaction_that_fails_leaves_nothing(path: Path, error: type[BaseException]) -> None:
    with Database.open(path, [NOTES]) as database:
        with pytest.raises(error):
            half(database, lambda _: fail_with(error))
        assert database.rows("SELECT * FROM notes") == []
        note(database, 1, "whole")
        assert database.rows("SELECT * FROM notes") == [(1, "whole")]


def test_a_wrong_statement_rolls_back_what_came_before_it(path: Path) -> None:
    with Database.open(path, [NOTES]) as database:
        note(database, 2)
        with pytest.raises(duckdb.ConstraintException):
            half(database, lambda connection: connection.execute("INSERT INTO notes VALUES (2, 'again')"))
        assert database.rows("SELECT id FROM notes") == [(2,)]


def test_transactions_do_not_nest_and_the_outer_one_is_rolled_back(path: Path) -> None:
    with Database.open(path, [NOTES]) as database:
        with pytest.raises(RuntimeError, match="open already"):
            half(database, lambda _: note(database, 2))
        assert database.rows("SELECT * FROM notes") == []


def test_rows_inside_a_transaction_see_it_and_other_threads_wait(path: Path) -> None:
    with Database.open(path, [NOTES]) as database, ThreadPoolExecutor(1) as other:
        with database.transaction() as connection:
            connection.execute("INSERT INTO notes VALUES (1, 'mine')")
            assert database.rows("SELECT count(*) FROM notes") == [(1,)]
            waiting = other.submit(database.rows, "SELECT text FROM notes")
            assert not waiting.done()
            connection.execute("UPDATE notes SET text = 'done'")
        assert waiting.result(timeout=10) == [("done",)]


# --- Owners ---


def test_another_process_is_refused_and_told_who_holds_the_run(path: Path) -> None:
    with Database.open(path, [NOTES]) as database:
        note(database, 1)
        last = in_child(path, "Database.open(path, [NOTES])")
        assert "RunBusyError" in last
        assert f"run run-7 is in use by process {os.getpid()}" in last
        assert "Wait until it ends" in last


def test_the_lease_holds_after_the_file_was_copied(path: Path, tmp_path: Path) -> None:
    """Opening and closing the file drops DuckDB's own lock; a second owner would lose rows without an error."""
    with Database.open(path, [NOTES]) as database:
        note(database, 1)
        (tmp_path / "copy").write_bytes(path.read_bytes())
        assert "RunBusyError" in in_child(path, "Database.open(path, [NOTES])")


def test_a_second_opening_through_a_symbolic_link_is_refused(path: Path, tmp_path: Path) -> None:
    with Database.open(path, [NOTES]):
        link = tmp_path / "link"
        link.symlink_to(path.parent)
        with pytest.raises(RunBusyError):
            Database.open(link / "run.duckdb", [NOTES])
        other = tmp_path / "elsewhere.duckdb"
        other.symlink_to(path)
        with pytest.raises(RunBusyError):
            Database.open(other, [NOTES])


def test_the_run_is_free_after_close_after_a_failure_and_after_a_crash(path: Path) -> None:
    with pytest.raises(ZeroDivisionError), Database.open(path, [NOTES]):
        raise ZeroDivisionError
    in_child(path, "Database.open(path, [NOTES]); os.kill(os.getpid(), 9)")
    with pytest.raises(duckdb.ParserException):
        Database.open(path, [Schema("bad", ("NONSENSE",))])
    Database.open(path, [NOTES]).close()


def use_in_child(database: Database, answers: multiprocessing.queues.Queue[str]) -> None:
    for use in (lambda: note(database, 2), lambda: database.rows("SELECT 1"), database.checkpoint, database.close):
        try:
            use()
            answers.put("went through")
        except RuntimeError as error:
            answers.put(str(error))


def test_a_forked_child_is_refused_and_does_no_harm(path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    answers = fork.Queue()
    with Database.open(path, [NOTES]) as database:
        note(database, 1)
        child = fork.Process(target=use_in_child, args=(database, answers))
        child.start()
        said = [answers.get(timeout=20) for _ in range(4)]
        child.join(20)
        assert all(f"belongs to process {os.getpid()}" in each for each in said), said
        note(database, 3)
    with Database.open(path, [NOTES]) as database:
        assert database.rows("SELECT id FROM notes ORDER BY id") == [(1,), (3,)]


def test_files_are_for_their_owner_alone(path: Path) -> None:
    with Database.open(path, [NOTES]):
        assert path.stat().st_mode & 0o777 == 0o600
        assert (path.parent / "run.lock").stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('/etc/hostname')",
        "COPY (SELECT 1) TO '/tmp/out.csv'",
        "ATTACH '/tmp/other.duckdb'",
        "SET memory_limit = '8GB'",
        "INSTALL httpfs",
    ],
)
def test_sql_reaches_no_other_file_and_cannot_change_that(path: Path, sql: str) -> None:
    with Database.open(path, [NOTES]) as database, pytest.raises((duckdb.Error, StorageError)):
        database.rows(sql)


def test_a_closed_database_says_so(path: Path) -> None:
    database = Database.open(path, [NOTES])
    database.close()
    with pytest.raises(RuntimeError, match="closed"):
        database.rows("SELECT 1")


# --- Schemas ---


def test_migrations_run_once_each_in_order_and_keep_the_rows(path: Path) -> None:
    with Database.open(path, [NOTES]) as database:
        note(database, 1, "old")
    grown = Schema("notes", (*NOTES.migrations, "ALTER TABLE notes ADD COLUMN stars INTEGER DEFAULT 0"))
    other = Schema("other", ("CREATE TABLE other (id INTEGER); INSERT INTO other VALUES (7)",))
    for _ in range(2):
        with Database.open(path, [grown, other]) as database:
            assert database.rows("SELECT * FROM notes") == [(1, "old", 0)]
            assert database.rows("SELECT * FROM other") == [(7,)]
            assert database.rows("FROM schema_version ORDER BY name") == [("notes", 2), ("other", 1)]


def test_a_migration_that_fails_leaves_no_trace(path: Path) -> None:
    broken = Schema("notes", ("CREATE TABLE notes (id INTEGER); CREATE TABLE notes (id INTEGER)",))
    with pytest.raises(duckdb.CatalogException):
        Database.open(path, [broken])
    with Database.open(path, []) as database:
        assert database.rows("FROM schema_version") == []
        assert database.rows("SELECT table_name FROM duckdb_tables()") == [("schema_version",)]


def test_a_file_of_a_newer_version_is_refused(path: Path) -> None:
    newer = Schema("notes", (*NOTES.migrations, "ALTER TABLE notes ADD COLUMN stars INTEGER"))
    Database.open(path, [newer]).close()
    with pytest.raises(StorageError, match=r"newer version \(notes 2, this one knows 1\)"):
        Database.open(path, [NOTES])
    Database.open(path, [newer]).close()


# --- Trouble ---


def crash_with_log(path: Path) -> Path:
    """A database whose owner died with commits in the log."""
    code = """
database = Database.open(path, [NOTES])
for number in range(20):
    database.rows("INSERT INTO notes VALUES (?, ?)", [number, "x" * 400])
os.kill(os.getpid(), 9)
"""
    in_child(path, code)
    log = path.with_name("run.duckdb.wal")
    assert log.stat().st_size > 5000
    return log


def test_a_damaged_log_is_named_and_kept(path: Path) -> None:
    log = crash_with_log(path)
    content = bytearray(log.read_bytes())
    place = content.index(b"x" * 400) + 100
    content[place] ^= 1
    log.write_bytes(content)
    with pytest.raises(StorageError) as caught:
        Database.open(path, [NOTES])
    assert str(path) in caught.value.message
    assert str(log) in caught.value.message
    assert "Keep a copy of both files" in caught.value.way_out
    assert log.read_bytes() == content
    log.rename(log.with_suffix(".aside"))
    with Database.open(path, [NOTES]) as database:
        assert database.rows("SELECT count(*) FROM notes") == [(0,)]


def test_a_torn_end_of_the_log_costs_the_last_commit_at_most(path: Path) -> None:
    log = crash_with_log(path)
    os.truncate(log, log.stat().st_size - 10)
    with Database.open(path, [NOTES]) as database:
        assert database.rows("SELECT count(*) FROM notes") == [(19,)]


def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"something else" * 1000)
    with pytest.raises(StorageError, match="not a valid DuckDB database"):
        Database.open(path, [NOTES])
    assert path.read_bytes() == b"something else" * 1000


def test_a_folder_that_cannot_be_made_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot write"):
        Database.open(tmp_path / "file" / "run" / "run.duckdb", [NOTES])


def fill(database: Database, acknowledged: list[int]) -> None:
    """Store pairs of notes until the disk refuses."""
    for number in range(0, 1000, 2):
        with database.transaction() as connection:
            connection.execute("INSERT INTO notes VALUES (?, ?)", [number, os.urandom(6000).hex()])
            connection.execute("INSERT INTO notes VALUES (?, ?)", [number + 1, os.urandom(6000).hex()])
        acknowledged += [number, number + 1]


def test_a_full_disk_is_named_and_what_was_committed_stays(small_disk: MakeDisk) -> None:
    disk = small_disk("3m")
    path = disk.path / "run-7" / "run.duckdb"
    acknowledged: list[int] = []
    with Database.open(path, [NOTES]) as database:
        with pytest.raises(StorageError) as caught:
            fill(database, acknowledged)
        assert "No space left" in caught.value.message
        assert str(path) in caught.value.message
        assert "--resume run-7" in caught.value.way_out
        assert database.rows("SELECT count(*) FROM notes") == [(len(acknowledged),)]
        with pytest.raises(StorageError, match="No space left"):
            database.checkpoint()
    disk.grow("60m")
    with Database.open(path, [NOTES]) as database:
        assert len(acknowledged) > 50
        assert [row[0] for row in database.rows("SELECT id FROM notes ORDER BY id")] == acknowledged
        note(database, 5000)


def test_whether_a_run_is_held_is_seen_and_disturbs_nobody(tmp_path: Path) -> None:
    path = tmp_path / "run.duckdb"
    assert not is_held(tmp_path)
    done = threading.Event()

    def look() -> None:
        while not done.wait(0.001):
            is_held(tmp_path)

    onlooker = threading.Thread(target=look)
    onlooker.start()
    try:
        for _ in range(30):
            with Database.open(path, [NOTES]):
                assert is_held(tmp_path)
    finally:
        done.set()
        onlooker.join()
    assert not is_held(tmp_path)
