"""The figures of the dojo: finished cells side by side, pooled over seeds, and compared item by item with ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import sqrt
from statistics import fmean, variance

from graph.dojo.cells import Measured, Shown
from graph.dojo.grid import METHODS, USUAL, place
from memory.errors import InputError
from memory.records import Comparison, Record
from tools.report import SIGNIFICANT
from tools.statistics import paired

BASES = ("base0", "base_few")
OURS = "search"
COLUMNS = (*BASES, *METHODS)
"""All columns that a table may have, in this order."""
OVERRUN = 1.05
"""Part of the budget from which a cell is said to have overrun it."""


class Row(Record):
    """One field of the table as programs read it; what does not exist is left out."""

    task: str
    seed: int
    method: str
    metric: str
    value: float
    """On the sealed test."""
    n: int
    stderr: float
    """Over items."""
    seconds: float
    """Wall clock of the whole run; of a base row, of its evaluation."""
    ci_low: float
    ci_high: float
    handed_over: str
    """`trial N`, or the prompt of the untouched model."""
    trials: int | None = None
    p_against_base_better: float | None = None
    """Two-sided, paired over the same items, against the base row with the better value."""
    p_against_default: float | None = None
    p_against_random: float | None = None


@dataclass(frozen=True)
class Entry:
    """What one method reached on one task with one seed."""

    shown: Shown
    seconds: float
    what: str
    trials: int | None = None


@dataclass(frozen=True)
class Block:
    """All methods on one task with one seed, on the same items."""

    task: str
    seed: int
    higher_is_better: bool
    entries: Mapping[str, Entry]
    """By column, finished ones only."""
    cells: tuple[Measured, ...]
    notes: tuple[str, ...]
    """What a reader must know: base rows that differ, budgets that were overrun."""


@dataclass(frozen=True)
class Pooled:
    """A value over all items of one or more seeds."""

    value: float
    n: int
    stderr: float


def columns_of(blocks: Iterable[Block]) -> tuple[str, ...]:
    """The columns of a table: the usual ones, and further methods that have a cell."""
    measured = {column for block in blocks for column in block.entries}
    return tuple(column for column in COLUMNS if column in (*BASES, *USUAL) or column in measured)


# --- cells side by side ---------------------------------------------------------------------------------------------


def blocks_of(cells: Iterable[Measured]) -> list[Block]:
    """The finished cells by task and seed. Raises InputError where they do not compare."""
    cells = list(cells)
    _check_same(cells, "base_sha256", "budget")
    ordered = sorted(cells, key=lambda one: (place(one.cell.task), one.cell.seed))
    return [
        _block(task, seed, tuple(members))
        for (task, seed), members in groupby(ordered, key=lambda one: (one.cell.task, one.cell.seed))
    ]


def _check_same(cells: Sequence[Measured], *fields: str) -> None:
    """Raises InputError where cells differ in what makes them comparable."""
    for field in fields:
        other = next((one for one in cells if getattr(one, field) != getattr(cells[0], field)), None)
        if other is not None:
            names = f"{cells[0].cell.name} and {other.cell.name}"
            raise InputError(
                f"{names} differ in {field} and do not compare", "Run them anew with another --folder and --docs."
            )


def _block(task: str, seed: int, cells: tuple[Measured, ...]) -> Block:
    _check_same(cells, "test_sha256")
    base = next((one for one in cells if one.cell.method == OURS), cells[0])
    entries = {"base0": _base_row(base.zero_shot), "base_few": _base_row(base.few_shot)}
    for one in cells:
        entries[one.cell.method] = Entry(shown=one.handed_over, seconds=one.seconds, what=one.what, trials=one.trials)
    overrun = [
        f"{one.cell.name} took {one.seconds:.0f} s of {one.budget.seconds:.0f} s."
        for one in cells
        if one.seconds > OVERRUN * one.budget.seconds
    ]
    notes = (*_disagreements(base, cells), *overrun)
    return Block(task, seed, base.higher_is_better, entries, cells, notes)


def _base_row(shown: Shown) -> Entry:
    return Entry(shown, shown.score.seconds, f"base, {shown.score.shots}-shot")


def _disagreements(base: Measured, cells: Sequence[Measured]) -> list[str]:
    """Where cells that measured the same untouched model on the same items do not agree on it."""
    lines = []
    for one in cells:
        for name, ours, theirs in (
            ("base0", base.zero_shot, one.zero_shot),
            ("base_few", base.few_shot, one.few_shot),
        ):
            if ours.items != theirs.items:
                odd = sum(ours.items.get(item) != theirs.items.get(item) for item in ours.items | theirs.items)
                lines.append(
                    f"{name} differs between {base.cell.name} ({ours.score.value:.3f}) and {one.cell.name} "
                    f"({theirs.score.value:.3f}): {odd} of {len(ours.items)} items. The first is shown."
                )
    return lines


# --- arithmetic ------------------------------------------------------------------------------------------------------


def pooled(blocks: Sequence[Block], column: str) -> Pooled | None:
    """The mean over seeds of a column; None where one of them lacks it.

    Standard error over items and seeds, `sqrt(max(v, w) / k)` for k seeds: w is the mean squared standard error over
    items, v the variance of the k values. Values of few items vary by w alone, so that v - w estimates what seeds
    add (the moment estimate of a random-effects model, DerSimonian and Laird 1986); it is never taken as negative.
    """
    scores = [block.entries[column].shown.score for block in blocks if column in block.entries]
    if not scores or len(scores) < len(blocks):
        return None
    over_items = fmean(score.stderr**2 for score in scores)
    over_seeds = variance([score.value for score in scores]) if len(scores) > 1 else 0.0
    return Pooled(
        value=fmean(score.value for score in scores),
        n=sum(score.n for score in scores),
        stderr=sqrt(max(over_items, over_seeds) / len(scores)),
    )


def turned(blocks: Sequence[Block], column: str) -> float | None:
    """A column's value, turned so that more is better; None where it is missing."""
    found = pooled(blocks, column)
    return None if found is None else found.value if blocks[0].higher_is_better else -found.value


