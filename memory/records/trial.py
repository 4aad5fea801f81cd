"""A plan and all that came of it; the baseline before, and the sealed test at the end."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from memory.records.cause import Blame
from memory.records.dataset import DatasetCard
from memory.records.plan import Plan
from memory.records.record import Decision, Record
from memory.records.score import Comparison, ConstantAnswer, ErrorClass, GuardScore, Score
from memory.records.task import BaseModelCard
from memory.records.training import TrainingRun
from memory.records.verdict import Failure, Verdict

Effect = Literal["helped", "hurt", "unclear"]
"""What a change did to the metric against the trial that it changed; unclear where p >= 0.05."""


class Lesson(Record):
    """What one or more trials taught, with the figures that show it."""

    text: str
    trials: tuple[int, ...]
    evidence: str
    effect: Effect = "unclear"
    factor: str = ""
    """The one factor that was changed; empty where there was no such one, so that it says nothing about others."""
    way: str = ""
    """`up`, `down`, `on` (with trained weights), or the new value of a factor that is no number."""
    steps: tuple[str, ...] = ()
    """Each change of the factor, as `before -> after`."""
    retired: str = ""
    """Why it no longer holds; empty while it does."""

    @property
    def says(self) -> str:
        """All of it in a line."""
        return f"{self.text} ({self.evidence})" + (f". Retired: {self.retired}" if self.retired else "")


class Trial(Record):
    """A plan and all that came of it. A failed trial is a trial like any other."""

    plan: Plan
    decision: Decision
    arithmetic: str
    """The numbers that made the decision, in one line."""
    dataset: DatasetCard | None = None
    verdict: Verdict | None = None
    training: TrainingRun | None = None
    score: Score | None = None
    """On validation."""
    train_score: Score | None = None
    """On a sample of the rows that were trained on: tells under-fitting from over-fitting."""
    comparison: Comparison | None = None
    """Against the incumbent of that moment; over all seeds of the recipe where the plan repeats one."""
    guards: tuple[GuardScore, ...] = ()
    """Other benchmarks; measured where the trial rose."""
    errors: tuple[ErrorClass, ...] = ()
    blame: Blame | None = None
    """What is to blame for what is still wrong; None where nothing was scored, and in runs of before it was asked."""
    expectation_met: bool | None = None
    """Whether the gain reached the plan's expectation; None where nothing was scored."""
    failure: Failure | None = None
    seconds: float = Field(ge=0)
    """Wall clock from plan to decision."""

    @property
    def number(self) -> int:
        """The trial's number, from 1."""
        return self.plan.number


class Baseline(Record):
    """The untouched model on validation: what every trial has to beat."""

    model: BaseModelCard
    zero_shot: Score
    few_shot: Score
    constant: ConstantAnswer | None = None
    """None where answers are open."""
    guards: tuple[GuardScore, ...] = ()
    """Other benchmarks before any tuning."""

    @property
    def better(self) -> Score:
        """The better of the two prompts; a first trial is compared with it."""
        return max(self.zero_shot, self.few_shot, key=lambda score: score.oriented)


class SealedTest(Record):
    """The sealed test, opened once."""

    zero_shot: Score
    few_shot: Score
    tuned: Score | None
    """None where no trial was accepted."""
    winner: int | None
    """The trial that was scored and is handed over."""
    against_zero: Comparison | None
    against_few: Comparison | None
    constant: ConstantAnswer | None
