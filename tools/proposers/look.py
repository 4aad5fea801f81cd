"""One scored trial under the eyes of the rules: what its figures say, and the form of a diagnosis."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import hypot

from memory.records import Record, Score, Trial
from tools.proposers.brief import Brief
from tools.proposers.curves import Curve, curve_of
from tools.proposers.factors import Recipe, Value, changed, factors, shown
from tools.proposers.history import rows_seen

WORTHWHILE = 1.25
"""Growth below this factor is not worth a trial."""
LEARNT = 0.9
"""Score on trained rows from which they count as learnt."""


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
class Look:
    """One scored trial under the eyes of the rules."""

    brief: Brief
    trial: Trial
    score: Score
    recipe: Recipe

    @cached_property
    def curve(self) -> Curve | None:
        """Shape of the training curve."""
        return curve_of(self.trial.training.losses) if self.trial.training else None

    @cached_property
    def smooth(self) -> bool:
        """No sign of too high a learning rate."""
        return self.curve is not None and self.curve.smooth

    @cached_property
    def falling(self) -> bool:
        """The loss still fell at the end."""
        return self.curve is not None and self.curve.falling

    @cached_property
    def gap(self) -> float:
        """Score on trained rows minus score on validation, turned, less twice its standard error; 0 where
        unmeasured."""
        train = self.trial.train_score
        if train is None:
            return 0.0
        noise = hypot(train.stderr, self.score.stderr)
        return max(0.0, self.brief.turned(train.value) - self.brief.turned(self.score.value) - 2 * noise)

    @cached_property
    def overfit(self) -> bool:
        """Trained rows are known clearly better than new ones."""
        return self.gap > 0.05

    @cached_property
    def learnt(self) -> bool:
        """The trained rows are known."""
        train = self.trial.train_score
        return train is not None and self.brief.headroom(self.brief.turned(train.value)) <= 1 - LEARNT

    @cached_property
    def underfit(self) -> bool:
        """Not even the trained rows are known, and new ones are no worse."""
        return self.trial.train_score is not None and not self.overfit and not self.learnt

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
