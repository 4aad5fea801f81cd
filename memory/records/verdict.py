"""What the validator measured, and how a trial fails."""

from __future__ import annotations

from pydantic import Field

from memory.records.record import FailureKind, NodeName, Record


class Check(Record):
    """One thing that the validator measured."""

    name: str
    figure: float
    """The measured figure; `unit` says of what."""
    unit: str
    passed: bool
    says: str
    """One line for a person."""


class Failure(Record):
    """A typed failure of a trial."""

    kind: FailureKind
    node: NodeName
    message: str
    way_out: str = ""


class Verdict(Record):
    """The validator's checks, cheap ones first; the first failed check ends the list."""

    checks: tuple[Check, ...]
    step_seconds: float = Field(ge=0)
    """Seconds of one optimiser step, measured by the micro-run."""
    predicted_seconds: float = Field(ge=0)
    """Training time extrapolated from the micro-run."""
    tokens: int = Field(ge=0)
    """Tokens of one epoch."""
    supervised_tokens: int = Field(ge=0)
    """Tokens of one epoch that carry a loss."""
    longest_row: int = Field(ge=0)
    """Tokens of the longest row."""
