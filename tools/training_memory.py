"""How much memory a training needs, before it is tried."""

from __future__ import annotations

import json
from pathlib import Path

from memory.records import BaseModelCard, TrainingRecipe

ADAPTER_WIDTH = 26
"""Σ(in + out) of a layer's linear modules, in units of the hidden size, at the upper end: 18 for SmolLM2-135M, 20 for
Llama-8B, 26 for Qwen2.5-0.5B."""
ADAPTER_BYTES = 16
FULL_BYTES = 18
FROZEN_BYTES = {"lora": 2.0, "qlora": 0.8}
"""A weight of the base model: bf16; for qlora NF4 (0.56 to 0.63) with embeddings, head and norms in bf16."""
ACTIVATION_BYTES = 34
CHECKPOINT_BYTES = 2
LIVE_LAYER_BYTES = 100
LOGIT_BYTES = 10
OVERHEAD = {"cpu": 1.2e9, "cuda": 1.4e9}
"""Interpreter and libraries on a CPU; CUDA context on a GPU."""
FRAGMENTATION = 1.08


def estimate(
    recipe: TrainingRecipe,
    model: BaseModelCard,
    longest_row: int,
    device: str,
    *,
    micro_batch: int | None = None,
    checkpointing: bool = False,
) -> int:
    """Bytes at the peak, for rows of at most `longest_row` tokens; errs on the upper side.

    Full mixed AdamW 18 bytes a weight, activations L·s·b·h·34 (Korthikanti et al. 2022, arXiv 2205.05198), checkpointed
    2·L·s·b·h and one live layer (Bekman, ml-engineering book), logits b·s·V·10 (TRL documentation), adapters
    r·Σ(in + out)·16, overhead 1.4 GB and 8 % fragmentation (Unsloth's memory notes).
    """
    batch = micro_batch or min(recipe.micro_batch, recipe.batch_size)
    tokens = longest_row * batch
    if recipe.method == "full":
        weights: float = FULL_BYTES * model.parameters
    else:
        adapter = recipe.lora_rank * ADAPTER_WIDTH * model.hidden_size * model.layers
        weights = FROZEN_BYTES[recipe.method] * model.parameters + ADAPTER_BYTES * adapter
    if checkpointing:
        activations = tokens * model.hidden_size * (CHECKPOINT_BYTES * model.layers + LIVE_LAYER_BYTES)
    else:
        activations = tokens * model.hidden_size * ACTIVATION_BYTES * model.layers
    logits = LOGIT_BYTES * tokens * vocabulary(model)
    return round(OVERHEAD[device] + FRAGMENTATION * (weights + activations + logits))


def vocabulary(model: BaseModelCard) -> int:
    """Entries of the model's vocabulary, from its config.json."""
    config = json.loads((Path(model.path) / "config.json").read_text())
    return int(config.get("text_config", config)["vocab_size"])
