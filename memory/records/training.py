"""What Axolotl made, and how the loss went."""

from __future__ import annotations

from memory.records.record import Record


class LossPoint(Record):
    """A point of the training curve."""

    step: int
    epoch: float
    loss: float
    learning_rate: float
    grad_norm: float | None
    seconds: float
    """Since the first optimiser step."""


class TrainingRun(Record):
    """What Axolotl made."""

    weights: str
    """Folder with whole weights that vLLM can load: the merged adapter, or the full model."""
    adapter: str | None
    """Folder with the adapter; None for full tuning."""
    weights_sha256: str
    config_sha256: str
    """Hash of the Axolotl YAML."""
    losses: tuple[LossPoint, ...]
    steps: int
    step_seconds: float
    """Median seconds of an optimiser step."""
    tokens: int
    """Tokens seen, all epochs."""
    seconds: float
    """Wall clock of the engine, start-up and merge included."""
    train_seconds: float
    """Wall clock from the first to the last optimiser step."""
    peak_memory_bytes: int
    micro_batch: int
    """Rows in memory at once, after the out-of-memory ladder."""
    ladder: tuple[str, ...] = ()
    """Steps of the out-of-memory ladder that were taken, in words; empty where the recipe fitted."""
    resumed_from_step: int = 0
    """The checkpoint from which a crashed training went on; 0 where it ran through."""
    seed: int = 0
