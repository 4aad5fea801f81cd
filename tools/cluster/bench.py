"""The node's side of a job: files come in, a process works on them, files go out. It knows nothing of Ray.

It lives in a process that Ray starts on the node, with the settings of that machine's `ray start`; so this file is a
front door and reads them. What it starts ends with it.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from memory.errors import InputError, RunBusyError
from memory.layout import locked, made
from tools import model_folder, process
from tools.engines import contract, worker_io
from tools.engines.axolotl import rewards, snapshots
from tools.engines.environments import Hardware, cache_folder, only_one
from tools.machine import free_memory

JOBS, MODELS, LOCK = "cluster/jobs", "cluster/models", "lock"
RUN_LOG, PROCESS_LOG = "run.log", "process.log"
ANSWERS = (f"{snapshots.FOLDER}/{snapshots.ANSWER}", rewards.ANSWER)
"""What a training waits for that has asked its caller something."""
NOT_BACK = frozenset({worker_io.REQUEST, worker_io.PROGRESS, RUN_LOG, PROCESS_LOG, *ANSWERS})
"""Files of a job that its caller has, or reads as they grow."""
PREPARED = "prepared"
"""What Axolotl makes of the rows before it trains: of no use to anybody else."""
WAIT_SECONDS = 20.0
"""A process whose node was lost ends in less."""


class Where(NamedTuple):
    """A place for a job."""

    node: str
    folder: str
    """Of the job's own files; absolute."""
    inputs: str
    """Of files that it reads."""


class ModelPlace(NamedTuple):
    """A place for a base model."""

    folder: str
    has_it: bool


class Look(NamedTuple):
    """A job at work."""

    code: int | None
    """Exit code, once it has ended."""
    progress: bytes
    """Whole lines that are new."""
    log: bytes


class FileSeen(NamedTuple):
    """A file of the job; path relative to its folder."""

    path: str
    size: int
    changed: int
    """Modification time in nanoseconds."""
    mode: int
    """Its permissions."""


