"""The memory of a training: an estimate before it is tried, and the ladder to climb down when it does not fit."""

from __future__ import annotations

import json
from pathlib import Path

from memory.errors import EngineError, TrialError
from memory.records import BaseModelCard, TrainingRecipe
from tools.training.config import EAGER_TOKENS, Device, Rung, divisor, first_rung

ADAPTER_WIDTH = 26
"""Σ(in + out) of a layer's linear modules, in units of the hidden size, at the upper end: 18 for SmolLM2-135M, 20 for
Llama-8B, 26 for Qwen2.5-0.5B."""
ADAPTER_BYTES = 16
FULL_BYTES = {"cpu": 16, "cuda": 18}
"""A weight that is trained: fp32 weight, gradient and two moments, and on a GPU the bf16 copy that autocast keeps."""
FROZEN_BYTES = {"lora": 2.0, "qlora": 0.8}
"""A weight of the base model: bf16; for qlora NF4 (0.56 to 0.63) with embeddings, head and norms in bf16."""
ACTIVATION_BYTES = 34
CHECKPOINT_BYTES = 2
SCORE_BYTES = 5
HEAD_WIDTH = 64
"""Narrowest usual attention head: more heads, more scores."""
LOGIT_BYTES = 10
PAIR_LOGIT_BYTES = 20
"""DPO computes both answers of a pair at once, keeps the logits of model and reference, and takes logarithms of them
(2.42 GB at the peak for 4 pairs of 76 tokens, SmolLM2-135M, LoRA rank 4; imitation takes 1.47 GB for 4 such rows)."""
REFERENCE_BYTES = 4
"""A weight of the model that full tuning started from, kept beside it; an adapter is only switched off or exchanged."""
KEY_VALUE_BYTES = 4
"""Of each layer and unit of the hidden size, for a token of the answers that GRPO writes: all of a step at once (1.69
GB for 8 answers of 84 tokens, trained 2 at a time)."""
OVERHEAD_BYTES = {"cpu": 1.05e9, "cuda": 1.4e9}
"""Interpreter and libraries on a CPU; CUDA context on a GPU."""
FRAGMENTATION = 1.08
SHORTEST_ROW = 32
"""Tokens; shorter rows than that are mostly chat template."""


def estimate_memory(
    recipe: TrainingRecipe, model: BaseModelCard, longest_row: int, device: Device, rung: Rung | None = None
) -> int:
    """Bytes at the peak for rows of at most `longest_row` tokens.

    Within 6 % of what five recipes took on a CPU (SmolLM2-135M, LoRA and full, 4 to 16 rows of 76 to 101 tokens at
    once); the constants of the CPU rest on these. On a GPU nothing was measured; there they err on the upper side:
    full mixed AdamW 18 bytes a weight, activations L·s·b·h·34, without fused attention 5·a·s²·b for each layer more
    (Korthikanti et al. 2022, arXiv 2205.05198), checkpointed 2·L·s·b·h and a few live layers (Bekman, ml-engineering),
    logits b·s·V·10 (TRL documentation), adapters r·Σ(in + out)·16, overhead 1.4 GB and 8 % fragmentation (Unsloth).
    """
    rung = rung or first_rung(recipe)
    pairs = recipe.objective == "dpo"
    tokens = longest_row * rung.micro_batch * (2 if pairs else 1)
    if recipe.method == "full":
        reference = REFERENCE_BYTES if pairs or (recipe.objective == "grpo" and recipe.beta) else 0
        weights: float = (FULL_BYTES[device] + reference) * model.parameters
    else:
        adapter = recipe.lora_rank * ADAPTER_WIDTH * model.hidden_size * model.layers
        weights = FROZEN_BYTES[recipe.method] * model.parameters + ADAPTER_BYTES * adapter
    layer: float = ACTIVATION_BYTES * tokens * model.hidden_size
    if device == "cpu" and recipe.sequence_len <= EAGER_TOKENS:
        layer += SCORE_BYTES * tokens * longest_row * model.hidden_size / HEAD_WIDTH
    kept = CHECKPOINT_BYTES * tokens * model.hidden_size * model.layers + 3 * layer if rung.checkpointing else 0
    activations = kept or layer * model.layers
    if recipe.objective == "grpo":
        written = recipe.batch_size * recipe.generations * longest_row
        activations += KEY_VALUE_BYTES * written * model.hidden_size * model.layers
    logits = (PAIR_LOGIT_BYTES if pairs else LOGIT_BYTES) * tokens * vocabulary(model)
    return round(OVERHEAD_BYTES[device] + FRAGMENTATION * (weights + activations + logits))


