"""A private temporary folder that goes with its owner, and is cleared away after an owner that was killed with -9."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path

from memory.layout import locked


class PrivateFolder:
    """A folder of this process. A lock in it tells the living from folders whose owner was killed."""

    def __init__(self, prefix: str) -> None:
        """`prefix` is that of all folders of one kind; abandoned ones are removed first."""
        remove_abandoned(prefix)
        self.path, self._lock = _locked_folder(prefix)

    def remove(self) -> None:
        """Remove the folder; may be called again."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def remove_abandoned(prefix: str) -> None:
    """Remove this user's folders whose owner is gone; a process killed with -9 cannot do it itself."""
    for folder in Path(tempfile.gettempdir()).glob(prefix + "*"):
        try:
            status = folder.lstat()
        except FileNotFoundError:
            continue
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
            _remove_if_abandoned(folder)


def _locked_folder(prefix: str) -> tuple[Path, int]:
    """A new folder, and the descriptor whose lock says that somebody lives there.

    Until the lock is taken, another start may hold the folder for abandoned and remove it; then the next one is tried.
    """
    while True:
        path = Path(tempfile.mkdtemp(prefix=prefix))
        try:
            lock = os.open(path / "lock", os.O_CREAT | os.O_RDWR, 0o600)
        except FileNotFoundError:
            continue
        if locked(lock) and os.fstat(lock).st_nlink > 0:
            return path, lock
        os.close(lock)


def _remove_if_abandoned(folder: Path) -> None:
    try:
        lock = os.open(folder / "lock", os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        try:
            folder.rmdir()  # its owner was killed before it made the lock
        except OSError:
            pass
        return
    except OSError:
        return  # no lock of ours
    if locked(lock):
        shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)
