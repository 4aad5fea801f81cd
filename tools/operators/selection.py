"""Which rows are taken, and in which order they stand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from memory.errors import TrialError
from memory.records import Order, Select
from tools.operators.mixing import interleaved
from tools.operators.rows import Kept, Row, Supplies, dropped, rank

MEASURE_FIRST = "Put pass_rate or self_distil before it."


def select(operator: Select, rows: list[Row], supplies: Supplies, step: str) -> Kept:
    """The chosen rows in the order of their ranks: with one seed, a larger selection begins with a smaller one, and
    one that skips it goes on where it ended."""
    ranked = sorted(rows, key=lambda row: rank(row, operator.seed))
    own = [row for row in ranked if row.source not in supplies.shares]
    unmeasured: list[Row] = []
    match operator.balance:
        case "answer":
            own = _round_robin(own, lambda row: row.answer)
        case "length":
            own = _round_robin(own, _third_of_length(own))
        case "difficulty":
            unmeasured = [row for row in own if row.pass_rate is None]
            own = _round_robin([row for row in own if row.pass_rate is not None], _third_of_pass_rate)
            if not own:
                raise TrialError("CONFIG", f"{step}: no row has a pass rate", MEASURE_FIRST)
    others = {name: [row for row in ranked if row.source == name] for name in supplies.shares}
    queues = {"": own} | {name: queue for name, queue in others.items() if queue}
    shares = {"": 1 - sum(supplies.shares.values()), **supplies.shares}
    ordered = interleaved(queues, shares) if len(queues) > 1 else own
    end = operator.skip + operator.rows
    return Kept(
        [row.passed(step) for row in ordered[operator.skip : end]],
        dropped("without a pass rate", unmeasured)
        + dropped(f"among the first {operator.skip}, which are skipped", ordered[: operator.skip])
        + dropped(f"not among the {operator.rows} selected", ordered[end:]),
    )


def order(operator: Order, rows: list[Row], step: str) -> Kept:
    """The same rows, each behind those that are shorter, or easier; between equals, the rank decides."""
    ranked = sorted(rows, key=lambda row: rank(row, operator.seed))
    if operator.by == "random":
        ordered = ranked[::-1] if operator.descending else ranked
    elif operator.by == "length":
        ordered = sorted(ranked, key=lambda row: len(row.prompt) + len(row.answer), reverse=operator.descending)
    else:
        measured = [row for row in ranked if row.pass_rate is not None]
        if not measured:
            raise TrialError("CONFIG", f"{step}: no row has a pass rate", MEASURE_FIRST)
        hard_last = sorted(measured, key=_difficulty, reverse=operator.descending)
        ordered = hard_last + [row for row in ranked if row.pass_rate is None]
    return Kept([row.passed(step) for row in ordered])


def _round_robin(ranked: list[Row], kind: Callable[[Row], str]) -> list[Row]:
    """One row of each kind in turn; a kind that has run out is passed over."""
    turn = [list(group) for _, group in groupby(sorted(ranked, key=kind), kind)]
    longest = max(map(len, turn), default=0)
    return [row for place in range(longest) for group in turn if place < len(group) for row in (group[place],)]


def _third_of_length(rows: Sequence[Row]) -> Callable[[Row], str]:
    """Which third of the range from the shortest to the longest prompt a row is in."""
    lengths = [len(row.prompt) for row in rows]
    least, span = min(lengths, default=0), max(lengths, default=0) - min(lengths, default=0)
    return lambda row: str(min(2, 3 * (len(row.prompt) - least) // span)) if span else "0"


def _third_of_pass_rate(row: Row) -> str:
    """Hard rows, those of the middle, or easy ones: below 1/3, up to 2/3, above."""
    rate = row.pass_rate or 0.0
    return "hard" if rate < 1 / 3 else "middle" if rate <= 2 / 3 else "easy"


def _difficulty(row: Row) -> float:
    return 1 - (row.pass_rate or 0.0)
