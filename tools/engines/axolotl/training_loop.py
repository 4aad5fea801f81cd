"""One training: Axolotl's loop, checkpoints that survive kill -9, and whole weights at the end."""

import resource
import statistics
from itertools import pairwise

import torch
from axolotl.train import execute_training, setup_model_and_trainer
from transformers import TrainerState, set_seed

from tools.engines.axolotl import axolotl_config, checkpoints, snapshots, weights
from tools.engines.axolotl.answer_head import AnswerHead
from tools.engines.axolotl.curve import Curve, points_of
from tools.engines.axolotl.pauses import Pauses


def run(folder, request):
    """Train as the request says; the answer is `Trained` of tools/training/engine.py.

    Leaves `weights/` (and `adapter/`) in the folder, and `snapshots/` where some were wanted; checkpoints only until
    the weights are there.
    """
    cfg = axolotl_config.read(request["config"])
    meta, _ = axolotl_config.tokenised(cfg, folder)
    tokens = sum(len(row) for row in meta.train_dataset["input_ids"])
    whole = checkpoints.newest_whole(folder / "checkpoints", request["identity"])
    resumed = checkpoints.step_of(whole) if whole else 0
    snapshots.keep_until(folder, resumed, request["snapshots"])
    stopped = snapshots.ask_again(folder)
    if stopped is None:
        state, stopped, adapter = train(cfg, meta, folder, request, whole)
    else:
        state = TrainerState.load_from_json(str(whole / "trainer_state.json"))
        adapter = None
    if stopped is not None:
        adapter = weights.copied(snapshots.place(folder, stopped), folder)
    checkpoints.remove(folder / "checkpoints")
    points = points_of(state)
    return {
        "weights": str(folder / "weights"),
        "adapter": str(adapter) if adapter else None,
        "weights_sha256": weights.sha256(folder / "weights"),
        "losses": points,
        "steps": state.global_step,
        "planned_steps": state.max_steps,
        "step_seconds": pace(points),
        "tokens": state.num_input_tokens_seen if cfg.rl == "grpo" else round(state.epoch * tokens),
        "train_seconds": points[-1]["seconds"] if points else 0.0,
        "peak_memory_bytes": peak_memory(),
        "resumed_from_step": resumed,
        "snapshots": snapshots.made(folder),
        "stopped_at_step": stopped,
    }


def train(cfg, meta, folder, request, whole):
    """The loop, and the weights at its end unless a snapshot ended it. State, that snapshot's step, adapter."""
    trainer, model, curve = start(cfg, meta, folder, request["checkpoint_every_s"])
    pauses = Pauses(folder, request, curve)
    trainer.add_callback(pauses)
    execute_training(cfg, trainer, str(whole) if whole else None)
    adapter = weights.save(model, folder, request) if pauses.stopped_at is None else None
    return trainer.state, pauses.stopped_at, adapter


def start(cfg, meta, folder, checkpoint_every_s):
    """Axolotl's trainer and model, with our callback and the short output layer."""
    set_seed(cfg.seed)  # Axolotl seeds the trainer only; the adapter's first weights are drawn before that
    trainer, _, _, _, _ = setup_model_and_trainer(cfg, meta)
    model = trainer.model  # the trainer of pairs puts the adapter on itself
    trainer.args.logging_nan_inf_filter = False  # a NaN must be seen, not averaged away
    AnswerHead(model)
    curve = Curve(folder, checkpoint_every_s)
    trainer.add_callback(curve)
    return trainer, model, curve


def pace(points):
    """Median seconds of an optimiser step."""
    clock = [0.0, *(point["seconds"] for point in points)]
    return statistics.median([after - before for before, after in pairwise(clock)] or [0.0])


def peak_memory():
    """Bytes: of the GPU where there is one, of this process otherwise."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_reserved()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
