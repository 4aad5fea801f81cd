"""The training curve: streams each step to the caller, and decides when a checkpoint is worth its time."""

import math
import time

from transformers import TrainerCallback

from tools.engines import worker_io
from tools.engines.axolotl import checkpoints

SHARE_FOR_CHECKPOINTS = 0.02
OF_OBJECTIVES = {"reward": "reward", "kl": "kl", "accuracy": "rewards/accuracies"}
"""What GRPO and DPO log beside the loss, by the field of `LossPoint`."""


class Curve(TrainerCallback):
    """Points live in the trainer's own log history, so that they are in every checkpoint and survive a crash."""

    def __init__(self, folder, checkpoint_every_s):
        self.folder = folder
        self.every = checkpoint_every_s
        self.cost = 0.0
        self.began = self.saved = self.step_began = None
        self.before = 0.0
        self.pauses = 0.0
        self.step_seconds = []
        self.points = []

    def on_train_begin(self, args, state, control, **kwargs):
        """Take up the clock where the checkpoint left it."""
        self.points = points_of(state)
        self.before = self.points[-1]["seconds"] if self.points else 0.0

    def on_step_begin(self, args, state, control, **kwargs):
        """Start the clocks."""
        self.step_began = time.monotonic()
        if self.began is None:
            self.began = self.saved = self.step_began

    def on_step_end(self, args, state, control, **kwargs):
        """Measure the step; ask for a checkpoint when one is due, but not at the end, where the weights follow."""
        now = time.monotonic()
        self.step_seconds.append(now - self.step_began)
        wait = self.every and max(self.every, self.cost / SHARE_FOR_CHECKPOINTS)
        if now - self.saved >= wait and state.global_step < state.max_steps:
            control.should_save = True
            self.saved = now

    def on_log(self, args, state, control, logs=None, **kwargs):
        """Stream one point; a summary line without a loss is none."""
        if not logs or "loss" not in logs:
            return
        entry = state.log_history[-1]
        entry["seconds"] = self.before + time.monotonic() - self.began - self.pauses
        point = point_of(entry)
        self.points.append(point)
        said = {key: value if value is None or math.isfinite(value) else str(value) for key, value in point.items()}
        worker_io.progress(self.folder, total_steps=state.max_steps, **said)

    def paused(self, seconds):
        """The training stood still: neither its clock nor that of the checkpoints went on."""
        self.pauses += seconds
        self.saved += seconds

    def on_save(self, args, state, control, **kwargs):
        """Mark the checkpoint whole; learn what it costs."""
        now = time.monotonic()
        checkpoints.mark_whole(self.folder / "checkpoints", state.global_step)
        self.cost = now - self.saved
        self.saved = time.monotonic()


def points_of(state):
    """The curve that a trainer's state holds."""
    return [point_of(entry) for entry in state.log_history if "seconds" in entry]


def point_of(entry):
    """A log entry as the fields of `LossPoint`."""
    norm = entry.get("grad_norm")
    return {
        "step": entry["step"],
        "epoch": float(entry["epoch"]),
        "loss": float(entry["loss"]),
        "learning_rate": float(entry["learning_rate"]),
        "grad_norm": None if norm is None else float(norm),
        "seconds": entry["seconds"],
        **{name: float(entry[key]) for name, key in OF_OBJECTIVES.items() if entry.get(key) is not None},
    }
