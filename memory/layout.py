"""Where the files of a run lie, and how they are written: whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from memory.errors import StorageError
from memory.records import Record

R = TypeVar("R", bound=Record)

NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP)
"""What the system answers where a file cannot have a second name."""


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run. Records hold paths relative to `root`, so that a run can be moved or forked."""

    root: Path

    @property
    def id(self) -> str:
        """The run's id: the folder's name."""
        return self.root.name

    @property
    def database(self) -> Path:
        """Checkpoints and ledger."""
        return self.root / "run.duckdb"

    @property
    def task(self) -> Path:
        """What the person asked for; a run killed before its first checkpoint begins again from it."""
        return self.root / "task.json"

    @property
    def events(self) -> Path:
        """What a viewer in another process follows live."""
        return self.root / "events.jsonl"

    @property
    def snapshot(self) -> Path:
        """The state at the last checkpoint, readable while another process holds the run."""
        return self.root / "state.json"

    @property
    def inbox(self) -> Path:
        """What people say to the run, until the process that holds it has read it."""
        return self.root / "inbox"

    @property
    def process_log(self) -> Path:
        """Output of a process that was started for the run by a page."""
        return self.root / "process.log"

    @property
    def data(self) -> Path:
        """Training and validation splits, and the manifest of all splits."""
        return self.root / "data"

    @property
    def sealed(self) -> Path:
        """The test split, mode 0700; only the final analyst reads it."""
        return self.root / "sealed"

    @property
    def baseline(self) -> Path:
        """Evaluations of the untouched model."""
        return self.root / "baseline"

    @property
    def server(self) -> Path:
        """Log and requests of the vLLM server."""
        return self.root / "server"

    @property
    def test(self) -> Path:
        """Evaluations on the sealed test."""
        return self.root / "test"

    @property
    def model(self) -> Path:
        """The winning weights and their card."""
        return self.root / "model"

    @property
    def samples(self) -> Path:
        """Graded outputs to training questions."""
        return self.root / "samples"

    @property
    def llm(self) -> Path:
        """Answers of language models, found again by what was asked, and what each call cost."""
        return self.root / "llm"

    @property
    def research(self) -> Path:
        """What was looked up in public catalogues before the first plan."""
        return self.root / "research.json"

    def guard(self, name: str) -> Path:
        """Items of a guard, and the untouched model's evaluations on them."""
        return self.root / "guards" / name

    def trial(self, number: int) -> Path:
        """The folder of trial `number`; made when asked for."""
        return made(self.root / "trials" / str(number))

    def relative(self, path: Path) -> str:
        """`path` as it stands in records."""
        return str(path.relative_to(self.root))

    def resolve(self, relative: str) -> Path:
        """The place of a path from a record."""
        return self.root / relative


def made(folder: Path, mode: int = 0o755) -> Path:
    """Make `folder` and its parents where missing. Raises StorageError where the disk refuses."""
    with disk(folder):
        folder.mkdir(mode=mode, parents=True, exist_ok=True)
    return folder


class disk:
    """Context in which an OSError of the file system becomes one clear StorageError about `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            raise StorageError(
                f"cannot write {self.path}: {reason}", "Free or change the place, then resume."
            ) from error


def locked(descriptor: int) -> bool:
    """Take the lock of an open file unless somebody holds it; whether it is ours now. It goes with the process."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def link_or_copy(source: Path, target: Path) -> None:
    """Give a file a second name; a copy where the file system cannot. Raises OSError, for `disk` to name."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        shutil.copy2(source, target)


def write_text(path: Path, text: str, mode: int = 0o644, *, durable: bool = True) -> None:
    """Write a file whole or not at all. Raises StorageError. What is not `durable`, because it can be made again, does
    not wait for the disk."""
    made(path.parent)
    partial = path.with_name(path.name + ".partial")
    with disk(path):
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        partial.replace(path)


def write_record(path: Path, record: Record) -> None:
    """Write one record as indented JSON. Raises StorageError."""
    write_text(path, record.model_dump_json(indent=2) + "\n")


def read_record(path: Path, kind: type[R]) -> R:
    """Read one record. Raises StorageError where the file is missing or is no such record."""
    try:
        return kind.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise StorageError(f"{path} is not a readable {kind.__name__}: {str(error).splitlines()[0]}") from error


def write_rows(path: Path, rows: Iterable[Record], mode: int = 0o644) -> None:
    """Write records as JSONL, whole or not at all. Raises StorageError."""
    write_text(path, "".join(row.model_dump_json() + "\n" for row in rows), mode)


def read_rows(path: Path, kind: type[R]) -> Iterator[R]:
    """Read JSONL records; a bad line is named by its number. Raises StorageError."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    yield kind.model_validate_json(line)
                except ValidationError as error:
                    raise StorageError(
                        f"{path} line {number} is no {kind.__name__}: {error.errors()[0]['msg']}"
                    ) from error
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error


def sha256_of(path: Path) -> str:
    """Hash of a file's content, hexadecimal. Raises StorageError."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error
