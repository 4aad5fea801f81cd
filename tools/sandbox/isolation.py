"""How well this machine can shut a child in: strictly, by bubblewrap, or weakly, by limits and a filter alone."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from pathlib import Path
from typing import Literal

from memory.layout import made
from memory.records import Record
from tools import process
from tools.private_folder import PrivateFolder

Level = Literal["strict", "weak"]
SCRATCH_BYTES = 64 * 1024 * 1024
"""Size of the child's temporary folder under bubblewrap; it is memory."""
PROBE_SECONDS = 20.0
NO_SUCH_PROGRAM = 127
"""What env(1) answers for one."""
PREFIX = "tunewright-sandbox-"
PYTHON = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
"""The interpreter without the packages of an environment: a function says the same in the app and in every engine."""
SCRIPT = Path(__file__).with_name("child.py")
SCRIPT_INSIDE = "/child.py"
TEMPORARY_INSIDE = "/tmp"
PACKAGES_INSIDE = "/packages"
_LIBRARIES = ("lib", "lib32", "lib64")
_FLAGS = ("-s", "-S", "-P", "-B", "-u")
"""No packages, no code beside the script, no byte code written."""


class Isolation(Record):
    """What holds a child."""

    level: Level
    """`strict`: no network, the system read-only, no file of the person's in sight, its own processes alone; a
    temporary folder in memory. `weak`: no network and no processes either, but it reads and writes what the person
    can. Both: an empty environment, and limits on CPU, memory, file size and time."""
    reason: str = ""
    """Why it is not strict; empty where it is."""

    @property
    def says(self) -> str:
        """One line for the person."""
        if self.level == "strict":
            return "bubblewrap: no network, no files but a temporary folder of its own"
        return (
            f"{self.reason}: your own code runs without network and within limits, but could read and write your files"
        )


@lru_cache(maxsize=1)
def isolation() -> Isolation:
    """The best that this machine can do; bubblewrap counts where it really starts our interpreter."""
    try:
        code, text = process.output_of(
            ["env", "-i", *_environment(TEMPORARY_INSIDE), *_bubblewrap(), PYTHON, *_FLAGS, "-c", ""],
            timeout_s=PROBE_SECONDS,
        )
    except TimeoutError:
        return _weak("bubblewrap does not come up on this machine")
    if code == NO_SUCH_PROGRAM:
        return _weak("bubblewrap is not installed")
    if code != 0:
        lines = text.strip().splitlines() or [f"exit code {code}"]
        return _weak(f"bubblewrap does not work on this machine ({lines[-1][:200]})")
    return Isolation(level="strict")


def _weak(reason: str) -> Isolation:
    return Isolation(level="weak", reason=reason)


def argv(level: Level, scratch: Path | None, packages: Path | None = None) -> list[str]:
    """The command that starts the child; `scratch` is its temporary folder where the isolation is weak, `packages` a
    folder of packages that it may read."""
    if level == "strict":
        inside = [*_bubblewrap(packages), str(PYTHON), *_FLAGS, SCRIPT_INSIDE]
        return ["env", "-i", *_environment(TEMPORARY_INSIDE), *inside]
    return ["env", "-i", *_environment(str(scratch)), str(PYTHON), *_FLAGS, str(SCRIPT)]


def _environment(temporary: str) -> list[str]:
    """All that the child and bubblewrap itself see. The hash seed is fixed: the same call gives the same answer."""
    fixed = {
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "HOME": temporary,
        "TMPDIR": temporary,
        "PYTHONHASHSEED": "0",
        "OPENBLAS_NUM_THREADS": "1",  # numpy's library would start threads, which the filter forbids
    }
    if sys.base_prefix != "/usr":
        fixed["LD_LIBRARY_PATH"] = str(Path(sys.base_prefix) / "lib")
    return [f"{name}={value}" for name, value in fixed.items()]


def _bubblewrap(packages: Path | None = None) -> list[str]:
    """bwrap with its options, up to the command. It mounts what the interpreter needs, read-only, and the temporary
    folder. The rest of /usr may hold somebody's work (/usr/src); /proc and /dev are left out."""
    words = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    for place in (
        Path("/usr/share/zoneinfo"),
        *(Path(top, name) for top in dict.fromkeys(("/", "/usr", sys.base_prefix)) for name in _LIBRARIES),
        PYTHON.parent,
    ):
        if place.is_symlink():
            words += ["--symlink", os.readlink(place), str(place)]
        elif place.is_dir():
            words += ["--ro-bind", str(place), str(place)]
    words += ["--ro-bind", str(SCRIPT), SCRIPT_INSIDE]
    if packages is not None:
        words += ["--ro-bind", str(packages), PACKAGES_INSIDE]
    words += ["--size", str(SCRATCH_BYTES), "--tmpfs", TEMPORARY_INSIDE, "--remount-ro", "/"]
    return [*words, "--chdir", TEMPORARY_INSIDE]


class Scratch(PrivateFolder):
    """A temporary folder for a weakly isolated child, in which it finds nothing."""

    def __init__(self) -> None:
        super().__init__(PREFIX)
        self.inside = made(self.path / "tmp", 0o700)
        """What the child gets; the lock beside it is out of its way."""
