"""Grow from the best trial so far, within its error the one that saw most rows: what a careful person does who has time
for a few trials."""

from __future__ import annotations

from tools.proposers.brief import Brief
from tools.proposers.history import standing
from tools.proposers.moves import moves_of, repairs, worth_most
from tools.proposers.strategies.tree import Choice


def choose(brief: Brief) -> Choice | None:
    """The change that is worth most: of the best trial, or a repair of the last one if that failed."""
    best = standing(brief)
    candidates = repairs(brief, brief.trials[-1])
    if best is not None:
        candidates += moves_of(brief, best)
    chosen = worth_most(brief, candidates)
    return None if chosen is None else Choice(*chosen)
