"""Environments of other lock files: they stay in the cache, gigabytes each, until somebody asks to remove them.

Another checkout may still name them, so nothing is removed unasked, and never one that is in use: whoever uses an
environment holds a lock on its marker, and a set-up at work on one holds the lock beside it.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from memory.errors import SetupError

NAME = re.compile(r"[a-z]+-[0-9a-f]{12}")
MARKER = "ready.json"
"""Says that the environment in its folder is whole."""
COMMAND = "python -m tools.engines.setup --prune"


@dataclass(frozen=True)
class Leftover:
    """An environment that no lock file of this checkout names."""

    folder: Path
    bytes: int | None
    """Disk space of its files, as its marker says; None where the install is not whole."""

    def __str__(self) -> str:
        return f"{self.folder.name} ({'half-finished' if self.bytes is None else gigabytes(self.bytes)})"


def claim(folder: Path) -> bool:
    """Keep an environment from being removed for as long as this process lives. False where it is just being removed.

    The descriptor stays open on purpose; children do not inherit it.
    """
    try:
        marker = os.open(folder / MARKER, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(marker, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(marker)
        return False
    return os.fstat(marker).st_nlink > 0


def leftovers(cache: Path, named: Collection[str]) -> list[Leftover]:
    """The cache's environments that are not `named`, by name."""
    folders = sorted((cache / "envs").glob("*-*/"))
    return [
        Leftover(folder, _marked_bytes(folder))
        for folder in folders
        if NAME.fullmatch(folder.name) and folder.name not in named
    ]


def advice(cache: Path, named: Collection[str], command: str = COMMAND) -> str | None:
    """One line about the leftovers with the command that removes them; None where there are none."""
    found = leftovers(cache, named)
    if not found:
        return None
    which = ", ".join(map(str, found))
    return f"no longer needed by this checkout: {which}; to remove them: {command}"


def prune(cache: Path, named: Collection[str], say: Callable[[str], None]) -> None:
    """Remove the leftovers that nobody uses, with a line for each. Raises SetupError where the disk refuses."""
    found = leftovers(cache, named)
    if not found:
        say(f"every environment in {cache} belongs to this checkout")
    shared = 0
    for leftover in found:
        with ExitStack() as locks:
            reason = _in_use(leftover.folder, locks)
            if reason is not None:
                say(f"kept {leftover}: {reason}")
                continue
            freed, elsewhere = _disk_bytes(leftover.folder)
            shared += elsewhere
            _remove(leftover.folder)
            say(f"removed {leftover}; {gigabytes(freed)} came free")
    if shared >= 50_000_000:
        say(f"{gigabytes(shared)} of it are in other environments or in uv's cache as well: python -m uv cache clean")


def gigabytes(count: int) -> str:
    """A number of bytes in words."""
    return f"{count / 1e9:.1f} GB"


def _marked_bytes(folder: Path) -> int | None:
    try:
        return int(json.loads((folder / MARKER).read_text())["bytes"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def _in_use(folder: Path, locks: ExitStack) -> str | None:
    """Who uses an environment, in words; None where nobody does, and nobody can begin until `locks` is closed."""
    marker = folder / MARKER
    beside = folder.with_name(f"{folder.name}.lock")
    for path, holder in ((beside, "a set-up is at work on it"), (marker, "a run is using it")):
        if path == marker and not marker.exists():
            continue
        try:
            fcntl.flock(locks.enter_context(path.open("a")), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return holder
    users = _processes_of(folder)
    return f"process {users[0]} is using it" if users else None


def _processes_of(folder: Path) -> list[int]:
    """Processes that were started from an environment or have a library of it loaded: also those of a checkout that
    takes no lock, and of a person who calls its Python."""
    names = {os.fsencode(path) + b"/" for path in (folder, folder.resolve())}
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        for file in ("cmdline", "maps"):
            try:
                content = (process / file).read_bytes()
            except OSError:
                continue  # it has ended, or is somebody else's
            if any(name in content for name in names):
                found.append(int(process.name))
                break
    return found


def _remove(folder: Path) -> None:
    """Remove an environment, its marker first. The lock beside it stays: a set-up may be waiting for it."""
    try:
        (folder / MARKER).unlink(missing_ok=True)
        shutil.rmtree(folder)
        for log in (f"{folder.name}.log", f"{folder.name}.verify.log"):
            folder.with_name(log).unlink(missing_ok=True)
    except OSError as error:
        raise SetupError(f"cannot remove {error.filename}: {error.strerror}", f"Remove {folder} by hand") from error


def _disk_bytes(folder: Path) -> tuple[int, int]:
    """Disk space of a folder's files: of those that it holds alone, and of those that have names elsewhere, too."""
    alone, shared = 0, 0
    names: dict[int, int] = {}
    for place, _, files in os.walk(folder):
        for file in files:
            status = os.lstat(os.path.join(place, file))
            names[status.st_ino] = names.get(status.st_ino, 0) + 1
            if names[status.st_ino] == 1:
                shared += status.st_blocks * 512
            if names[status.st_ino] == status.st_nlink:
                shared -= status.st_blocks * 512
                alone += status.st_blocks * 512
    return alone, shared