def what_fits(recipe: TrainingRecipe, model: BaseModelCard, longest_row: int, device: Device, free: int) -> str:
    """What would fit into `free` bytes by the estimate where the recipe does not: each change alone, as far as it must
    go; in words."""

    def fits(rows_of: int = longest_row, rung: Rung | None = None, **changes: object) -> bool:
        return estimate_memory(recipe.model_copy(update=changes), model, rows_of, device, rung) < free

    last = ladder(recipe)[-1]
    micro = next((rung.micro_batch for rung in ladder(recipe)[1:-1] if fits(rung=rung)), None)
    rank = next((rank for rank in range(recipe.lora_rank - 1, 0, -1) if fits(lora_rank=rank)), None)
    length = next((length for length in range(longest_row - 1, SHORTEST_ROW, -1) if fits(length)), None)
    ways = [f"a micro-batch of {micro}"] if micro else []
    ways += [f"rows of at most {length} tokens"] if length else []
    if recipe.method == "full":
        ways += ["lora instead of full tuning"] if fits(method="lora") else []
    elif rank:
        ways.append(f"rank {rank}")
    if ways:
        return f"{', or '.join(ways)} would fit"
    if fits(rung=last):
        return "micro-batch 1 with gradient checkpointing would fit"
    needed = estimate_memory(recipe, model, longest_row, device, last)
    return f"even micro-batch 1 with gradient checkpointing needs {needed / 1e9:.1f} GB: take a smaller base model"


def vocabulary(model: BaseModelCard) -> int:
    """Entries of the model's vocabulary, from its config.json."""
    config = json.loads((Path(model.path) / "config.json").read_text())
    return int(config.get("text_config", config)["vocab_size"])


def ladder(recipe: TrainingRecipe) -> tuple[Rung, ...]:
    """All rungs: the micro-batch halves with the effective batch kept, then activations are recomputed."""
    rungs = [first_rung(recipe)]
    while rungs[-1].micro_batch > 1:
        rungs.append(Rung(divisor(recipe.batch_size, rungs[-1].micro_batch // 2)))
    return (*rungs, Rung(1, checkpointing=True))


def words(before: Rung, after: Rung, recipe: TrainingRecipe) -> str:
    """One step of the ladder for a person."""
    if after.checkpointing:
        return "gradient checkpointing on: activations are computed twice, which costs 20 to 30 % of the speed"
    batch = f"effective batch stays {recipe.batch_size}"
    return f"micro-batch {before.micro_batch} to {after.micro_batch}, {batch}"


def does_not_fit(error: EngineError, recipe: TrainingRecipe, model: BaseModelCard, device: Device) -> TrialError:
    """The end of the ladder: what it tried and what would fit."""
    last = ladder(recipe)[-1]
    needed = estimate_memory(recipe, model, recipe.sequence_len, device, last)
    ways = [] if recipe.method != "full" else ["use lora instead of full tuning"]
    ways += [f"shorten rows below {recipe.sequence_len} tokens", "take a smaller base model"]
    return TrialError(
        "OOM",
        f"out of memory even at micro-batch 1 with gradient checkpointing, estimated at {needed / 1e9:.1f} GB",
        f"To fit: {', '.join(ways)}. See {error.log}",
    )
