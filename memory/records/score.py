"""A measured metric with its error bar, the outcomes behind it, and paired comparisons."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from memory.records.record import Record


class Subset(Record):
    """A score over one part of the items."""

    value: float
    n: int


class Figure(Record):
    """A further measure of the same outputs, shown beside the score; it decides nothing."""

    value: float
    stderr: float = Field(ge=0)
    """Standard error of `value` over items."""
    ci_low: float
    ci_high: float
    """95 % interval, made like that of a score."""
    n: int = Field(ge=1)
    """Items that count: those of whose outputs the measure says something."""
    higher_is_better: bool = True


class Score(Record):
    """A measured metric. It always has n and an error bar; without them it is not a score."""

    metric: str
    higher_is_better: bool = True
    split: Literal["train", "validation", "test"]
    shots: int = Field(ge=0)
    """Worked examples in the prompt."""
    value: float
    n: int = Field(ge=1)
    stderr: float = Field(ge=0)
    """Standard error of `value` over items."""
    ci_low: float
    ci_high: float
    """95 % interval: Wilson for right-or-wrong items, bootstrap over items otherwise."""
    parsed: int = Field(ge=0)
    """Items whose output held an answer at all; the others score 0 and stay in n."""
    truncated: int = Field(default=0, ge=0)
    """Items whose output hit the token limit."""
    samples: int = Field(default=1, ge=1)
    """Samples per item; an item's score is their mean (avg@k)."""
    subsets: dict[str, Subset] = Field(default_factory=dict)
    """The metric on each part of the items that it says something of."""
    others: dict[str, Figure] = Field(default_factory=dict)
    """Further measures by name, the published scorer's (`..._ftdojo`) among them."""
    unmeasured: dict[str, str] = Field(default_factory=dict)
    """Measures that could not be taken, and why. They are never 0 instead."""
    outcomes: str
    """JSONL of `Outcome`, relative to the run's folder."""
    seconds: float = Field(ge=0)
    """Wall clock of the evaluation."""
    generation_seconds: float = Field(default=0.0, ge=0)
    """Part of it in which the server generated."""

    @property
    def oriented(self) -> float:
        """The value, turned so that more is better."""
        return self.value if self.higher_is_better else -self.value

    @property
    def is_share(self) -> bool:
        """Whether the figure reads as a share of the best possible, so that differences are percentage points."""
        return self.higher_is_better and self.ci_low >= 0 and self.ci_high <= 1

    def clearly_beats(self, value: float) -> bool:
        """Whether all of the interval is better than a value."""
        return self.ci_low > value if self.higher_is_better else self.ci_high < value


class Outcome(Record):
    """One output to one item."""

    id: str
    sample: int = 0
    prompt: str
    output: str
    answer: str | None
    """What was extracted from the output; None where nothing was."""
    gold: str
    score: float
    values: dict[str, float] = Field(default_factory=dict)
    """Further figures of this output, by name; one that says nothing of it is left out."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Further answers, by name: what another scorer reads from the output; left out where it reads none."""
    subset: str = ""
    finish: str
    """`stop`, `length` where the token limit cut the output, or `given` where the output came from a file."""
    output_tokens: int | None
    """None where the output came from a file."""


class ConstantAnswer(Record):
    """The best score that one answer, always given, would get: the floor of a closed-answer task."""

    answer: str
    value: float
    n: int


class Comparison(Record):
    """Two scores on the same items, paired."""

    against: str
    """`base zero-shot`, `base few-shot`, or `trial N`."""
    n: int
    difference: float
    """Mean of the per-item differences; positive is better."""
    ci_low: float
    ci_high: float
    wins: int
    losses: int
    p_value: float
    """Two-sided: exact McNemar for right-or-wrong items, paired bootstrap otherwise."""
    method: Literal["mcnemar", "bootstrap"]


class GuardScore(Record):
    """A score on another benchmark, which the tuning must not make worse."""

    benchmark: str
    score: Score
    """In the prompt (zero-shot or few-shot) in which the untouched model is the better."""
    comparison: Comparison | None = None
    """Against the untouched model on the same items; None for the untouched model itself."""


class ErrorClass(Record):
    """Wrong outputs of one kind."""

    name: Literal["unparsable", "truncated", "wrong answer", "repetition", "right answer, wrong format"]
    count: int
    examples: tuple[str, ...] = ()
    """Ids of validation items."""
