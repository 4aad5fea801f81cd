"""The Axolotl configuration of a recipe: what each of our settings means there, and what a CPU cannot do."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml
from pydantic import JsonValue

from memory.records import BaseModelCard, TrainingRecipe

Device = Literal["cpu", "cuda"]
PLUGINS = "tools.engines.axolotl.cpu_plugin"
OBJECTIVES = "tools.engines.axolotl"
NLL_WEIGHT = 1.0
"""DPO alone can lower the preferred answer too, as long as the rejected one falls faster; its own loss, added with this
weight, keeps it up (iterative RPO, arXiv 2404.19733)."""
TEMPERATURE = 1.0
"""GRPO learns from answers as the model gives them, neither sharpened nor flattened."""
EAGER_TOKENS = 512
"""Up to this row length a CPU attends faster through plain matrix products: PyTorch's fused attention spends more on
its backward pass there (SmolLM2-135M, 8 rows: 1.36 against 1.80 CPU seconds a step at 74 tokens, 3.2 against 4.2 at
220, the same at 470)."""


@dataclass(frozen=True)
class Rung:
    """A step of the out-of-memory ladder."""

    micro_batch: int
    checkpointing: bool = False


def first_rung(recipe: TrainingRecipe) -> Rung:
    """The recipe's own micro-batch, brought down to one that divides the effective batch."""
    return Rung(divisor(recipe.batch_size, recipe.micro_batch))


def divisor(batch: int, at_most: int) -> int:
    """The largest divisor of `batch` that is not above `at_most`."""
    return max(size for size in range(1, min(batch, at_most) + 1) if batch % size == 0)


def render(
    recipe: TrainingRecipe,
    model: BaseModelCard,
    data: Path,
    folder: Path,
    device: Device,
    rung: Rung | None = None,
    start: Path | None = None,
    longest_answer: int = 0,
) -> str:
    """The Axolotl YAML that trains `recipe` on the chat rows of `data`, with its files in `folder`; absolute paths.

    Rows are padded to the longest of their batch and batched by length, unless the recipe wants the file's order.
    Packing stays off: with it a batch would no longer be the number of rows that the recipe says. `start` is the folder
    of the weights, or of the adapter, that the training goes on from; `longest_answer` the tokens that GRPO lets an
    answer have.
    """
    rung = rung or first_rung(recipe)
    sequences = recipe.batch_size * (recipe.generations if recipe.objective == "grpo" else 1)
    in_order = recipe.order == "file"
    settings: dict[str, object] = {
        "base_model": str(start) if start and recipe.method == "full" else model.path,
        "datasets": [
            {
                "path": str(data),
                "ds_type": "json",
                "type": "chat_template",
                "field_messages": "messages",
                "roles_to_train": ["assistant"],
                "train_on_eos": "turn",
            }
        ],
        "chat_template": "tokenizer_default",
        "shuffle_merged_datasets": False,
        "dataset_prepared_path": str(folder / "prepared"),
        "output_dir": str(folder / "checkpoints"),
        "val_set_size": 0,
        "sequence_len": recipe.sequence_len,
        "sample_packing": False,
        "pad_to_sequence_len": False,
        "group_by_length": not in_order,
        "curriculum_sampling": in_order,
        "micro_batch_size": rung.micro_batch,
        "gradient_accumulation_steps": sequences // rung.micro_batch,
        "num_epochs": recipe.epochs,
        "learning_rate": recipe.learning_rate,
        "lr_scheduler": "constant_with_warmup" if recipe.schedule == "constant" else recipe.schedule,
        "warmup_ratio": recipe.warmup_ratio,
        "weight_decay": recipe.weight_decay,
        "optimizer": "adamw_torch_fused",
        "bf16": True,
        "tf32": False,
        "attn_implementation": "eager" if device == "cpu" and recipe.sequence_len <= EAGER_TOKENS else "sdpa",
        "gradient_checkpointing": rung.checkpointing,
        "logging_steps": 1,
        "include_tkps": False,
        "save_strategy": "no",
        "seed": recipe.seed,
        **_method(recipe, device, start),
        **_ends_of_turn(Path(model.path)),
    }
    settings |= _objective(recipe, settings, longest_answer)
    return yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)


