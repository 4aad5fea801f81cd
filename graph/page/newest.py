"""The state of a run as it was last written, whoever is at work on it: read again only when it has changed."""

from __future__ import annotations

from functools import lru_cache

from graph.page.paging import Stamped, stamped
from graph.page.place import Place
from graph.snapshot import read_snapshot
from memory.errors import InputError
from memory.layout import RunFolder
from memory.state import State


def newest(place: Place, run: str | None) -> State:
    """The state of the run of this id; empty for one that has not begun. Raises InputError, StorageError."""
    folder = place.folder(run)
    return _read(folder, stamped(folder.snapshot)) if folder.snapshot.exists() else State()


@lru_cache(maxsize=8)
def _read(folder: RunFolder, file: Stamped) -> State:
    snapshot = read_snapshot(folder)
    if snapshot is None:
        raise InputError(f"{file.path.name} has gone", "Choose another run.")
    return snapshot.state
