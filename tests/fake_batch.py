"""`python -m graph.run --batch` with quick engines: each task is a process of fake_run.py, with small splits.

FAKE_GPUS names GPUs, between commas, that the machine is said to have. FAKE_MISSING names a benchmark whose engines
cannot be set up. Other faults as in fake_run.py.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from graph.arguments import parse
from graph.background import Launch
from graph.batch.work import Place, batch
from graph.run import guarded, main
from graph.workshop import Workshop
from memory.errors import SetupError
from memory.records import Task
from tests import fake_run
from tools.benchmarks.splits import Sizes


def workshop(task: Task, cache: Path, say: Callable[[str], None]) -> Workshop:
    """The quick workshop with little to score."""
    say(f"GPU {os.environ.get('CUDA_VISIBLE_DEVICES', '-')}")
    if task.benchmark == os.environ.get("FAKE_MISSING"):
        raise SetupError("the train environment could not be installed", "Ask for another disk")
    return replace(fake_run.workshop(task, cache, say), sizes=Sizes(train=300, validation=60, test=60))


def work() -> int:
    """The batch of the command line."""
    settings = parse(sys.argv[1:], os.environ)
    places = [Place(name) for name in os.environ.get("FAKE_GPUS", "").split(",") if name]
    return batch(settings, Launch("tests.fake_batch"), places if places or settings.cluster else [Place()])


if __name__ == "__main__":
    sys.exit(guarded(work) if "--batch" in sys.argv else main(equip=workshop))
