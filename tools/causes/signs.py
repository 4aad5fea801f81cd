"""What the figures and the outputs of one scored trial say: the shape of its curve, trained rows against new ones,
errors by class and by kind of question. The planner's rules and those of the blame build upon them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import hypot

from memory.records import ClassRate, Outcome, Score, Trial
from tools.judgement import ErrorName, error_class
from tools.proposers.curves import Curve, curve_of

LEARNT = 0.9
"""Score on trained rows from which they count as learnt."""
OVERFIT = 0.05
"""Of the metric: trained rows so far above new ones, beyond two standard errors, are known by heart."""
UNPARSED = 0.05
"""Share of outputs without an answer that speaks of the format, and not of single questions (practice: 2 to 5 %)."""
ENDLESS = 0.02
"""Share of outputs that loop or run into the token limit from which on they are no accident (practice: 1 to 2 %)."""
LABEL_CHARS = 40
"""Of what data can name itself, where it is named in a sentence."""


@dataclass(frozen=True)
class Signs:
    """A scored trial's figures, read one by one."""

    trial: Trial
    score: Score

    @property
    def ceiling(self) -> float | None:
        """The best value that the metric can have, turned; None where it cannot be known."""
        if not self.score.higher_is_better:
            return 0.0
        return 1.0 if self.score.is_share else None

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
        return max(0.0, train.oriented - self.score.oriented - 2 * hypot(train.stderr, self.score.stderr))

    @cached_property
    def overfit(self) -> bool:
        """Trained rows are known clearly better than new ones."""
        return self.gap > OVERFIT

    @cached_property
    def learnt(self) -> bool:
        """The trained rows are known."""
        train, ceiling = self.trial.train_score, self.ceiling
        return train is not None and ceiling is not None and ceiling - train.oriented <= 1 - LEARNT

    @cached_property
    def underfit(self) -> bool:
        """Not even the trained rows are known, and new ones are no worse."""
        return self.trial.train_score is not None and not self.overfit and not self.learnt

    @cached_property
    def outputs(self) -> int:
        """Outputs on validation."""
        return self.score.n * self.score.samples

    @cached_property
    def unparsed(self) -> float:
        """Share of outputs that hold no answer."""
        return 1 - self.score.parsed / self.outputs

    @cached_property
    def endless(self) -> int:
        """Outputs that loop or hit the token limit."""
        loops = sum(error.count for error in self.trial.errors if error.name == "repetition")
        return max(loops, self.score.truncated)


@dataclass(frozen=True)
class Case(Signs):
    """A scored trial with its outputs."""

    outcomes: Sequence[Outcome]
    """On validation; those of the trial's score."""
    closed_answers: tuple[str, ...] | None
    rows: Mapping[str, int] | None = None
    """Training rows by kind of question; None where that is not known."""

    @cached_property
    def wrong(self) -> list[Outcome]:
        """Outputs without the full mark."""
        return [outcome for outcome in self.outcomes if outcome.score < 1]

    @cached_property
    def wrong_share(self) -> float:
        """Their share."""
        return len(self.wrong) / len(self.outcomes)

    @cached_property
    def classes(self) -> dict[ErrorName, list[Outcome]]:
        """The wrong outputs by class of error."""
        found: dict[ErrorName, list[Outcome]] = {}
        for outcome in self.wrong:
            found.setdefault(error_class(outcome, self.closed_answers), []).append(outcome)
        return found

    @cached_property
    def firsts(self) -> list[Outcome]:
        """One output of each item: further samples of it are no further evidence about kinds of questions."""
        return [outcome for outcome in self.outcomes if outcome.sample == 0]

    def kind_of(self, outcome: Outcome) -> str:
        """The kind of question that an output is for."""
        return kind_of(outcome.gold, outcome.subset, self.closed_answers)

    def rows_share(self, kind: str) -> float | None:
        """A kind's share of the training rows; None where that is not known."""
        total = sum(self.rows.values()) if self.rows else 0
        return self.rows.get(kind, 0) / total if self.rows and total else None

    @cached_property
    def rates(self) -> tuple[ClassRate, ...]:
        """Wrong outputs by kind of question, the most often wrong first; none where there is one kind alone."""
        kinds: dict[str, list[Outcome]] = {}
        for outcome in self.firsts:
            kinds.setdefault(self.kind_of(outcome), []).append(outcome)
        if len(kinds) < 2:
            return ()
        rates = [
            ClassRate(
                name=name, wrong=sum(outcome.score < 1 for outcome in asked), n=len(asked),
                rows=None if self.rows is None else self.rows.get(name, 0),
            )
            for name, asked in kinds.items()
        ]  # fmt: skip
        return tuple(sorted(rates, key=lambda rate: -rate.wrong / rate.n))


def kind_of(gold: str, subset: str, closed_answers: Sequence[str] | None) -> str:
    """The kind of a question: its right answer where there are few, else the part of the benchmark."""
    return subset if closed_answers is None else gold