class Bench:
    """A folder on the node, and at most one process that works in it."""

    def __init__(self, key: str, name: str = "work", wait_s: float = WAIT_SECONDS) -> None:
        """Make the folder `name` for the job `key`: for the same key at the same place on every node with the same
        cache. Raises RunBusyError where a process works there and does not end within `wait_s` seconds."""
        self.cache = cache_folder(os.environ)
        self.root = self.cache / JOBS / key
        self.work = self.root / name
        self.log = self.work / RUN_LOG
        self.process: process.Process | None = None
        with only_one(made(self.cache / JOBS), lambda _: None):
            clear(self.cache / JOBS)
            made(self.root, mode=0o700)
            self.held = os.open(self.root / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
            self._hold(time.monotonic() + wait_s)
        shutil.rmtree(self.work, ignore_errors=True)
        made(self.work)

    def _hold(self, until: float) -> None:
        """Take the lock of our folder; a process of a node that was just lost may be ending still."""
        while not locked(self.held):
            if time.monotonic() > until:
                raise RunBusyError(f"a process on {platform.node()} is at work in {self.work} already")
            time.sleep(0.2)

    def where(self) -> Where:
        """Where things lie here."""
        return Where(platform.node(), str(self.work), str(self.root / "inputs"))

    def place_of(self, model: str, sha256: str, template: str) -> ModelPlace:
        """Where a base model lies, or would: where the caller has it, or by its hash in our cache."""
        if self.is_model(Path(model), sha256):
            return ModelPlace(model, True)
        own = self.cache / MODELS / f"{sha256}-{template}"
        return ModelPlace(str(own), own.is_dir())

    def is_model(self, folder: Path, sha256: str) -> bool:
        """Whether a folder of this machine holds that very model: a shared disk, or the same machine."""
        if not (folder / "config.json").is_file():
            return False
        try:
            return model_folder.inspect(folder.name, folder, self.cache / "models" / "hashes").sha256 == sha256
        except InputError:
            return False

    def write(self, path: str, offset: int, data: bytes) -> None:
        """Write a piece of a file, its path absolute and inside our folders."""
        file = Path(os.path.normpath(path))
        if not (file.is_relative_to(self.root) or file.is_relative_to(self.cache / MODELS)):
            raise ValueError(f"{path} is not ours to write")
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("r+b" if offset else "wb") as out:
            out.seek(offset)
            out.write(data)

    def keep_model(self, partial: str, final: str) -> None:
        """A base model has come whole."""
        made(self.cache / MODELS)
        if Path(final).exists():
            shutil.rmtree(partial)  # another job brought it meanwhile
        else:
            Path(partial).rename(final)

    def free_memory(self, device: Hardware) -> int:
        """Bytes that a training can take here."""
        return free_memory(device)

    def begin(self, name: str, python: str, worker: str, env: Mapping[str, str]) -> str:
        """Start the worker on the folder; empty, or why it cannot be started here.

        An interpreter below `envs` is one of our environments and is looked for in this machine's cache, a relative
        worker in this release's source.
        """
        found = Path(python) if Path(python).is_absolute() else self.cache / python
        ready = found.is_absolute() and (Path(python).is_absolute() or (found.parents[1] / "ready.json").exists())
        if not ready or not found.exists():
            return f"node {platform.node()} has no environment for {name} of this release ({found})"
        engine = contract.Engine(name, found, contract.REPOSITORY / worker, env)
        self.process = process.start(
            [engine.python, "-u", engine.worker, self.work],
            log=self.log,
            cwd=contract.REPOSITORY,
            env=contract.worker_env(engine),
        )
        return ""

    def begin_run(self, module: str) -> None:
        """Start the front door `module` on the run in our folder, with this machine's settings, keys included."""
        argv = [sys.executable, "-m", module, "--resume", self.work.name, "--run-dir", str(self.root), "--plain"]
        self.log = self.work / PROCESS_LOG
        self.process = process.start(argv, log=self.log, cwd=contract.REPOSITORY, ours=True)

    def answer(self, name: str, value: object) -> None:
        """Give a training what it waits for, one of ANSWERS."""
        worker_io.write_json(self.work / name, value)

    def stop(self, seconds: float) -> int:
        """End the process, politely first; its exit code."""
        assert self.process is not None, "a job is stopped after it was begun"
        return self.process.stop(seconds)

    def look(self, progress: int, log: int) -> Look:
        """What is new after so many bytes of both files."""
        assert self.process is not None, "a job is looked at after it was begun"
        code = self.process.poll()
        lines = tail(self.work / worker_io.PROGRESS, progress)
        return Look(code, lines[: lines.rfind(b"\n") + 1], tail(self.log, log))

    def files(self) -> list[FileSeen]:
        """The files that the job has now, the oldest first: what marks others as whole comes after them."""
        found = []
        for path in self.work.rglob("*"):
            name = path.relative_to(self.work)
            try:
                if path.is_file() and name.parts[0] != PREPARED and str(name) not in NOT_BACK:
                    status = path.stat()
                    found.append(FileSeen(str(name), status.st_size, status.st_mtime_ns, status.st_mode & 0o777))
            except FileNotFoundError:
                continue  # an older checkpoint, just dropped
        return sorted(found, key=lambda each: each.changed)

    def read(self, path: str, offset: int, size: int) -> bytes | None:
        """A piece of a file of the job; None where it is gone."""
        try:
            with (self.work / path).open("rb") as file:
                file.seek(offset)
                return file.read(size)
        except FileNotFoundError:
            return None

    def close(self) -> None:
        """End the process and remove the job's files."""
        if self.process is not None:
            self.process.stop()
        shutil.rmtree(self.root, ignore_errors=True)
        os.close(self.held)


def tail(path: Path, offset: int) -> bytes:
    """What a file holds from `offset` on; nothing where it is not there."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read()
    except FileNotFoundError:
        return b""


def clear(jobs: Path) -> None:
    """Remove the files of jobs whose process has died."""
    for lock in jobs.glob(f"*/{LOCK}"):
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        if locked(descriptor):
            shutil.rmtree(lock.parent, ignore_errors=True)
        os.close(descriptor)
