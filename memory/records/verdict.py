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


class SweepPoint(Record):
    """A step of the learning-rate sweep."""

    rate: float
    loss: float
    """Smoothed over the steps before it."""


class Verdict(Record):
    """The validator's checks, cheap ones first; the first failed check ends the list."""

    checks: tuple[Check, ...]
    step_seconds: float = Field(ge=0)
    """Seconds of one optimiser step, measured by the micro-run or by an earlier training of the run."""
    predicted_seconds: float = Field(ge=0)
    """Time of all optimiser steps at that pace; start-up, snapshots and merge left out."""
    tokens: int = Field(ge=0)
    """Tokens of one epoch."""
    supervised_tokens: int = Field(ge=0)
    """Tokens of one epoch that carry a loss."""
    longest_row: int = Field(ge=0)
    """Tokens of the longest row."""
    padded_tokens: int = Field(default=0, ge=0)
    """Tokens of one epoch with padding: what the time goes with."""
    memory_bytes: int = Field(default=0, ge=0)
    """Peak memory of the training by estimate, for the longest row as it was measured; 0 where nothing was
    tokenised."""
    sweep: tuple[SweepPoint, ...] = ()
    """Loss while the learning rate rises over a few dozen steps; empty where no sweep was made."""
    diverges_at: float | None = None
    """The learning rate from which on the loss of the sweep leaves its best; None where it never did."""
