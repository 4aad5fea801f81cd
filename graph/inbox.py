"""The letter box of a run: what people say to it from any process, until the one that holds the run has read it.

A letter is a small file, written whole or not at all. What it said stands in the run's checkpoints afterwards; nothing
but letters that are still to be read lies here.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memory.errors import InputError, StorageError
from memory.layout import RunFolder, disk, made, read_record, write_record
from memory.records import Record


class Letter(Record):
    """Something that a person said."""

    at: float
    """Unix time in seconds; no two letters of a run have the same."""
    text: str
    """Known to be understood."""
    answers: str = ""
    """Of a yes or no: the subject of the question. Empty for what is said unasked."""


class Posted(Record):
    """A letter and where it lies."""

    path: Path
    letter: Letter


def drop(folder: RunFolder, text: str, answers: str = "") -> Posted:
    """Put a letter into the box. Of two answers to one question the first counts.

    Raises InputError where an answer to that question lies there already, and StorageError.
    """
    made(folder.inbox, 0o700)
    with _turn(folder):
        lying = letters(folder)
        if answers and (earlier := [one.letter for one in lying if one.letter.answers == answers]):
            said = earlier[0].text
            raise InputError(f"that question has been answered already: '{said}'", "The first answer counts.")
        letter = Letter(at=max([time.time(), *(one.letter.at + 1e-3 for one in lying)]), text=text, answers=answers)
        number = 1 + max((int(one.path.stem) for one in lying), default=0)
        posted = Posted(path=folder.inbox / f"{number:06}.json", letter=letter)
        write_record(posted.path, letter)
    return posted


def letters(folder: RunFolder) -> list[Posted]:
    """The letters that lie there, oldest first. Raises StorageError for one that cannot be read."""
    found = []
    for path in sorted(folder.inbox.glob("[0-9]*.json")):
        try:
            found.append(Posted(path=path, letter=read_record(path, Letter)))
        except StorageError:
            if path.exists():  # else it was read and thrown away meanwhile
                raise
    return found


def remove(posted: Posted) -> None:
    """Throw a letter away that has been read. Raises StorageError."""
    with disk(posted.path):
        posted.path.unlink(missing_ok=True)


@contextmanager
def _turn(folder: RunFolder) -> Iterator[None]:
    """One writer at a time."""
    with disk(folder.inbox):
        lock = os.open(folder.inbox / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
