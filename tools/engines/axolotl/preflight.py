"""A look before the leap: Axolotl judges the recipe, tokenises every row, and trains a few steps, then thrown away."""

import math
import shutil
import statistics

from axolotl.train import execute_training

from tools.engines.axolotl import axolotl_config, training_loop
from tools.engines.worker_io import WorkerFailure

NO_LIMIT = 1 << 24


def run(folder, request):
    """Check and measure; the answer is `Preflight` of tools/training.py. Leaves no model behind."""
    cfg = axolotl_config.read(request["config"])
    limit, cfg.sequence_len = cfg.sequence_len, NO_LIMIT  # see the long rows instead of losing them
    meta, rows = axolotl_config.tokenised(cfg)
    cfg.sequence_len = limit
    dataset = meta.train_dataset
    lengths = [len(row) for row in dataset["input_ids"]]
    answer = {
        "rows": rows,
        "total_steps": meta.total_num_steps,
        **tokens_of(dataset, lengths, rows, limit, request["samples"]),
    }
    if answer["dropped"] or not all(answer["supervised"]):
        measured = {
            "step_seconds": 0.0,
            "predicted_seconds": 0.0,
            "peak_memory_bytes": 0,
            "padded_tokens": 0,
            "timed": "nothing",
        }
    else:
        measured = micro_run(cfg, meta, lengths, folder, request["steps"])
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    return {**answer, **measured}


def tokens_of(dataset, lengths, rows, limit, samples):
    """Lengths, supervised tokens, rows that training would drop, and a few rows token by token."""
    labels = dataset["labels"]
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    picks = (
        sorted({order[round(at * (len(order) - 1) / max(1, samples - 1))] for at in range(samples)}) if order else []
    )
    return {
        "dropped": rows - len(lengths) + sum(length > limit for length in lengths),
        "lengths": lengths,
        "supervised": [sum(label != -100 for label in row) for row in labels],
        "samples": [
            {"row": row, "input_ids": dataset[row]["input_ids"], "labels": dataset[row]["labels"]} for row in picks
        ],
    }


def micro_run(cfg, meta, lengths, folder, steps):
    """Step time and peak memory of real optimiser steps at the recipe's micro-batch.

    The first step takes the longest rows: it warms up and sets the peak. The timed ones take rows drawn evenly over all
    lengths, sorted as the training groups them. The training's time is then seconds for each padded token times the
    padded tokens of all its steps, in the order in which its own sampler would draw them.
    """
    micro, accumulation = cfg.micro_batch_size, cfg.gradient_accumulation_steps
    total_steps, epochs = meta.total_num_steps, cfg.num_epochs
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    spread = [order[int((at + 0.5) * len(order) / (steps * micro))] for at in range(steps * micro)]
    chosen = order[-micro:] + spread
    meta.train_dataset = meta.train_dataset.select(chosen)
    grouped, cfg.group_by_length = cfg.group_by_length, False
    cfg.curriculum_sampling = True  # Axolotl's name for: in the order given
    cfg.gradient_accumulation_steps, cfg.batch_size = 1, micro
    cfg.max_steps = math.ceil(len(chosen) / micro)
    cfg.num_epochs = 1
    trainer, _, curve = training_loop.start(cfg, meta, folder, checkpoint_every_s=math.inf)
    execute_training(cfg, trainer, None)
    if not all(math.isfinite(point["loss"]) for point in curve.points):
        raise WorkerFailure("DIVERGED", "the loss is not a number within the first steps", "Lower the learning rate.")
    batches = [chosen[at : at + micro] for at in range(0, len(chosen), micro)]
    paces = [seconds / padded(batch, lengths) for batch, seconds in zip(batches, curve.step_seconds, strict=True)]
    tokens = epochs * sum(
        padded(batch, lengths) for batch in training_batches(lengths, micro, accumulation, grouped, cfg.seed)
    )
    pace = statistics.median(paces[1:])
    return {
        "step_seconds": pace * tokens / total_steps,
        "predicted_seconds": pace * tokens,
        "peak_memory_bytes": training_loop.peak_memory(),
        "padded_tokens": round(tokens / epochs),
        "timed": f"median of {len(paces) - 1} micro-batches of {micro} rows: {1 / pace:.0f} padded tokens a second",
    }


def training_batches(lengths, micro, accumulation, grouped, seed):
    """Micro-batches of one epoch as the training's sampler draws them."""
    import torch
    from transformers.trainer_pt_utils import get_length_grouped_indices

    generator = torch.Generator().manual_seed(seed or 0)
    if grouped:
        order = get_length_grouped_indices(lengths, micro * accumulation, generator=generator)
    else:
        order = torch.randperm(len(lengths), generator=generator).tolist()
    return [order[at : at + micro] for at in range(0, len(order), micro)]


def padded(batch, lengths):
    """Tokens that a batch costs: all rows as long as its longest."""
    return len(batch) * max(lengths[row] for row in batch)
