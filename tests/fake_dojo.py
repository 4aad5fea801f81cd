"""`python -m graph.dojo` with quick engines and small splits; faults as in fake_run.py."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from graph.dojo.__main__ import main
from graph.workshop import Workshop
from memory.records import Task
from tests import fake_run
from tools.benchmarks.splits import Sizes


def workshop(task: Task, cache: Path, say: Callable[[str], None]) -> Workshop:
    """The quick workshop with little to score."""
    return replace(fake_run.workshop(task, cache, say), sizes=Sizes(train=300, validation=60, test=60))


if __name__ == "__main__":
    sys.exit(main(equip=workshop))
