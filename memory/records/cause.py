"""What is to blame for what is still wrong in a scored trial, each cause with the figure that shows it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from memory.records.record import Record

Blamed = Literal["data", "training", "format", "evaluation"]
"""data: the rows do not hold what the questions ask for. training: the rows were not learnt, or too well. format: right
or not, the answer is in no form that the scorer reads. evaluation: the scoring itself is at fault."""

CauseName = Literal[
    "gold scored wrong",
    "limit too low",
    "trained answers not given",
    "no answer",
    "wrong form",
    "cut at the limit",
    "loss did not fall",
    "loss spikes",
    "ended too early",
    "trained too long",
    "loops",
    "one answer for all",
    "too many passes",
    "too few rows",
    "rare in the rows",
    "longer than any row",
]
"""What rules can find; `tools/causes/rules.py` has them."""


class Cause(Record):
    """One thing that is wrong, and the figure that shows it."""

    name: CauseName
    blamed: Blamed
    says: str
    """One sentence with the figure."""
    figure: float
    threshold: float
    """The figure lies beyond it."""
    reason: str
    """Why the threshold is what it is."""
    share: float = Field(ge=0, le=1)
    """Share of the validation outputs that it accounts for, at most."""
    examples: tuple[str, ...] = ()
    """Ids of validation items; none where the figure is not about single outputs."""


class ClassRate(Record):
    """How often the answers to one kind of question are wrong."""

    name: str
    """A closed answer that is the gold, or a part of the benchmark."""
    wrong: int = Field(ge=0)
    """Outputs without the full mark."""
    n: int = Field(ge=1)
    """Outputs."""
    rows: int | None = None
    """Training rows of this kind; None where that is not known."""


class OutputClass(Record):
    """Wrong outputs that a language model found to be of one kind."""

    name: str
    count: int = Field(ge=1)
    examples: tuple[str, ...]
    """Ids of all of them that were read."""


class Reading(Record):
    """What a language model says about a sample of wrong outputs. It explains; it decides nothing."""

    model: str
    read: int = Field(ge=1)
    """Wrong outputs that it was shown, drawn at random."""
    wrong: int = Field(ge=1)
    """All wrong outputs."""
    classes: tuple[OutputClass, ...]
    """The most frequent first; together they may leave some of what was read out."""
    shared: str
    blamed: Blamed


class Blame(Record):
    """What is to blame for what is still wrong in a trial."""

    to: Literal["data", "training", "format", "evaluation", "none"]
    """What accounts for most; `none` where no rule finds more than the model's capacity or noise."""
    says: str
    """One line."""
    causes: tuple[Cause, ...] = ()
    """What accounts for most first."""
    rates: tuple[ClassRate, ...] = ()
    """By kind of question, the most often wrong first, 12 at most; empty where the benchmark has no kinds."""
    reading: Reading | None = None
    """None where no model was asked, or where it failed, which was said then."""
