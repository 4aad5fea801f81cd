"""Rows of other sources, blended in until they make up their share of the result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from memory.errors import TrialError
from memory.records import Mix, Operator
from tools.operators.rows import Kept, Row, Supplies, rank

TOLERANCE = 0.01
"""How far a share may be off, beside the one row that rounding takes, before the person is told."""


def shares_of(operators: Iterable[Operator]) -> dict[str, float]:
    """The share of each source in the result. Raises TrialError CONFIG where they cannot all be had."""
    mixes = [operator for operator in operators if isinstance(operator, Mix)]
    shares = {mix.source: mix.share for mix in mixes}
    if len(shares) < len(mixes):
        twice = next(mix.source for place, mix in enumerate(mixes) if mix.source in [m.source for m in mixes[:place]])
        raise TrialError("CONFIG", f"two mixes name {twice!r}", "Give a source one mix with its whole share.")
    if (total := sum(shares.values())) >= 1 - 1e-9:
        raise TrialError(
            "CONFIG", f"the mixes take {total:.0%} of the result", "Leave the benchmark's own rows a part of it."
        )
    return shares


def mix(operator: Mix, rows: list[Row], supplies: Supplies, step: str) -> Kept:
    """The rows with so many of the source that all mixes together give their shares.

    Rows of the source are taken in an order that only their content decides, so that a larger share contains a smaller
    one.
    """
    if operator.source not in supplies.sources:
        known = ", ".join(sorted(supplies.sources)) or "none"
        raise TrialError(
            "CONFIG", f"mix names {operator.source!r}, which is no raw source", f"Raw sources of this task: {known}."
        )
    own = sum(row.source not in supplies.shares for row in rows)
    rest = 1 - sum(supplies.shares.values())
    wanted = max(1, round(operator.share / rest * own))
    taken = sorted(supplies.sources[operator.source], key=lambda row: rank(row, 0))[:wanted]
    words = f"{step} ({len(taken)} of {wanted} wanted rows)"
    return Kept([*rows, *(row.passed(words) for row in taken)])


def interleaved(queues: Mapping[str, Sequence[Row]], shares: Mapping[str, float]) -> list[Row]:
    """The rows of all queues, each queue in its own order, so that any number of rows from the start holds the shares,
    to a row, as long as no queue runs out."""
    total = sum(shares[name] for name in queues)
    taken = dict.fromkeys(queues, 0)
    result: list[Row] = []
    for place in range(1, sum(map(len, queues.values())) + 1):
        waiting = [name for name, queue in queues.items() if taken[name] < len(queue)]
        behind = max(waiting, key=lambda name: shares[name] / total * place - taken[name])
        result.append(queues[behind][taken[behind]])
        taken[behind] += 1
    return result


def missed_shares(rows: Sequence[Row], supplies: Supplies) -> tuple[str, ...]:
    """What to say of sources whose share in the result is not what the recipe says."""
    notes = []
    for source, share in supplies.shares.items():
        count = sum(row.source == source for row in rows)
        if abs(count - share * len(rows)) < 1 or abs(count / len(rows) - share) < TOLERANCE:
            continue
        all_of_it = len(supplies.sources[source])
        why = f"it has only {all_of_it} rows" if count >= all_of_it else "later operators dropped or added rows"
        notes.append(f"{source} makes up {count / len(rows):.1%} of the rows, not {share:.1%}: {why}")
    return tuple(notes)
