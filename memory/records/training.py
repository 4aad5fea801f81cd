"""What Axolotl made, and how the loss went."""

from __future__ import annotations

from memory.records.record import Record
from memory.records.score import Score


class LossPoint(Record):
    """A point of the training curve."""

    step: int
    epoch: float
    loss: float
    learning_rate: float
    grad_norm: float | None
    seconds: float
    """Since the first optimiser step."""
    reward: float | None = None
    """GRPO: mean score of the answers sampled in this step, 0 to 1."""
    kl: float | None = None
    """GRPO: divergence from the model that the training began with, in nats a token; None where beta is 0."""
    accuracy: float | None = None
    """DPO: share of the step's pairs whose preferred answer gained more on the reference than the rejected one."""


class Snapshot(Record):
    """The weights as they were in mid-training, whole and on disk, so that they can be scored while it waits."""

    step: int
    """Optimiser steps that they have seen."""
    epoch: float
    weights: str
    """Folder with whole weights that vLLM can load; it may have been removed since, see `forget_snapshots`."""
    adapter: str | None
    """Folder with the adapter; None for full tuning."""
    weights_sha256: str
    seconds: float
    """What writing them took; not part of the training's time."""
    score: Score | None = None
    """On validation; None until it is scored."""


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
    """The training curve. GRPO's loss stays about zero whatever is learnt: there the reward is what rises."""
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
    snapshots: tuple[Snapshot, ...] = ()
    """Oldest first; the end of the training is none of them, unless it was stopped at one."""
    stopped_at_step: int | None = None
    """The snapshot after which the training was ended early; None where it ran through. Curve, steps, tokens and
    seconds are of what was trained."""
    stopped_because: str = ""
    """Why, in words."""
    seed: int = 0

    @property
    def course(self) -> str:
        """From the first to the last step: of the loss, or of GRPO's reward."""
        first, last = self.losses[0], self.losses[-1]
        if first.reward is not None and last.reward is not None:
            return f"reward {first.reward:.3f} → {last.reward:.3f}"
        return f"loss {first.loss:.3f} → {last.loss:.3f}"

    def at(self, snapshot: Snapshot) -> TrainingRun:
        """The same training with a snapshot's weights in place of its last ones."""
        kept = {"weights": snapshot.weights, "adapter": snapshot.adapter, "weights_sha256": snapshot.weights_sha256}
        return self.model_copy(update=kept)
