"""`python -m graph.mcp` with quick engines and small splits: the same server, session and files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from graph.mcp import main
from graph.workshop import Workshop
from memory.records import Task
from tests import fake_run
from tools.benchmarks.splits import Sizes

SIZES = Sizes(train=120, validation=40, test=20)


def workshop(task: Task, cache: Path, say: Callable[[str], None]) -> Workshop:
    """The quick engines."""
    return replace(fake_run.workshop(task, cache, say), sizes=SIZES)


if __name__ == "__main__":
    sys.exit(main(equip=workshop))
