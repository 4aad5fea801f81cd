"""The engines' Python environments, `train` and `score`: installed once into the user's cache, shared by all clones.

An environment is named after the hash of its lock file. Its marker `ready.json` is written last, after what the engine
needs was imported in it; a folder without the marker is a half-finished install and is built anew. The lock files name
every package, so they are installed without resolving anything.
"""

from __future__ import annotations

import ast
import fcntl
import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from pydantic import ValidationError

from memory.errors import InputError, SetupError
from memory.records import Record
from tools import process
from tools.engines.contract import OFFLINE, log_tail
from tools.engines.leftovers import claim
from tools.engines.worker_io import write_json

Hardware = Literal["cpu", "cuda"]
Say = Callable[[str], None]
Argv = Sequence[str | Path]
ENGINES = Path(__file__).resolve().parent
INSTALL_SECONDS, VERIFY_SECONDS = 3600.0, 600.0
"""Limits for slow lines and disks, not expectations."""


@dataclass(frozen=True)
class Spec:
    """What an environment is made of."""

    name: str
    lock: Path
    """Requirements, every one pinned; installed with --no-deps."""
    verify: str
    """Python that imports what the engine needs; raises where something is missing."""
    gigabytes: float
    """Free disk space wanted before the install, with room to spare."""


class Ready(Record):
    """The marker: says that the environment in this folder is whole."""

    name: str
    lock_sha256: str
    packages: int
    seconds: float
    """Wall clock of the install, verification included."""
    bytes: int
    """Disk space of the folder; files that two environments share (hard links) count in both."""


@dataclass(frozen=True)
class Environment:
    """An environment that is ready for use."""

    name: str
    folder: Path
    ready: Ready

    @property
    def python(self) -> Path:
        """The interpreter with which workers run."""
        return self.folder / "bin" / "python"


VERIFY_TRAIN = (
    "import gguf, peft, torch, trl, axolotl.train, axolotl.cli.train, axolotl.cli.config, axolotl.integrations.base, "
    "axolotl.prompt_strategies.chat_template, axolotl.core.builders.rl, transformers.models.llama.modeling_llama"
)
VERIFY_SCORE = (
    "import torch, vllm.entrypoints.openai.api_server, vllm.v1.engine.async_llm, lighteval.pipeline, "
    "lighteval.models.abstract_model, lighteval.tasks.requests, reasoning_gym"
)


def specs(hardware: Hardware) -> dict[str, Spec]:
    """The table of environments. vLLM and lighteval share `score`."""
    extra = 12.0 if hardware == "cuda" else 0.0
    return {
        "train": Spec("train", ENGINES / f"axolotl/requirements-{hardware}.txt", VERIFY_TRAIN, 4.5 + extra),
        "score": Spec("score", ENGINES / f"vllm/requirements-{hardware}.txt", VERIFY_SCORE, 4.5 + extra),
    }


def detect_hardware() -> Hardware:
    """`cuda` where an NVIDIA driver is at work, `cpu` otherwise."""
    return "cuda" if Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") else "cpu"


