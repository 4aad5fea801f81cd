"""What a benchmark needs from this machine before it can be drawn and graded: raw data, and packages of its own.

A grader runs in the app and in the score environment, so that its packages are installed into both.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from memory.errors import SetupError
from tools import process
from tools.benchmarks.benchmark import Benchmark
from tools.engines.environments import INSTALL_SECONDS, complaint, pip_settings
from tools.raw_data.store import Store

Say = Callable[[str], None]


def fetch(benchmarks: Iterable[Benchmark], store: Store, say: Say) -> None:
    """Fetch the raw data that is not on this machine. Raises InputError where it cannot be had."""
    for benchmark in benchmarks:
        for file in store.missing((*benchmark.held_out, *benchmark.training)):
            say(f"{benchmark.name}: fetching {file.name} of {file.source.repository} ...")
            say(f"{benchmark.name}: {store.path(file)}")
        if benchmark.graded_from is not None:  # what grades it makes its items, too
            say(f"{benchmark.name}: reading its data ...")
            next(benchmark.located(store).draw("validation", 0), None)


def install(benchmark: Benchmark, python: Path, log: Path, say: Say) -> None:
    """Install the benchmark's own packages, every one pinned, where they are missing. Raises SetupError."""
    present = installed(python) if benchmark.extras else frozenset()
    missing = [extra for extra in benchmark.extras if extra not in present]
    if not missing:
        return
    say(f"{benchmark.name}: installing {', '.join(missing)} beside {python}")
    log.unlink(missing_ok=True)
    options: list[str | Path] = ["--quiet", "--no-deps", "--python", python]
    argv = [sys.executable, "-m", "uv", "pip", "install", *options, *missing]
    if process.run(argv, log=log, env=pip_settings(), timeout_s=INSTALL_SECONDS, installing=True) != 0:
        raise SetupError(
            f"{benchmark.name} needs {', '.join(missing)}, which could not be installed: {complaint(log)}",
            f"The whole log is {log}. Once the package sources answer, the same command goes on",
        )


def installed(python: Path) -> frozenset[str]:
    """What is installed beside an interpreter, as `name==version` with names as package indexes write them."""
    program = "from importlib import metadata; [print(d.name + '==' + d.version) for d in metadata.distributions()]"
    _, text = process.output_of([python, "-c", program])
    pairs = (line.partition("==") for line in text.split())
    return frozenset(f"{re.sub('[-_.]+', '-', name).lower()}=={version}" for name, _, version in pairs)


def refusal(benchmark: str, extra: str) -> SetupError:
    """What a grader raises without its package."""
    return SetupError(
        f"{benchmark} cannot be graded without {extra}", f"Install it: python -m tools.benchmarks prepare {benchmark}"
    )
