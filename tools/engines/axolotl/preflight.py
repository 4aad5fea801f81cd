"""A look before the leap: Axolotl judges the recipe, tokenises every row, and trains a few steps, then thrown away."""

import math
import shutil
import statistics

import torch
from axolotl.train import execute_training
from transformers.trainer_pt_utils import get_length_grouped_indices

from tools.engines.axolotl import axolotl_config, pairs, sweep, training_loop
from tools.engines.worker_io import WorkerFailure

NO_LIMIT = 1 << 24
LOOP_SHARE = 1.1
"""Seconds of training for each second of micro-batches: some steps are slower than the median, and between them rows
are fetched, points logged and checkpoints written. Median of eight trainings of SmolLM2-135M on two cores, 1.03 to
1.18."""
NO_RATE = 1e-12
"""A learning rate that moves nothing, so that a sweep after the timed steps finds the weights as they were."""


def run(folder, request):
    """Check and measure; the answer is `Preflight` of tools/training/engine.py. Leaves no model behind."""
    cfg = axolotl_config.read(request["config"])
    limit, cfg.sequence_len = cfg.sequence_len, NO_LIMIT  # see the long rows instead of losing them
    meta, rows = axolotl_config.tokenised(cfg, folder)
    cfg.sequence_len = limit
    dataset = meta.train_dataset
    lengths = [len(row) for row in dataset["input_ids"]]
    answer = {
        "rows": rows,
        "total_steps": meta.total_num_steps,
        **tokens_of(dataset, lengths, rows, limit, request["samples"]),
    }
    measured = {
        "step_seconds": 0.0,
        "predicted_seconds": 0.0,
        "peak_memory_bytes": 0,
        "padded_tokens": epoch_tokens(cfg, lengths),
        "timed": "nothing",
        "losses": [],
    }
    if request["steps"] and not answer["dropped"] and all(answer["supervised"]):
        timed = group_run if cfg.rl == "grpo" else micro_run
        measured |= timed(cfg, meta, lengths, folder, request)
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
            {"row": row, "input_ids": side["input_ids"], "labels": side["labels"]}
            for row in picks
            for side in (pairs.sides(dataset[row]) if "chosen_ids" in dataset.column_names else [dataset[row]])
        ],
    }


def micro_run(cfg, meta, lengths, folder, request):
    """Step time and peak memory of real optimiser steps at the recipe's micro-batch, and a sweep where one is wanted.

    The first step takes the longest rows: it warms up and sets the peak. The timed ones take rows drawn evenly over all
    lengths, sorted as the training groups them. The training's time is then seconds for each padded token times the
    padded tokens of all its steps, in the order in which its own sampler would draw them.
    """
    steps, rates = request["steps"], request["rates"]
    micro, accumulation, whole = cfg.micro_batch_size, cfg.gradient_accumulation_steps, meta.train_dataset
    tokens = cfg.num_epochs * epoch_tokens(cfg, lengths)
    total_steps = meta.total_num_steps
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    spread = [order[int((at + 0.5) * len(order) / (steps * micro))] for at in range(steps * micro)]
    chosen = order[-micro:] + spread
    meta.train_dataset = whole.select(chosen)
    cfg.group_by_length = False
    cfg.curriculum_sampling = True  # Axolotl's name for: in the order given
    cfg.gradient_accumulation_steps, cfg.batch_size = 1, micro
    cfg.max_steps = math.ceil(len(chosen) / micro)
    cfg.num_epochs = 1
    cfg.learning_rate = NO_RATE if rates else cfg.learning_rate
    trainer, _, curve = training_loop.start(cfg, meta, folder, checkpoint_every_s=math.inf)
    execute_training(cfg, trainer, None)
    if not all(math.isfinite(point["loss"]) for point in curve.points):
        raise WorkerFailure("DIVERGED", "the loss is not a number within the first steps", "Lower the learning rate.")
    batches = [chosen[at : at + micro] for at in range(0, len(chosen), micro)]
    paces = [seconds / padded(batch, lengths) for batch, seconds in zip(batches, curve.step_seconds, strict=True)]
    pace = LOOP_SHARE * statistics.median(paces[1:])
    measured = {
        "step_seconds": pace * tokens / total_steps,
        "predicted_seconds": pace * tokens,
        "peak_memory_bytes": training_loop.peak_memory(),
        "timed": f"median of {len(paces) - 1} micro-batches of {micro} rows: {1 / pace:.0f} padded tokens a second",
    }
    cost = measured["step_seconds"] * len(rates)
    if rates and cost < request["sweep_seconds"]:
        measured["losses"] = sweep.run(trainer, whole, rates, accumulation)
    return measured


def group_run(cfg, meta, lengths, folder, request):
    """Step time and peak memory of GRPO: real optimiser steps on one question each with all of its answers, which are
    sampled and scored. A step of the recipe takes as many times as long as it has questions."""
    steps, group, questions = request["steps"], cfg.trl.num_generations, cfg.batch_size // cfg.trl.num_generations
    total_steps = meta.total_num_steps
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    spread = [order[int((at + 0.5) * len(order) / steps)] for at in range(steps)]
    meta.train_dataset, meta.total_num_steps = meta.train_dataset.select([order[-1], *spread]), steps + 1
    micro = max(size for size in range(1, min(cfg.micro_batch_size, group) + 1) if group % size == 0)
    cfg.curriculum_sampling, cfg.num_epochs, cfg.max_steps = True, 1, steps + 1
    cfg.micro_batch_size, cfg.gradient_accumulation_steps, cfg.batch_size = micro, group // micro, group
    trainer, _, curve = training_loop.start(cfg, meta, folder, checkpoint_every_s=math.inf)
    execute_training(cfg, trainer, None)
    pace = LOOP_SHARE * statistics.median(curve.step_seconds[1:])
    return {
        "step_seconds": pace * questions,
        "predicted_seconds": pace * questions * total_steps,
        "peak_memory_bytes": training_loop.peak_memory(),
        "timed": f"median of {steps} questions with {group} answers each: {pace:.1f} s a question",
    }


def epoch_tokens(cfg, lengths):
    """Tokens of one epoch with padding, in micro-batches as the training's sampler draws them."""
    micro, accumulation = cfg.micro_batch_size, cfg.gradient_accumulation_steps
    generator = torch.Generator().manual_seed(cfg.seed or 0)
    if cfg.curriculum_sampling:
        order = list(range(len(lengths)))
    elif cfg.group_by_length:
        order = get_length_grouped_indices(lengths, micro * accumulation, generator=generator)
    else:
        order = torch.randperm(len(lengths), generator=generator).tolist()
    return sum(padded(order[at : at + micro], lengths) for at in range(0, len(order), micro))


def padded(batch, lengths):
    """Tokens that a batch costs: all rows as long as its longest."""
    return len(batch) * max(lengths[row] for row in batch)