def cache_folder(settings: Mapping[str, str]) -> Path:
    """Where environments and models lie, from the settings a front door read: TUNEWRIGHT_CACHE, or `tunewright` in the
    user's cache (XDG_CACHE_HOME, ~/.cache)."""
    if settings.get("TUNEWRIGHT_CACHE"):
        return Path(settings["TUNEWRIGHT_CACHE"]).expanduser().resolve()
    return Path(settings.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tunewright"


def folder_of(spec: Spec, cache: Path) -> Path:
    """The environment's folder: named after lock file and Python, so that a change of either makes a new one."""
    text = spec.lock.read_bytes() + f"python {sys.version_info.major}.{sys.version_info.minor}".encode()
    return cache / "envs" / f"{spec.name}-{hashlib.sha256(text).hexdigest()[:12]}"


def names(cache: Path) -> set[str]:
    """The environments that this checkout's lock files name, for whatever hardware."""
    tables = (specs(hardware) for hardware in get_args(Hardware))
    return {folder_of(spec, cache).name for table in tables for spec in table.values()}


def installed(spec: Spec, cache: Path) -> Environment | None:
    """The environment, if it was installed to the end and its interpreter is still there."""
    folder = folder_of(spec, cache)
    try:
        ready = Ready.model_validate_json((folder / "ready.json").read_text())
    except (FileNotFoundError, ValidationError):
        return None
    environment = Environment(spec.name, folder, ready)
    return environment if environment.python.exists() else None


def ensure(spec: Spec, cache: Path, say: Say, *, verify: bool = False) -> Environment:
    """The environment, installed first where it is missing or half-finished. `verify` imports again what it needs.
    It is not removed by anybody while this process lives.

    Raises InputError where the disk has too little space, SetupError where the install or its verification fails.
    """
    environment = installed(spec, cache)
    if verify or environment is None or not claim(environment.folder):
        with only_one(folder_of(spec, cache), say):
            environment = _made_whole(spec, cache, say)
            claim(environment.folder)
    return environment


def _made_whole(spec: Spec, cache: Path, say: Say) -> Environment:
    """The environment verified, or else installed."""
    environment = installed(spec, cache)
    if environment is None:
        return _install(spec, cache, say)
    began = time.monotonic()
    try:
        _verify(spec, environment.folder)
    except SetupError as error:
        say(error.message)
        return _install(spec, cache, say)
    say(f"{spec.name} environment: verified in {time.monotonic() - began:.0f} s")
    return environment


def ensure_all(cache: Path, hardware: Hardware, say: Say, *, verify: bool = False) -> dict[str, Environment]:
    """Both environments by name; see `ensure`."""
    return {name: ensure(spec, cache, say, verify=verify) for name, spec in specs(hardware).items()}


def _install(spec: Spec, cache: Path, say: Say) -> Environment:
    folder = folder_of(spec, cache)
    check_space(folder.parent, spec.gigabytes, f"the {spec.name} environment")
    if folder.exists():
        say(f"{spec.name} environment: found an install that is not whole; starting over")
        shutil.rmtree(folder)
    packages = pinned(spec.lock)
    say(f"{spec.name} environment: installing {len(packages)} packages ...")
    began = time.monotonic()
    log = folder.parent / f"{folder.name}.log"
    log.unlink(missing_ok=True)
    _uv(["venv", "--quiet", "--python", sys.executable, folder], log, spec)
    _install_packages(spec, folder, log, say)
    _verify(spec, folder)
    ready = Ready(
        name=spec.name,
        lock_sha256=hashlib.sha256(spec.lock.read_bytes()).hexdigest(),
        packages=len(packages),
        seconds=round(time.monotonic() - began, 1),
        bytes=disk_bytes(folder),
    )
    write_json(folder / "ready.json", ready.model_dump())
    say(f"{spec.name} environment: installed in {ready.seconds:.0f} s, {ready.bytes / 1e9:.1f} GB")
    return Environment(spec.name, folder, ready)


def _install_packages(spec: Spec, folder: Path, log: Path, say: Say) -> None:
    """Install the lock file; PyTorch's own CPU builds are asked for only where the configured sources have none."""
    argv: Argv = ["pip", "install", "--quiet", "--python", folder / "bin/python", "--no-deps", "-r", spec.lock]
    env = pip_settings()
    if _try_uv(argv, log, env) == 0:
        return
    if "torch" in log_tail(log, lines=8) and "+cpu" in spec.lock.read_text():
        say(f"{spec.name} environment: the configured package sources have no CPU build of torch; asking PyTorch's")
        argv = [*argv, "--torch-backend", "cpu"]
    else:
        say(f"{spec.name} environment: the install failed; trying once more")
    _uv(argv, log, spec, env)


def _try_uv(argv: Argv, log: Path, env: Mapping[str, str] | None = None) -> int:
    uv = (sys.executable, "-m", "uv")
    return process.run((*uv, *argv), log=log, env=env, timeout_s=INSTALL_SECONDS, installing=True)


def _uv(argv: Argv, log: Path, spec: Spec, env: Mapping[str, str] | None = None) -> None:
    if _try_uv(argv, log, env) != 0:
        raise SetupError(
            f"the {spec.name} environment could not be installed: {complaint(log)}",
            f"The whole log is {log}. Once the package sources answer, the same command goes on",
        )


def complaint(log: Path) -> str:
    """uv's last error with its first cause; the causes below that are the network's inner life."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    errors = [number for number, line in enumerate(lines) if line.startswith("error:")]
    return " ".join(lines[errors[-1] : errors[-1] + 2]) if errors else log_tail(log, lines=1)


def _verify(spec: Spec, folder: Path) -> None:
    """Import what the engine needs, in its environment and without a network."""
    log = folder.parent / f"{folder.name}.verify.log"
    log.unlink(missing_ok=True)
    env = {**OFFLINE, "PYTHONNOUSERSITE": "1"}
    code = process.run(
        [folder / "bin/python", "-c", spec.verify], log=log, env=env, cwd=folder, timeout_s=VERIFY_SECONDS
    )
    if code != 0:
        (folder / "ready.json").unlink(missing_ok=True)
        raise SetupError(
            f"the {spec.name} environment is not whole: {log_tail(log, lines=1)}",
            f"The whole log is {log}. The next set-up installs it anew",
        )


def pip_settings() -> dict[str, str]:
    """uv's settings that say what pip is configured with on this machine (files and PIP_ variables), so that a mirror
    or a folder of wheels that serves pip serves us too. uv itself reads none of it.

    Extra indexes are left out: uv takes every wheel of a release from the first index that has one, so an extra index
    with a wheel for another Python would hide the right one; and our lock files hold public packages only."""
    code, text = process.output_of([sys.executable, "-m", "pip", "config", "list"], installing=True)
    listed = dict(line.split("=", 1) for line in text.splitlines() if "=" in line) if code == 0 else {}
    found: dict[str, str] = {}
    for section in ("global", "install", ":env:"):  # the later ones override
        start = f"{section}."
        found |= {
            name.removeprefix(start): str(ast.literal_eval(value))
            for name, value in listed.items()
            if name.startswith(start)
        }
    settings = {
        "UV_FIND_LINKS": ",".join(found.get("find-links", "").split()),
        "UV_DEFAULT_INDEX": found.get("index-url", ""),
        "SSL_CERT_FILE": found.get("cert", ""),
    }
    ours = process.child_environment(installing=True)
    return {name: value for name, value in settings.items() if value and name not in ours}


def pinned(lock: Path) -> list[str]:
    """The lock file's `name==version` lines. Raises SetupError where a line pins nothing."""
    lines = (line.split("#")[0].strip() for line in lock.read_text().splitlines())
    packages = [line for line in lines if line and not line.startswith("--")]
    loose = [line for line in packages if "==" not in line]
    if loose:
        raise SetupError(f"{lock} does not pin {loose[0]}")
    return packages


def check_space(folder: Path, gigabytes: float, what: str) -> None:
    """Raise InputError where the disk of `folder` (which it makes) has less than that free."""
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free / 1e9
    if free < gigabytes:
        raise InputError(
            f"{what} needs {gigabytes:.1f} GB of disk space, {folder} has {free:.1f} GB",
            "Free some, or set TUNEWRIGHT_CACHE to a folder on a larger disk",
        )


def disk_bytes(folder: Path) -> int:
    """Disk space that a folder's files take; a file with several names in it counts once."""
    seen: dict[int, int] = {}
    queue = [str(folder)]
    while queue:
        with os.scandir(queue.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    queue.append(entry.path)
                else:
                    status = entry.stat(follow_symlinks=False)
                    seen[status.st_ino] = status.st_blocks * 512
    return sum(seen.values())


@contextmanager
def only_one(folder: Path, say: Say) -> Iterator[None]:
    """Let one set-up at a time work on a folder; the lock goes with the process that holds it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{folder.name}: another set-up is at work on it; waiting")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
