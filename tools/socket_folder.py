"""A private folder for a server's socket; in the temporary directory, since a socket's path has at most 107 bytes."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

from memory.errors import ServerError

PREFIX = "tunewright-server-"
LONGEST_PATH = 107
"""Bytes; the address structure of unix(7) holds 108 with the closing zero."""


class SocketFolder:
    """A private folder for the socket. Its lock tells the living from folders whose owner was killed."""

    def __init__(self) -> None:
        remove_abandoned()
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        self.socket = self.path / "s"
        self._lock = os.open(self.path / "lock", os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if len(os.fsencode(self.socket)) > LONGEST_PATH:
            self.remove()
            raise ServerError(f"the path {self.socket} is too long for a socket", "Set TMPDIR to a short folder")

    def remove(self) -> None:
        """Remove the folder; may be called again."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def remove_abandoned() -> None:
    """Remove socket folders whose owner is gone; a process killed with -9 cannot do it itself."""
    for folder in Path(tempfile.gettempdir()).glob(PREFIX + "*"):
        try:
            lock = os.open(folder / "lock", os.O_RDWR)
        except OSError:
            continue  # somebody else's, or just being made
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            pass
        finally:
            os.close(lock)
