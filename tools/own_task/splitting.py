"""The splits of a person's own data: the files that were given, or parts of the training file, chosen by content.

A held-out part is chosen by a hash of the normalised question and the seed, so that neither the order of the rows nor a
new row elsewhere moves a row from one split to another without need. Rows of one group move together. Closed answers
are as frequent in each part as in the whole, as far as whole groups allow; a class keeps a row for training. What is
held out stays held out: training rows that repeat it, exactly or nearly, make way.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from itertools import islice

from memory.errors import InputError
from memory.records import HeldOut, OwnFile, OwnTask
from tools.benchmarks.benchmark import Item, Split
from tools.decontamination import Text, check, fingerprints
from tools.own_task.findings import Finding, Findings, counted, finding
from tools.own_task.shapes import OwnRow
from tools.own_task.survey import item_of, load, survey
from tools.statistics import wilson

HELD_OUT: tuple[Split, Split] = ("test", "validation")
HELD_OUT_SHARE = 0.2
"""Of the training file, for each held-out split that was not given."""
HELD_OUT_AT_MOST = 200
"""Items of a held-out split whose size was not given: a score then has an interval of 7 points to each side."""
FEWEST_HELD_OUT = 6
"""With fewer items no gain can be told from noise: five items won and none lost have p = 0.0625 (exact McNemar)."""
FEWEST_TRAIN = 10
"""Five worked examples for the baseline, and as many again to learn from."""
FEW = 100
"""Held-out items under which the width of the error bar is said beforehand."""
LOOKED_AHEAD = 16
"""Groups of one answer that are compared for the next place, in the order of their hashes."""


@dataclass(frozen=True)
class OwnSplits:
    """The splits, and what was found on the way."""

    items: dict[Split, list[Item]]
    repeats: dict[Split, int]
    """Rows left out of each because the same question is held out."""
    findings: Findings


@dataclass(frozen=True)
class Unit:
    """Rows that must stay together."""

    rank: str
    """Place in the random order."""
    rows: tuple[OwnRow, ...]
    answers: Counter[str]
    """Rows of each class; one class where answers are open or not to be balanced."""


@lru_cache(maxsize=1)
def own_splits(task: OwnTask, seed: int) -> OwnSplits:
    """Read, survey and split the person's files. The command line asks for it, so that refusals come early, and the run
    again, to write the splits: they are worked out once.

    Raises InputError for what cannot be read, rows that cannot be right, and splits that would be too small.
    """
    seen = survey(task, load(task))
    found = list(seen.found)
    apart = Apart(task, found)
    rest = seen.rows["train"]
    rows: dict[Split, list[OwnRow]] = {split: seen.rows[split] for split in HELD_OUT if split in seen.rows}
    if len(rows) == 2:
        rows["validation"] = apart.without_copies("validation", rows["validation"], {"test": rows["test"]})
    rest = apart.without_copies("train", rest, rows)
    given: dict[Split, HeldOut] = {"test": task.test, "validation": task.validation}
    sizes = {split: _size(size, len(rest)) for split, size in given.items() if not isinstance(size, OwnFile)}
    _check_room(task, len(rest), sizes, found)
    for split, size in sizes.items():
        rows[split], rest = _held_out(task, rest, size, seed)
    if "validation" in sizes:
        rows["validation"] = apart.without_copies("validation", rows["validation"], {"test": rows["test"]})
    rows["train"] = apart.without_copies("train", rest, {split: rows[split] for split in sizes})
    _check_sizes(task, rows, sizes, found)
    found += _error_bars(rows)
    items = {split: [item_of(row, _id(row)) for row in _shuffled(rows[split], seed)] for split in (*HELD_OUT, "train")}
    usable = sum(map(len, rows.values()))
    return OwnSplits(items, apart.repeats, Findings(task=task.name, rows=seen.read, usable=usable, found=tuple(found)))


def _shuffled(rows: Sequence[OwnRow], seed: int) -> list[OwnRow]:
    """Rows in a random order that their content decides: the first ones are worked examples, or a sample."""
    return sorted(rows, key=lambda row: _rank(row.question, seed))


def _size(wanted: int | float | None, rows: int) -> int:
    """Items of a held-out split that is taken from `rows` rows."""
    if wanted is None:
        return min(HELD_OUT_AT_MOST, max(FEWEST_HELD_OUT, round(HELD_OUT_SHARE * rows)))
    return round(wanted * rows) if isinstance(wanted, float) else wanted


def _check_room(task: OwnTask, rows: int, sizes: dict[Split, int], found: Sequence[Finding]) -> None:
    """Raises InputError where the training file cannot give what is wanted of it."""
    small = [split for split, size in sizes.items() if size < FEWEST_HELD_OUT]
    if small:
        raise InputError(
            f"a {small[0]} split of {sizes[small[0]]} items shows nothing: {FEWEST_HELD_OUT} are needed to tell a gain "
            "from noise",
            f"Set {small[0]} in the task file to {FEWEST_HELD_OUT} rows at least; 100 are better.",
        )
    needed = sum(sizes.values()) + FEWEST_TRAIN
    if rows < needed:
        parts = [f"{FEWEST_TRAIN} to train on", *(f"{size} of {split}" for split, size in sizes.items())]
        raise InputError(
            f"{task.name} has {rows} usable questions{_left_out(found)}, and needs {needed}: {', '.join(parts)}",
            "Add rows" + (", or ask for smaller splits." if sizes else "."),
        )


def _left_out(found: Sequence[Finding]) -> str:
    """What was left out before, in brackets."""
    lines = [f"{one.left_out} {one.kind}" for one in found if one.left_out]
    return f" (left out: {', '.join(lines)})" if lines else ""


# --- choosing ------------------------------------------------------------------------------------------------------


def _held_out(task: OwnTask, rows: Sequence[OwnRow], size: int, seed: int) -> tuple[list[OwnRow], list[OwnRow]]:
    """About `size` rows in whole groups, and the rest.

    One unit after the other: of the first few of each class, by hash, the one that brings the classes closest to their
    shares (least sum of squares); ties go to the lower hash.
    """
    units = _units(task, rows, seed)
    balanced = task.stratify and task.answers is not None
    left: Counter[str] = Counter()
    for unit in units:
        left.update(unit.answers)
    target = {answer: size * count / len(rows) for answer, count in left.items()}
    queues: dict[str, deque[Unit]] = {}
    for unit in units:
        queues.setdefault(max(sorted(unit.answers), key=lambda answer: unit.answers[answer]), deque()).append(unit)
    chosen: list[Unit] = []
    taken: Counter[str] = Counter()

    def fits(unit: Unit) -> bool:
        keeps = all(left[answer] > count for answer, count in unit.answers.items())
        return taken.total() + len(unit.rows) / 2 <= size and (keeps or not balanced)

    def cost(unit: Unit) -> float:
        return sum(count * (2 * (taken[answer] - target[answer]) + count) for answer, count in unit.answers.items())

    while taken.total() < size:
        heads = [(name, unit) for name, queue in queues.items() for unit in islice(queue, LOOKED_AHEAD) if fits(unit)]
        if not heads:
            break
        name, unit = min(heads, key=lambda head: (cost(head[1]), head[1].rank))
        queues[name].remove(unit)
        chosen.append(unit)
        taken.update(unit.answers)
        left.subtract(unit.answers)
    held = [row for unit in chosen for row in unit.rows]
    out = set(map(id, held))
    return held, [row for row in rows if id(row) not in out]


def _units(task: OwnTask, rows: Sequence[OwnRow], seed: int) -> list[Unit]:
    """Rows of one group together, in the order of their hashes; a row without a group stands alone."""
    together: dict[str, list[OwnRow]] = {}
    for row in rows:
        key = f"group\0{row.group}" if row.group else row.question
        together.setdefault(key, []).append(row)
    classes = task.stratify and task.answers is not None
    units = [
        Unit(
            _rank(key, seed),
            tuple(own),
            Counter(row.answer if classes else "" for row in own),
        )
        for key, own in together.items()
    ]
    return sorted(units, key=lambda unit: unit.rank)


def _rank(key: str, seed: int) -> str:
    """A place in a random order that depends on seed and content alone."""
    return blake2b(f"{seed}\0{key}".encode(), digest_size=16).hexdigest()


def _id(row: OwnRow) -> str:
    """Unique in the benchmark, and leads back to the row."""
    return f"row-{row.number}" if row.part == "train" else f"{row.part}-row-{row.number}"


# --- keeping apart -------------------------------------------------------------------------------------------------


@dataclass
class Apart:
    """Keeps the splits apart, and counts."""

    task: OwnTask
    found: list[Finding]
    """Grows by what is left out."""
    repeats: dict[Split, int] = field(default_factory=lambda: {"train": 0, "validation": 0, "test": 0})
    """Rows of each split that repeated a held-out one exactly."""

    def without_copies(
        self, split: Split, rows: list[OwnRow], held_out: Mapping[Split, Sequence[OwnRow]]
    ) -> list[OwnRow]:
        """The rows of a split that repeat no held-out row, exactly or nearly, and share no group with one."""
        if not held_out:
            return rows
        rows = self._of_other_groups(split, rows, held_out)
        prints = [fingerprints(other, [(_id(row), row.prompt) for row in own]) for other, own in held_out.items()]
        report = check([Text(_id(row), row.prompt, row.answer) for row in rows], prints)
        hits = {hit.row: hit for hit in report.hits if hit.kind == "exact" or not self.task.templated}
        self.repeats[split] += sum(hit.kind == "exact" for hit in report.hits)
        for kind, what in (("exact", "repeating"), ("near", "nearly repeating")):
            for other in held_out:
                copies = [row for row in rows if (hit := hits.get(_id(row))) and (hit.kind, hit.split) == (kind, other)]
                if copies:
                    says = f"{counted(len(copies), f'{split} row')} {what} a {other} row: left out of {split}"
                    if kind == "near":
                        says += "; where questions come from a template, set templated = true"
                    self.found.append(finding("copy", copies, says, len(copies)))
        return [row for row in rows if _id(row) not in hits]

    def _of_other_groups(
        self, split: Split, rows: list[OwnRow], held_out: Mapping[Split, Sequence[OwnRow]]
    ) -> list[OwnRow]:
        groups = {row.group for own in held_out.values() for row in own if row.group}
        shared = [row for row in rows if row.group in groups]
        if shared:
            says = f"{counted(len(shared), f'{split} row')} whose {self.task.group} is held out in "
            says += f"{' or '.join(held_out)}: left out"
            self.found.append(finding("group", shared, says, len(shared)))
        return [row for row in rows if row.group not in groups]


def _check_sizes(
    task: OwnTask, rows: dict[Split, list[OwnRow]], sizes: dict[Split, int], found: Sequence[Finding]
) -> None:
    """Raises InputError where a split came out too small to train on, or to tell a gain from noise."""
    for split, own in rows.items():
        fewest = FEWEST_HELD_OUT if split in HELD_OUT else FEWEST_TRAIN
        if len(own) >= fewest:
            continue
        why = f"the {split} split has {counted(len(own), 'usable row')}{_left_out(found)}, and needs {fewest}"
        if task.group:
            groups = len({row.group for part in rows.values() for row in part})
            why += f"; the column {task.group!r} makes {counted(groups, 'group')}, which are not cut"
        raise InputError(why, "Add rows, or change the splits in the task file.")


def _error_bars(rows: dict[Split, list[OwnRow]]) -> list[Finding]:
    found = []
    for split in HELD_OUT:
        count = len(rows[split])
        if count < FEW:
            interval = wilson(count // 2, count)
            half = 50 * (interval.high - interval.low)
            says = f"only {count} {split} items: a score near one half is known to {half:.0f} points up or down, and "
            says += "smaller gains cannot be shown"
            found.append(Finding(kind="error bar", rows=count, says=says))
    return found
