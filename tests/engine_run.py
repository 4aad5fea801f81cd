"""`python -m graph.run` with the real engines, small: few items, and plans of scripted_plans.py (FAKE_SCRIPT)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from graph.run import main
from graph.workshop import Workshop, workshop
from memory.records import Task
from tests.scripted_plans import SCRIPTS
from tools.benchmarks.splits import Sizes


def small(task: Task, cache: Path, say: Callable[[str], None]) -> Workshop:
    """The real workshop with little to do."""
    sizes = Sizes(train=80, validation=20, test=20)
    return replace(workshop(task, cache, say), propose=SCRIPTS[os.environ["FAKE_SCRIPT"]], sizes=sizes)


if __name__ == "__main__":
    sys.exit(main(equip=small))