def _objective(recipe: TrainingRecipe, settings: dict[str, object], longest_answer: int) -> dict[str, object]:
    """What is trained towards. The rows stay chats in one form for all objectives, tokenised in one way."""
    if recipe.objective == "dpo":
        return {
            "rl": "dpo",
            "rl_beta": recipe.beta,
            "dpo_loss_type": ["sigmoid", "sft"],
            "dpo_loss_weights": [1.0, NLL_WEIGHT],
            "trainer_cls": f"{OBJECTIVES}.pairs.PairTrainer",
            "group_by_length": False,
        }
    if recipe.objective == "grpo":
        ends = settings.get("eot_tokens")
        return {
            "rl": "grpo",
            "trl": {
                "use_vllm": False,
                "beta": recipe.beta,
                "num_generations": recipe.generations,
                "max_completion_length": longest_answer,
                "temperature": TEMPERATURE,
                "reward_funcs": [f"{OBJECTIVES}.rewards.rewards"],
            },
            "group_by_length": False,
            # An answer ends in training where it ends in serving; what is saved keeps the model's own tokenizer.
            **({"special_tokens": {"eos_token": ends[0]}} if isinstance(ends, list) else {}),
        }
    return {}


def _method(recipe: TrainingRecipe, device: Device, start: Path | None) -> dict[str, object]:
    """Adapter, kernels and plugins."""
    settings: dict[str, object] = {}
    plugins = []
    if recipe.method == "full":
        plugins.append(f"{PLUGINS}.MasterWeightsPlugin")
    else:
        settings |= {
            "adapter": recipe.method,
            "lora_r": recipe.lora_rank,
            "lora_alpha": recipe.lora_alpha,
            "lora_dropout": recipe.lora_dropout,
            "lora_target_linear": True,
        }
        if start is not None:
            settings["lora_model_dir"] = str(start)
            plugin = "ContinuedPairsPlugin" if recipe.objective == "dpo" else "ContinuedAdapterPlugin"
            plugins.append(f"{PLUGINS}.{plugin}")
    if recipe.method == "qlora":
        settings["load_in_4bit"] = True
    if device == "cpu":  # the Triton kernels call CUDA unconditionally
        settings |= {"lora_mlp_kernel": False, "lora_qkv_kernel": False, "lora_o_kernel": False}
        plugins.append(f"{PLUGINS}.CpuPlugin")
    if recipe.objective != "sft":
        plugins.append(f"{PLUGINS}.RowOrderPlugin")
    return {**settings, "plugins": plugins} if plugins else settings


def _ends_of_turn(model: Path) -> dict[str, object]:
    """The tokens that end an answer: those that stop generation and stand in the chat template.

    Axolotl's own default, the tokenizer's end-of-sequence token, is another one in many chat models; then the model
    would never learn to stop. Nothing where the model does not say.
    """
    tokens = read_json(model / "tokenizer.json").get("added_tokens")
    stops = read_json(model / "generation_config.json").get("eos_token_id")
    own = model / "chat_template.jinja"
    template = own.read_text() if own.exists() else read_json(model / "tokenizer_config.json").get("chat_template")
    if not isinstance(tokens, list) or not isinstance(template, str):
        return {}
    wanted = stops if isinstance(stops, list) else [stops]
    words = [token["content"] for token in tokens if isinstance(token, dict) and token.get("id") in wanted]
    ends = [word for word in words if isinstance(word, str) and word in template]
    return {"eot_tokens": ends} if ends else {}


def read_json(path: Path) -> dict[str, JsonValue]:
    """A JSON object from a model's folder; empty where there is no such file."""
    if not path.exists():
        return {}
    value = json.loads(path.read_text())
    return value if isinstance(value, dict) else {}
