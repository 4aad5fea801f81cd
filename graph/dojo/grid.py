"""Which cells the dojo has: tasks, seeds and methods, the order in which they are run and shown, and what a person
wishes of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, get_args

from memory.layout import RunFolder
from memory.records import Budget, Record

TASKS = (
    "syllogism",
    "family_relationships",
    "aiw",
    "isomorphic_strings",
    "calendar_arithmetic",
    "spell_backward",
)
"""Chosen before any result was seen: closed and open answers, words and numbers, short and long."""
Method = Literal["default_sft", "random_search", "search", "best_first", "mcts"]
"""Who plans in a cell; nothing else differs between the cells of one task and seed. The last three are the strategies
of the search proposer: greedy, best-first and tree search."""
METHODS: tuple[Method, ...] = get_args(Method)
USUAL: tuple[Method, ...] = METHODS[:3]
"""What is compared unless other methods are named."""


class Cell(Record):
    """One field of the table."""

    task: str
    """A name in the table of benchmarks."""
    seed: int
    method: Method

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"{self.task}-{self.seed}-{self.method}"

    def folder(self, root: Path) -> RunFolder:
        """Its run among the others of the dojo."""
        return RunFolder(root / self.name)


def grid(tasks: Iterable[str], seeds: Sequence[int], methods: Sequence[Method]) -> list[Cell]:
    """All cells, in the order in which they are run: whole tasks first, so that a partial table compares something."""
    return [
        Cell(task=task, seed=seed, method=method)
        for seed, task in ((seed, task) for seed in seeds for task in tasks)
        for method in methods
    ]


def place(task: str) -> tuple[int, str]:
    """Where a task stands in a table: the six in their order, then others by name."""
    return (TASKS.index(task) if task in TASKS else len(TASKS)), task


class Wishes(Record):
    """What to run and where, as the command line says it."""

    tasks: tuple[str, ...]
    seeds: tuple[int, ...]
    methods: tuple[Method, ...]
    budget: Budget
    """Of each cell."""
    folder: Path
    """Absolute folder that holds the cells' runs."""
    docs: Path
    """Absolute folder for `dojo.json`, `dojo.md` and the records of finished cells."""
    table_only: bool
    """Run nothing."""
    again: bool
    """Resume failed cells."""
    json_output: bool
    """Standard output is for a program; lines for people go to standard error."""
    cache: Path
    """Absolute folder of engine environments and base models."""

    @property
    def records(self) -> Path:
        """One file for each finished cell."""
        return self.docs / "dojo"
