"""One training: Axolotl's loop, checkpoints that survive kill -9, and whole weights at the end."""

import resource
import statistics

import torch
from axolotl.train import execute_training, setup_model_and_trainer
from transformers import set_seed

from tools.engines.axolotl import axolotl_config, checkpoints, weights
from tools.engines.axolotl.answer_head import AnswerHead
from tools.engines.axolotl.curve import Curve


def run(folder, request):
    """Train as the request says; the answer is `Trained` of tools/training.py.

    Leaves `weights/` (and `adapter/`) in the folder; checkpoints only until both are there.
    """
    cfg = axolotl_config.read(request["config"])
    meta, _ = axolotl_config.tokenised(cfg)
    tokens = sum(len(row) for row in meta.train_dataset["input_ids"])
    place = folder / "checkpoints"
    whole = checkpoints.newest_whole(place, request["identity"])
    trainer, model, curve = start(cfg, meta, folder, request["checkpoint_every_s"])
    resumed = checkpoints.step_of(whole) if whole else 0
    execute_training(cfg, trainer, str(whole) if whole else None)
    points = curve.points
    adapter = weights.save(model, folder, request)
    checkpoints.remove(place)
    return {
        "weights": str(folder / "weights"),
        "adapter": str(adapter) if adapter else None,
        "weights_sha256": weights.sha256(folder / "weights"),
        "losses": points,
        "steps": trainer.state.global_step,
        "step_seconds": statistics.median(curve.step_seconds or [0.0]),
        "tokens": round(trainer.state.epoch * tokens),
        "train_seconds": points[-1]["seconds"] if points else 0.0,
        "peak_memory_bytes": peak_memory(),
        "resumed_from_step": resumed,
    }


def start(cfg, meta, folder, checkpoint_every_s):
    """Axolotl's trainer and model, with our callback and the short output layer."""
    set_seed(cfg.seed)  # Axolotl seeds the trainer only; the adapter's first weights are drawn before that
    trainer, model, _, _, _ = setup_model_and_trainer(cfg, meta)
    trainer.args.logging_nan_inf_filter = False  # a NaN must be seen, not averaged away
    AnswerHead(model)
    curve = Curve(folder, checkpoint_every_s)
    trainer.add_callback(curve)
    return trainer, model, curve


def peak_memory():
    """Bytes: of the GPU where there is one, of this process otherwise."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_reserved()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
