"""The work of the dojo: every cell that is not finished yet, one after the other, and the table after each."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace

from graph.dojo.cells import PROPOSERS, Failed, Measured, all_measured, carry_out, check_budget, ended
from graph.dojo.grid import Cell, Wishes, grid
from graph.dojo.table import blocks_of, rows_of
from graph.dojo.text import markdown
from graph.live import people, tell
from graph.runner import Prepare
from graph.values import in_words
from graph.workshop import Equip, Workshop
from memory.errors import InputError
from memory.layout import write_text
from memory.records import Task

FINISHED, SOME_FAILED = 0, 1
JSON, MARKDOWN = "dojo.json", "dojo.md"


def act(wishes: Wishes, equip: Equip) -> int:
    """Run what is not finished, and write the table. Raises InputError where there is nothing to write."""
    cells = grid(wishes.tasks, wishes.seeds, wishes.methods)
    if not wishes.table_only:
        run_all(cells, wishes, equip)
    written = write_table(cells, wishes)
    failed = any(isinstance(ended(cell, wishes.records, wishes.folder), Failed) for cell in cells)
    if written:
        if wishes.json_output:
            tell(sys.stdout, (wishes.docs / JSON).read_text(encoding="utf-8").rstrip())
        tell(people(wishes.json_output), f"table: {wishes.docs / MARKDOWN}")
    elif not failed:
        raise InputError(f"{wishes.records} holds no finished cell", "Run it without --table, or name another --docs.")
    return SOME_FAILED if failed else FINISHED


def run_all(cells: Sequence[Cell], wishes: Wishes, equip: Equip) -> None:
    """Run the cells that have not ended, one line each, and write the table after each. Raises what stops them all."""
    for cell in cells:
        check_budget(cell, wishes.records, wishes.folder, wishes.budget)
    known = [ended(cell, wishes.records, wishes.folder) for cell in cells]
    to_do = [
        cell
        for cell, result in zip(cells, known, strict=True)
        if result is None or (wishes.again and isinstance(result, Failed))
    ]
    at_most = in_words(len(to_do) * wishes.budget.seconds)
    out = people(wishes.json_output)
    tell(out, f"{len(cells)} cells, {len(cells) - len(to_do)} have ended; the others take {at_most} at most")
    for number, cell in enumerate(to_do, 1):
        result = carry_out(cell, wishes.records, wishes.folder, wishes.budget, preparing(cell, wishes, equip))
        tell(out, f"[{number}/{len(to_do)}] {line(result)}")
        write_table(cells, wishes)


def preparing(cell: Cell, wishes: Wishes, equip: Equip) -> Prepare:
    """What makes the workshop of a cell: the usual one with the method's proposer in it."""

    def prepare(task: Task) -> Workshop:
        usual = equip(task, wishes.cache, lambda said: tell(people(wishes.json_output), said))
        return replace(usual, propose=PROPOSERS[cell.method])

    return prepare


def line(result: Measured | Failed) -> str:
    """What came of a cell, in one line."""
    if isinstance(result, Failed):
        return f"{result.cell.name} FAILED: {result.reason} (--again resumes it)"
    score = result.handed_over.score
    trials = f"{result.trials} trial{'' if result.trials == 1 else 's'}"
    return (
        f"{result.cell.name}: {result.metric} {score.value:.3f} ± {score.stderr:.3f} (n={score.n}), {result.what}, "
        f"{trials}, {in_words(result.seconds)}"
    )


def write_table(cells: Sequence[Cell], wishes: Wishes) -> bool:
    """Write `dojo.json` and `dojo.md` of every finished cell, wanted or not; False where there is none."""
    blocks = blocks_of(all_measured(wishes.records))
    if not blocks:
        return False
    known = {cell.name: ended(cell, wishes.records, wishes.folder) for cell in cells}
    failed = [result for result in known.values() if isinstance(result, Failed)]
    missing = [cell for cell in cells if known[cell.name] is None]
    rows = [row.model_dump(exclude_none=True) for row in rows_of(blocks)]
    write_text(wishes.docs / JSON, json.dumps(rows, indent=2) + "\n")
    write_text(wishes.docs / MARKDOWN, markdown(blocks, failed, missing))
    return True
