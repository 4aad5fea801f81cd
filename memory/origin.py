"""Where a forked run comes from: `origin.json` in its folder; a run that was started has none."""

from __future__ import annotations

from pathlib import Path

from memory.layout import RunFolder, read_record
from memory.records import Record


class Origin(Record):
    """The checkpoint that a run grew from, and what was changed there."""

    run: str
    checkpoint: str
    """The whole id."""
    happened: str
    """What had happened last at that checkpoint, in words."""
    edits: tuple[str, ...]
    """`key=value`, as the person wrote them."""

    def __str__(self) -> str:
        return ", ".join([f"{self.run}@{self.checkpoint}", *self.edits])


def origin_path(folder: RunFolder) -> Path:
    """Where the origin of a run stands."""
    return folder.root / "origin.json"


def read_origin(folder: RunFolder) -> Origin | None:
    """The origin of a forked run, or None for one that was started. Raises StorageError where it is no origin."""
    return read_record(origin_path(folder), Origin) if origin_path(folder).exists() else None
