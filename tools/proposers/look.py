"""One scored trial under the eyes of the rules: what its figures say, and the form of a diagnosis."""

from __future__ import annotations

from dataclasses import dataclass

from memory.records import Record
from tools.causes.signs import Signs
from tools.proposers.brief import Brief
from tools.proposers.factors import Recipe, Value, changed, factors, shown
from tools.proposers.history import rows_seen

WORTHWHILE = 1.25
"""Growth below this factor is not worth a trial."""


class Diagnosis(Record):
    """One cause that the figures name, and the recipe that answers it by one factor."""

    cause: str
    figure: str
    """The figure that shows it, in words."""
    remedy: str
    factor: str
    recipe: Recipe
    gain: float
    """Share of the headroom that the remedy closes where the diagnosis is right."""
    confidence: float
    source: str


@dataclass(frozen=True)
class Look(Signs):
    """One scored trial under the eyes of the rules."""

    brief: Brief
    recipe: Recipe

    @property
    def ceiling(self) -> float | None:
        """The best value that the metric can have, by all that the run has measured."""
        return self.brief.ceiling

    @property
    def all_rows(self) -> bool:
        """There are no more rows to speak of."""
        return rows_seen(self.brief, self.recipe) * WORTHWHILE > self.brief.rows_available

    def diagnosis(
        self, factor: str, after: Value, cause: str, figure: str, gain: float, confidence: float, source: str
    ) -> Diagnosis:
        """A diagnosis whose remedy sets one factor to `after`."""
        before = factors(self.recipe)[factor]
        recipe = changed(self.recipe, **{factor: after})
        remedy = f"{factor} {shown(before)} -> {shown(after)}"
        return Diagnosis(
            cause=cause,
            figure=figure,
            remedy=remedy,
            factor=factor,
            recipe=recipe,
            gain=gain,
            confidence=confidence,
            source=source,
        )
