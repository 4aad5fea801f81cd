"""What can be wrong with the rows of a training file before any engine is asked: cheap checks, each with a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from memory.records import Check
from tools.benchmarks.benchmark import Benchmark, Item
from tools.data import TrainingRow, read_training_rows
from tools.operators.rows import folded, item_id

MAX_DUPLICATES = 0.05
"""Share of rows that may repeat an earlier one; more is as good as extra epochs for those rows alone."""
MAX_CONFLICTS = 0.01
"""Share of rows that may answer the same question otherwise than an earlier row: label noise of raw sources."""


def check_rows(
    path: Path, benchmark: Benchmark, items: Mapping[str, Item], *, pairs: bool = False
) -> tuple[Check, ...]:
    """Check a training file; `items` are the benchmark's training items by id, `pairs` says whether it must be one of
    pairs.

    Raises TrialError DATA for a malformed row, with its number; all else comes back as checks, passed or not.
    """
    rows = read_training_rows(path)
    numbered = list(enumerate(rows, 1))
    return (
        Check(name="schema", figure=len(rows), unit="rows", passed=bool(rows), says=f"{len(rows)} well-formed rows"),
        _texts(numbered),
        _golds(numbered, benchmark, items),
        *((_rejected(numbered, benchmark, items),) if pairs else ()),
        _duplicates(rows),
        _conflicts(rows, benchmark),
        _spellings(rows, benchmark.closed_answers),
    )


def _texts(numbered: Sequence[tuple[int, TrainingRow]]) -> Check:
    empty = [number for number, row in numbered if not row.prompt.strip() or not row.answer.strip()]
    says = (
        f"row {empty[0]} is the first of {len(empty)} with an empty question or answer"
        if empty
        else "no empty question or answer"
    )
    return Check(name="empty texts", figure=len(empty), unit="rows", passed=not empty, says=says)


def _golds(numbered: Sequence[tuple[int, TrainingRow]], benchmark: Benchmark, items: Mapping[str, Item]) -> Check:
    """Every answer of a row from the benchmark, a model's own included, is scored like a model's output; nothing but
    the full mark will do."""
    own = [(number, row) for number, row in numbered if row.source == benchmark.name]
    wrong: list[str] = []
    for number, row in own:
        item = items.get(row.id) or items.get(item_id(row.id))
        if item is None:
            wrong.append(f"row {number} ({row.id}) is no training item of {benchmark.name}")
            continue
        graded = benchmark.grade(row.answer, item)
        if graded.score < 1:
            what = "holds no answer" if graded.answer is None else f"scores {graded.score:g}"
            whose = "the model's own answer" if row.answered_by == "model" else "the answer"
            wrong.append(f"row {number} ({row.id}): {whose} {row.answer[:40]!r} {what}")
    distilled = sum(row.answered_by == "model" for _, row in own)
    says = (
        f"{wrong[0]}; {len(wrong)} such rows"
        if wrong
        else f"the scorer gives 1 to all {len(own)} answers of {benchmark.name}"
        + (f", {distilled} of them a model's own" if distilled else "")
    )
    return Check(name="golds", figure=len(own) - len(wrong), unit="rows that score 1", passed=not wrong, says=says)


def _rejected(numbered: Sequence[tuple[int, TrainingRow]], benchmark: Benchmark, items: Mapping[str, Item]) -> Check:
    """Every row has an answer to reject, and the scorer gives it nothing."""
    wrong: list[str] = []
    for number, row in numbered:
        item = items.get(row.id) or items.get(item_id(row.id))
        if item is None or not (row.rejected or "").strip():
            wrong.append(f"row {number} ({row.id}) has no answer to reject that the scorer could judge")
        elif (score := benchmark.grade(row.rejected or "", item).score) > 0:
            wrong.append(f"row {number} ({row.id}): the rejected answer {(row.rejected or '')[:40]!r} scores {score:g}")
    says = f"{wrong[0]}; {len(wrong)} such rows" if wrong else f"the scorer gives 0 to all {len(numbered)} of them"
    return Check(
        name="rejected", figure=len(numbered) - len(wrong), unit="rows that score 0", passed=not wrong, says=says
    )


def _duplicates(rows: Sequence[TrainingRow]) -> Check:
    distinct = len({(folded(row.prompt), folded(row.answer)) for row in rows})
    share = 1 - distinct / len(rows) if rows else 0.0
    says = f"{len(rows) - distinct} of {len(rows)} rows repeat another ({MAX_DUPLICATES:.0%} may)"
    return Check(
        name="duplicates", figure=round(share, 4), unit="share of rows", passed=share <= MAX_DUPLICATES, says=says
    )


def _conflicts(rows: Sequence[TrainingRow], benchmark: Benchmark) -> Check:
    """One question with two answers. Several right answers to one item of the benchmark are none: the scorer gave each
    the full mark."""
    first: dict[str, TrainingRow] = {}
    against = sum(_contradicts(first.setdefault(folded(row.prompt), row), row, benchmark) for row in rows)
    share = against / len(rows) if rows else 0.0
    says = f"{against} of {len(rows)} rows answer a question otherwise than an earlier row ({MAX_CONFLICTS:.0%} may)"
    return Check(
        name="conflicts", figure=round(share, 4), unit="share of rows", passed=share <= MAX_CONFLICTS, says=says
    )


def _contradicts(earlier: TrainingRow, row: TrainingRow, benchmark: Benchmark) -> bool:
    one_item = earlier.source == row.source == benchmark.name and item_id(earlier.id) == item_id(row.id)
    return not one_item and folded(earlier.answer) != folded(row.answer)


def _spellings(rows: Sequence[TrainingRow], closed_answers: tuple[str, ...] | None) -> Check:
    """Closed answers in one spelling each; where answers are open, two spellings may be two answers. A model's own
    outputs are what the scorer accepted, however they are spelt."""
    if closed_answers is None:
        return Check(
            name="spellings", figure=0, unit="answers", passed=True, says="answers are open: spellings are not compared"
        )
    official = {folded(answer): answer for answer in closed_answers}
    odd = sorted(
        {
            row.answer
            for row in rows
            if row.answered_by == "source"
            and folded(row.answer) in official
            and row.answer != official[folded(row.answer)]
        }
    )
    says = (
        f"{odd[0]!r} stands for {official[folded(odd[0])]!r}; {len(odd)} such spellings"
        if odd
        else "each answer has one spelling"
    )
    return Check(name="spellings", figure=len(odd), unit="answers", passed=not odd, says=says)
