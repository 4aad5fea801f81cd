"""What each change did over a run, on validation, and how good the planner's expectations were."""

from __future__ import annotations

from pydantic import Field

from memory.records.plan import Change
from memory.records.record import Record
from memory.records.score import Comparison


class Contrast(Record):
    """A recipe against the one that it grew from: what differs between the two, and what came of it on the same
    items."""

    trials: tuple[int, ...]
    """The trainings of the recipe, oldest first: one for each seed."""
    against: tuple[int, ...]
    """Those of the recipe that it is compared with; empty for the untouched model."""
    changes: tuple[Change, ...] = Field(min_length=1)
    """One where the difference is the effect of that change; several where it cannot be told which of them did it."""
    along: tuple[Change, ...] = ()
    """Settings that cannot stay when the changed one moves, such as the epochs of a training that goes on from another;
    their part in the effect is not told apart."""
    comparison: Comparison
    """Over all trainings of both sides, each item by its mean."""
    apart: tuple[float, ...]
    """What each training alone differs by, in the order of `trials`: how much a seed moves it."""

    @property
    def attributed(self) -> bool:
        """Whether one change alone can have done it."""
        return len(self.changes) == 1


class Prediction(Record):
    """What a plan expected, and what was measured: both against the incumbent of that moment."""

    trial: int
    proposer: str
    expected: float
    measured: Comparison

    @property
    def covered(self) -> bool:
        """Whether the measured 95 % interval holds the expectation."""
        return self.measured.ci_low <= self.expected <= self.measured.ci_high


class Foresight(Record):
    """How good the expectations of one planner were, over its scored trials."""

    proposer: str
    n: int = Field(ge=1)
    error: float = Field(ge=0)
    """Mean absolute difference between expectation and measurement, in units of the metric."""
    error_of_none: float = Field(ge=0)
    """The same for who expects no change, ever: what a planner has to beat."""
    bias: float
    """Mean of expectation minus measurement; positive where too much was hoped for."""
    signs: int = Field(ge=0)
    """Plans that expected a rise or a fall, and not no change."""
    signs_right: int = Field(ge=0)
    """Those of them for which the measured difference had the expected sign; no difference is not right."""
    covered: int = Field(ge=0)
    """Plans whose expectation lies within the measured 95 % interval."""


class Attribution(Record):
    """All of it, from the trials of a run."""

    contrasts: tuple[Contrast, ...] = ()
    """In the order of the trials; those of several changes among them."""
    predictions: tuple[Prediction, ...] = ()
    """Without repeats of a recipe under another seed: they expect what was measured before."""
    foresight: tuple[Foresight, ...] = ()
    """By who planned."""
