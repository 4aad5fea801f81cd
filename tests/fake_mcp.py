"""`python -m graph.mcp` with small splits and quick engines, or with `--real` as its first word the machine's own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from graph.mcp import main
from graph.workshop import Workshop
from graph.workshop import workshop as real
from memory.records import Task
from tests import fake_run
from tools.benchmarks.splits import Sizes

SIZES = Sizes(train=120, validation=40, test=20)


def small(task: Task, cache: Path, say: Callable[[str], None]) -> Workshop:
    """The quick engines."""
    return replace(fake_run.workshop(task, cache, say), sizes=SIZES)


def small_but_real(task: Task, cache: Path, say: Callable[[str], None]) -> Workshop:
    """The engines that are set up."""
    return replace(real(task, cache, say), sizes=SIZES)


if __name__ == "__main__":
    words = sys.argv[1:]
    sys.exit(main(words[1:], small_but_real) if words[0] == "--real" else main(words, small))
