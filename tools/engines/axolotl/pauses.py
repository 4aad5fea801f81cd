"""Takes snapshots of a training and lets it wait for what their scores say."""

import time

from transformers import TrainerCallback

from tools.engines.axolotl import snapshots, weights


class Pauses(TrainerCallback):
    """At a few steps: weights on disk, a checkpoint, then the question whether to go on. The curve's clock stands still
    meanwhile.

    The checkpoint comes before the question, so that a training killed while it waits has lost nothing; the weights
    come before the checkpoint, so that one that goes on from it has its snapshot.
    """

    def __init__(self, folder, request, curve):
        self.folder = folder
        self.request = request
        self.curve = curve
        self.steps = set()
        self.stopped_at = None

    def on_train_begin(self, args, state, control, **kwargs):
        """Only now the number of steps is known."""
        self.steps = snapshots.steps(state.max_steps, self.request["snapshots"])

    def on_step_end(self, args, state, control, model=None, **kwargs):
        """Write the snapshot, and have a checkpoint made."""
        if state.global_step not in self.steps:
            return
        began = time.monotonic()
        place = snapshots.place(self.folder, state.global_step)
        adapter, digest = weights.snapshot(model, place, self.request)
        seconds = time.monotonic() - began
        fields = {"epoch": state.epoch, "weights_sha256": digest, "has_adapter": adapter, "seconds": seconds}
        snapshots.record(self.folder, state.global_step, fields)
        control.should_save = True
        self.curve.paused(time.monotonic() - began)
        self.curve.saved = time.monotonic()

    def on_save(self, args, state, control, **kwargs):
        """Ask, and wait."""
        if state.global_step not in self.steps:
            return
        began = time.monotonic()
        newest = snapshots.made(self.folder)[-1]
        if not snapshots.ask(self.folder, newest):
            control.should_training_stop = True
            self.stopped_at = state.global_step
        self.curve.paused(time.monotonic() - began)
