"""The front door of the dojo: `python -m graph.dojo` compares ways to plan at one wall-clock budget.

It reads the command line and the environment; the work is in `work.py`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from graph.dojo.grid import METHODS, TASKS, USUAL, Wishes
from graph.options import Parser
from graph.run import guarded
from graph.settings import SMALLEST_BUDGET_SECONDS
from graph.values import duration, in_words, near, positive, whole
from memory.errors import InputError
from memory.records import Budget
from tools import benchmarks
from tools.engines.environments import cache_folder

if TYPE_CHECKING:
    from graph.workshop import Equip

BUDGET_SECONDS = 600.0
"""Three trials of the embedded model on two cores; all cells of one seed take three hours."""


def main(argv: Sequence[str] | None = None, equip: Equip | None = None) -> int:
    """Do what the command line says. The exit code: 0 all cells finished, 1 some failed, 2 bad input, 130 stopped.

    `equip` makes the workshop of a run; None makes the real one.
    """

    def work() -> int:
        wishes = parse(sys.argv[1:] if argv is None else argv, os.environ)
        # LangGraph takes seconds to import, too long for --help or for the news of a misspelt name.
        from graph.dojo.work import act
        from graph.workshop import workshop

        return act(wishes, equip or workshop)

    return guarded(work, "stopped; the same command goes on")


def parse(argv: Sequence[str], environment: Mapping[str, str]) -> Wishes:
    """Read the command line. Raises InputError with one clear line."""
    parser = Parser(
        prog="python -m graph.dojo",
        description="Compare ways to plan a fine-tuning at one wall-clock budget, on offline tasks.",
        epilog="Finished cells are kept, one that was stopped is resumed. Ctrl-C stops; the same command goes on. "
        "To measure a cell anew, remove its run and its record.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--tasks", nargs="+", metavar="NAME", default=list(TASKS), help=f"default: {' '.join(TASKS)}")
    add("--seeds", nargs="+", metavar="N", type=whole, default=[0], help="default 0")
    known = f"{', '.join(METHODS)}; default: {' '.join(USUAL)}"
    add("--methods", nargs="+", metavar="NAME", default=list(USUAL), help=known)
    add("--budget", metavar="10m", type=duration, default=BUDGET_SECONDS, help="wall clock of a cell (default 10m)")
    add("--max-trials", metavar="N", type=positive, help="at most N trials a cell (default: the clock decides)")
    add("--folder", metavar="DIR", default="runs/dojo", help="the folder that holds the runs (default runs/dojo)")
    add("--docs", metavar="DIR", default="docs", help="where the table and dojo/CELL.json are kept (default docs)")
    add("--table", action="store_true", help="run nothing, write the table of what is finished")
    add("--again", action="store_true", help="resume the cells that failed")
    add("--json", action="store_true", help="the table as JSON on standard output")
    given = parser.parse_args(argv)
    _known(given.tasks, list(benchmarks.BENCHMARKS), "benchmark")
    _known(given.methods, list(METHODS), "method")
    if given.budget < SMALLEST_BUDGET_SECONDS:
        least = in_words(SMALLEST_BUDGET_SECONDS)
        raise InputError(f"a budget of {in_words(given.budget)} is too small for one trial", f"Give {least} or more.")
    return Wishes(
        tasks=tuple(dict.fromkeys(given.tasks)),
        seeds=tuple(dict.fromkeys(given.seeds)),
        methods=tuple(name for name in METHODS if name in given.methods),
        budget=Budget(seconds=given.budget, max_trials=given.max_trials),
        folder=Path(given.folder).expanduser().absolute(),
        docs=Path(given.docs).expanduser().absolute(),
        table_only=given.table,
        again=given.again,
        json_output=given.json,
        cache=cache_folder(environment),
    )


def _known(words: Sequence[str], names: Sequence[str], kind: str) -> None:
    """Raises InputError for the first word that is none of the names."""
    for word in words:
        if word not in names:
            raise InputError(f"there is no {kind} {word}", near(word, names, f"Name some of: {', '.join(names)}."))


if __name__ == "__main__":
    sys.exit(main())
