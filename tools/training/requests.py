"""What the training worker is asked, and what it answers."""

from __future__ import annotations

from typing import Literal

from memory.records import LossPoint, Record, Snapshot, SweepPoint
from tools.training.config import Device


class Sample(Record):
    """One row as the training sees it."""

    row: int
    """Its number in the training file, from 0."""
    input_ids: tuple[int, ...]
    labels: tuple[int, ...]
    """The token where it carries a loss, -100 where it does not."""


class Preflight(Record):
    """What Axolotl made of recipe and data before anything was trained."""

    rows: int
    """Rows in the training file."""
    dropped: int
    """Rows that training would lose: too long, or unreadable for the chat template. Must be 0."""
    lengths: tuple[int, ...]
    """Tokens of each row, in the order of the file."""
    supervised: tuple[int, ...]
    """Tokens of each row that carry a loss."""
    samples: tuple[Sample, ...]
    total_steps: int
    """Optimiser steps of the whole training."""
    padded_tokens: int
    """Tokens of one epoch with padding."""
    step_seconds: float
    """Seconds of one optimiser step of the recipe; 0 where nothing was timed: no steps were asked for, or rows were
    dropped or have no labels."""
    predicted_seconds: float
    """Seconds of all optimiser steps; start-up, snapshots and merge left out."""
    peak_memory_bytes: int
    timed: str
    """How the step time was measured, in words."""
    losses: tuple[float, ...]
    """Of the sweep, one for each learning rate until one was not a number; empty where none was made."""
    seconds: float
    """Wall clock of the preflight in the engine."""
    sweep: tuple[SweepPoint, ...] = ()
    """The same losses, smoothed, with their learning rates."""
    diverges_at: float | None = None
    """Learning rate from which on the sweep's loss leaves its best; None where it never did."""


class Trained(Record):
    """What the training worker answers; paths are absolute."""

    weights: str
    adapter: str | None
    weights_sha256: str
    losses: tuple[LossPoint, ...]
    steps: int
    planned_steps: int
    step_seconds: float
    tokens: int
    train_seconds: float
    seconds: float
    peak_memory_bytes: int
    resumed_from_step: int
    snapshots: tuple[Snapshot, ...]
    stopped_at_step: int | None


class PreflightRequest(Record):
    """Request to the worker; `identity` hashes configuration, data and base weights."""

    action: Literal["preflight"] = "preflight"
    config: str
    identity: str
    method: str
    device: Device
    steps: int
    samples: int
    rates: tuple[float, ...] = ()
    """Learning rates of the sweep, one optimiser step each."""
    sweep_seconds: float = 0.0
    """A sweep that would take longer, at the pace just measured, is left out."""


class TrainRequest(Record):
    """Request to the worker."""

    action: Literal["train"] = "train"
    config: str
    identity: str
    method: str
    device: Device
    model: str
    checkpoint_every_s: float
    snapshots: int
