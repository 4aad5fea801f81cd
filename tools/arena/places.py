"""Names and paths that an agent gives, turned into places inside its session's folder and nowhere else."""

from __future__ import annotations

import re
from pathlib import Path

from memory.errors import InputError

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


def named(folder: Path, name: str) -> Path:
    """The file of a data set. Raises InputError for what is no name."""
    if not NAME.fullmatch(name):
        raise InputError(
            f"{name[:80]!r} cannot name a data set", "Take small letters, digits, - and _; at most 64 of them."
        )
    return folder / f"{name}.jsonl"


def inside(folder: Path, relative: str) -> Path:
    """A file that is there, given relative to `folder`. Raises InputError for one that is elsewhere, also by a link."""
    root = folder.resolve()
    place = (root / relative).resolve()
    if not place.is_relative_to(root):
        raise InputError(f"{relative[:80]!r} lies outside {folder.name}/", "Name a file that lies in it.")
    if not place.is_file():
        raise InputError(f"there is no file {relative[:80]!r} in {folder.name}/", "Put it there first.")
    return place