def best(blocks: Sequence[Block]) -> set[str]:
    """The columns with the best value; several where they tie."""
    values = {column: value for column in COLUMNS if (value := turned(blocks, column)) is not None}
    return {column for column, value in values.items() if value == max(values.values())}


def better_base(blocks: Sequence[Block]) -> str:
    """The base row with the better value on the sealed test itself: the harder one to beat."""
    values = {column: value for column in BASES if (value := turned(blocks, column)) is not None}
    return max(values, key=lambda column: values[column])


def against(blocks: Sequence[Block], column: str, rival: str) -> Comparison | None:
    """A column against a rival on the same items of all seeds; None where one of them is missing somewhere."""
    ours: dict[str, float] = {}
    theirs: dict[str, float] = {}
    for block in blocks:
        if column not in block.entries or rival not in block.entries:
            return None
        ours |= {f"{block.seed} {item}": value for item, value in block.entries[column].shown.items.items()}
        theirs |= {f"{block.seed} {item}": value for item, value in block.entries[rival].shown.items.items()}
    return paired(ours, theirs, against=rival, higher_is_better=blocks[0].higher_is_better)


def won(comparison: Comparison | None) -> bool:
    """Whether the difference is a gain that is told from noise."""
    return comparison is not None and comparison.difference > 0 and comparison.p_value < SIGNIFICANT


def rows_of(blocks: Sequence[Block]) -> list[Row]:
    """Every field of the table, for programs."""
    return [_row(block, column) for block in blocks for column in COLUMNS if column in block.entries]


def _row(block: Block, column: str) -> Row:
    entry = block.entries[column]
    score = entry.shown.score
    rivals = {
        "p_against_base_better": better_base([block]),
        "p_against_default": "default_sft",
        "p_against_random": "random_search",
    }
    compared = {
        name: against([block], column, rival)
        for name, rival in rivals.items()
        if column not in BASES and column != rival and not (column == "default_sft" and rival == "random_search")
    }
    return Row(
        task=block.task,
        seed=block.seed,
        method=column,
        metric=score.metric,
        value=score.value,
        n=score.n,
        stderr=score.stderr,
        seconds=round(entry.seconds, 1),
        ci_low=score.ci_low,
        ci_high=score.ci_high,
        handed_over=entry.what,
        trials=entry.trials,
        p_against_base_better=_p(compared.get("p_against_base_better")),
        p_against_default=_p(compared.get("p_against_default")),
        p_against_random=_p(compared.get("p_against_random")),
    )


def _p(comparison: Comparison | None) -> float | None:
    return comparison.p_value if comparison else None
