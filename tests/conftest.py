"""What tests of several files share: Ctrl-C that counts, small disks, a model and rows to train, a run as hashes."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memory.layout import RunFolder, sha256_of
from memory.records import BaseModelCard
from tests.browser import app, chromium, tab  # noqa: F401  (fixtures)
from tests.training_engines import small_model, write_data


def pytest_configure() -> None:
    """Let Ctrl-C count as in a terminal: a shell starts its background jobs with an ignored SIGINT, which we, and the
    processes that we start, would inherit."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class SmallDisk:
    """A file system in main memory; gone with its content when the test ends."""

    def __init__(self, path: Path, size: str) -> None:
        """Mount it at `path`; `size` as tmpfs reads it, for example 6m. Skips the test where that is not allowed."""
        path.mkdir()
        argv = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)]
        mounted = subprocess.run(argv, capture_output=True, text=True, check=False)
        if mounted.returncode != 0:
            pytest.skip(f"mounting a small disk needs root: {mounted.stderr.strip()}")
        self.path = path

    def grow(self, size: str) -> None:
        """Make room; what is there stays."""
        subprocess.run(["mount", "-o", f"remount,size={size}", str(self.path)], check=True)

    def unmount(self) -> None:
        """Take it away, also from under a process that still has a file open there."""
        subprocess.run(["umount", "--lazy", str(self.path)], check=True)


MakeDisk = Callable[[str], SmallDisk]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[MakeDisk]:
    """Mounts disks of a given size, and takes them away however the test ends."""
    disks: list[SmallDisk] = []

    def make(size: str) -> SmallDisk:
        disks.append(SmallDisk(tmp_path / f"disk{len(disks)}", size))
        return disks[-1]

    yield make
    for disk in disks:
        disk.unmount()


@pytest.fixture
def model(tmp_path: Path) -> BaseModelCard:
    """A model that only the stand-in for Axolotl can train."""
    return small_model(tmp_path / "model")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A small training file."""
    return write_data(tmp_path / "data.jsonl")


def content(folder: RunFolder) -> dict[str, str]:
    """Every file of a run with its hash; the lock, which a reader takes too, is left out."""
    files = [path for path in folder.root.rglob("*") if path.is_file() and path.name != "run.lock"]
    return {str(path.relative_to(folder.root)): sha256_of(path) for path in files}
