"""Training: a recipe becomes an Axolotl configuration, a measured preflight, and a trained model.

Axolotl runs in its own environment behind the engine contract; this file renders its YAML, watches its curve, and climbs
the out-of-memory ladder.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import yaml
from pydantic import JsonValue

from memory.errors import EngineError, TrialError
from memory.layout import made, sha256_of, write_text
from memory.records import BaseModelCard, LossPoint, Record, TrainingRecipe, TrainingRun
from tools import training_memory
from tools.engines import contract
from tools.watchdog import Watchdog

Device = Literal["cpu", "cuda"]
CHECKPOINT_SECONDS = 30.0
"""A killed training loses at most this much, or fifty times what a checkpoint costs, whichever is more."""
GRACE = 1.2
"""The engine is ended at this multiple of the deadline at the latest; the watchdog speaks at 1.15."""
PLUGINS = "tools.engines.axolotl.cpu_plugin"


class Sample(Record):
    """One row as the training sees it."""

    row: int
    """Its number in the training file, from 0."""
    input_ids: tuple[int, ...]
    labels: tuple[int, ...]
    """The token where it carries a loss, -100 where it does not."""


class Preflight(Record):
    """What Axolotl made of recipe and data before anything was trained."""

    rows: int
    """Rows in the training file."""
    dropped: int
    """Rows that training would lose: too long, or unreadable for the chat template. Must be 0."""
    lengths: tuple[int, ...]
    """Tokens of each row, in the order of the file."""
    supervised: tuple[int, ...]
    """Tokens of each row that carry a loss."""
    samples: tuple[Sample, ...]
    total_steps: int
    """Optimiser steps of the whole training."""
    padded_tokens: int
    """Tokens of one epoch with padding; 0 where nothing was timed."""
    step_seconds: float
    """Seconds of one optimiser step of the recipe; 0 where rows were dropped or bare of labels and nothing was timed."""
    predicted_seconds: float
    """Seconds of all optimiser steps, start-up and merge left out."""
    peak_memory_bytes: int
    timed: str
    """How the step time was measured, in words."""
    seconds: float
    """Wall clock of the preflight in the engine."""


class Trained(Record):
    """What the training worker answers; paths are absolute."""

    weights: str
    adapter: str | None
    weights_sha256: str
    losses: tuple[LossPoint, ...]
    steps: int
    step_seconds: float
    tokens: int
    train_seconds: float
    seconds: float
    peak_memory_bytes: int
    resumed_from_step: int


class PreflightRequest(Record):
    """Request to the worker; `identity` hashes configuration, data and base weights."""

    action: Literal["preflight"] = "preflight"
    config: str
    identity: str
    method: str
    device: Device
    steps: int
    samples: int


class TrainRequest(Record):
    """Request to the worker."""

    action: Literal["train"] = "train"
    config: str
    identity: str
    method: str
    device: Device
    model: str
    checkpoint_every_s: float


@dataclass(frozen=True)
class Rung:
    """A step of the out-of-memory ladder."""

    micro_batch: int
    checkpointing: bool = False


def render(
    recipe: TrainingRecipe, model: BaseModelCard, data: Path, folder: Path, device: Device, rung: Rung | None = None
) -> str:
    """The Axolotl YAML that trains `recipe` on the chat rows of `data`, with its files in `folder`. Paths are absolute."""
    rung = rung or first_rung(recipe)
    settings: dict[str, object] = {
        "base_model": model.path,
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
        "group_by_length": True,
        "micro_batch_size": rung.micro_batch,
        "gradient_accumulation_steps": recipe.batch_size // rung.micro_batch,
        "num_epochs": recipe.epochs,
        "learning_rate": recipe.learning_rate,
        "lr_scheduler": "constant_with_warmup" if recipe.schedule == "constant" else recipe.schedule,
        "warmup_ratio": recipe.warmup_ratio,
        "weight_decay": recipe.weight_decay,
        "optimizer": "adamw_torch_fused",
        "bf16": True,
        "tf32": False,
        "flash_attention": False,
        "gradient_checkpointing": rung.checkpointing,
        "logging_steps": 1,
        "include_tkps": False,
        "save_strategy": "no",
        "seed": recipe.seed,
        **_method(recipe, device),
        **_ends_of_turn(Path(model.path)),
    }
    return yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)


def _method(recipe: TrainingRecipe, device: Device) -> dict[str, object]:
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
    if recipe.method == "qlora":
        settings["load_in_4bit"] = True
    if device == "cpu":  # the Triton kernels call CUDA unconditionally
        settings |= {"lora_mlp_kernel": False, "lora_qkv_kernel": False, "lora_o_kernel": False}
        plugins.append(f"{PLUGINS}.CpuPlugin")
    return {**settings, "plugins": plugins} if plugins else settings


def _ends_of_turn(model: Path) -> dict[str, object]:
    """The tokens that end an answer: those that stop generation and stand in the chat template.

    Axolotl's own default, the tokenizer's end-of-sequence token, is another one in many chat models; then the model
    would never learn to stop. Nothing where the model does not say.
    """
    tokens = _json(model / "tokenizer.json").get("added_tokens")
    stops = _json(model / "generation_config.json").get("eos_token_id")
    template_file = model / "chat_template.jinja"
    template = template_file.read_text() if template_file.exists() else _json(model / "tokenizer_config.json").get("chat_template")
    if not isinstance(tokens, list) or not isinstance(template, str):
        return {}
    wanted = stops if isinstance(stops, list) else [stops]
    words = [token["content"] for token in tokens if isinstance(token, dict) and token.get("id") in wanted]
    ends = [word for word in words if isinstance(word, str) and word in template]
    return {"eot_tokens": ends} if ends else {}


def _json(path: Path) -> dict[str, JsonValue]:
    """A JSON object from a model's folder; empty where there is no such file."""
    if not path.exists():
        return {}
    value = json.loads(path.read_text())
    return value if isinstance(value, dict) else {}


def preflight(
    engine: contract.Engine,
    recipe: TrainingRecipe,
    model: BaseModelCard,
    data: Path,
    folder: Path,
    *,
    device: Device,
    steps: int = 3,
    samples: int = 4,
    timeout_s: float,
    on_progress: Callable[[contract.Progress], None] | None = None,
) -> Preflight:
    """Have Axolotl judge the recipe, tokenise every row, and time `steps` micro-batches; nothing stays but the answer.

    Raises EngineError: CONFIG with what Axolotl says, DATA for an unreadable file, OOM, DIVERGED, BUDGET on time-out.
    """
    config, identity = _prepare(recipe, model, data, folder, device, first_rung(recipe))
    request = PreflightRequest(
        config=str(config), identity=identity, method=recipe.method, device=device, steps=steps, samples=samples
    )
    return contract.call(
        _placed(engine, folder), request, Preflight, folder, timeout_s=timeout_s, on_progress=on_progress
    )


def train(
    engine: contract.Engine,
    recipe: TrainingRecipe,
    model: BaseModelCard,
    data: Path,
    folder: Path,
    *,
    device: Device,
    deadline_s: float,
    on_loss: Callable[[LossPoint, int], None] | None = None,
    on_ladder: Callable[[str], None] | None = None,
    checkpoint_every_s: float = CHECKPOINT_SECONDS,
) -> TrainingRun:
    """Train, watched, within about `deadline_s` seconds; a killed training goes on from its last whole checkpoint.

    `on_loss` gets each point and the number of all steps; `on_ladder` each step of the out-of-memory ladder in words.
    Paths in the answer are absolute. Raises TrialError: DIVERGED, BUDGET, OOM at the ladder's end, CONFIG, ENV.
    """
    began = time.monotonic()
    rungs = ladder(recipe)
    taken = _remembered(folder, recipe, len(rungs))
    while True:
        rung = rungs[taken]
        config, identity = _prepare(recipe, model, data, folder, device, rung)
        request = TrainRequest(
            config=str(config), identity=identity, method=recipe.method, device=device, model=model.path,
            checkpoint_every_s=checkpoint_every_s,
        )  # fmt: skip
        left = deadline_s - (time.monotonic() - began)
        try:
            trained = _watched(_placed(engine, folder), request, folder, recipe, left, on_loss)
            break
        except EngineError as error:
            if error.kind != "OOM":
                raise
            if taken + 1 == len(rungs):
                raise _does_not_fit(error, recipe, model, device) from error
        taken += 1
        write_text(folder / "ladder.json", json.dumps({"recipe": _key(recipe), "rung": taken}))
        if on_ladder is not None:
            on_ladder(words(rungs[taken - 1], rungs[taken], recipe))
    steps = tuple(words(a, b, recipe) for a, b in zip(rungs[:taken], rungs[1 : taken + 1], strict=True))
    return TrainingRun(
        **trained.model_dump(),
        config_sha256=sha256_of(config),
        micro_batch=rung.micro_batch,
        ladder=steps,
        seed=recipe.seed,
    )


def _watched(
    engine: contract.Engine,
    request: TrainRequest,
    folder: Path,
    recipe: TrainingRecipe,
    deadline_s: float,
    on_loss: Callable[[LossPoint, int], None] | None,
) -> Trained:
    """One call of the engine under the watchdog."""
    if deadline_s <= 0:
        raise TrialError("BUDGET", "no time is left for the training", "Give more time, or train less.")
    launch = time.monotonic()
    watchdog = Watchdog(deadline_s=deadline_s, warmup_ratio=recipe.warmup_ratio)

    def seen(fields: contract.Progress) -> None:
        total = int(str(fields.pop("total_steps")))
        point = LossPoint.model_validate(fields)  # "nan" in words becomes NaN
        if on_loss is not None and point.loss == point.loss:
            on_loss(point, total)
        watchdog.point(point, total, time.monotonic() - launch)

    return contract.call(
        engine,
        request,
        Trained,
        folder,
        timeout_s=GRACE * deadline_s,
        on_progress=seen,
        on_tick=lambda: watchdog.tick(time.monotonic() - launch),
    )


# --- the out-of-memory ladder -----------------------------------------------------------------------------------


def first_rung(recipe: TrainingRecipe) -> Rung:
    """The recipe's own micro-batch, brought down to one that divides the effective batch."""
    return Rung(_divisor(recipe.batch_size, recipe.micro_batch))


def ladder(recipe: TrainingRecipe) -> tuple[Rung, ...]:
    """All rungs: the micro-batch halves with the effective batch kept, then activations are recomputed."""
    rungs = [first_rung(recipe)]
    while rungs[-1].micro_batch > 1:
        rungs.append(Rung(_divisor(recipe.batch_size, rungs[-1].micro_batch // 2)))
    return (*rungs, Rung(1, checkpointing=True))


def words(before: Rung, after: Rung, recipe: TrainingRecipe) -> str:
    """One step of the ladder for a person."""
    if after.checkpointing:
        return "out of memory: gradient checkpointing on, which recomputes activations and costs 20 to 30 % of the speed"
    batch = f"effective batch stays {recipe.batch_size}"
    return f"out of memory: micro-batch {before.micro_batch} to {after.micro_batch}, {batch}"


def _divisor(batch: int, at_most: int) -> int:
    return max(size for size in range(1, min(batch, at_most) + 1) if batch % size == 0)


def _remembered(folder: Path, recipe: TrainingRecipe, rungs: int) -> int:
    """The rung that an earlier call for this recipe had reached: what did not fit then is not tried again."""
    said = _json(folder / "ladder.json")
    rung = said.get("rung")
    return rung if said.get("recipe") == _key(recipe) and isinstance(rung, int) and 0 <= rung < rungs else 0


def _does_not_fit(error: EngineError, recipe: TrainingRecipe, model: BaseModelCard, device: Device) -> TrialError:
    """The end of the ladder: what it tried and what would fit."""
    needed = training_memory.estimate(recipe, model, recipe.sequence_len, device, micro_batch=1, checkpointing=True)
    ways = [] if recipe.method != "full" else ["use lora instead of full tuning"]
    ways += [f"shorten rows below {recipe.sequence_len} tokens", "take a smaller base model"]
    return TrialError(
        "OOM",
        f"out of memory even at micro-batch 1 with gradient checkpointing; the estimate for that is {needed / 1e9:.1f} GB",
        f"To fit: {', '.join(ways)}. See {error.log}",
    )


# --- files ------------------------------------------------------------------------------------------------------


def _prepare(
    recipe: TrainingRecipe, model: BaseModelCard, data: Path, folder: Path, device: Device, rung: Rung
) -> tuple[Path, str]:
    """Write the YAML; its path, and the hash over it, the data and the base weights."""
    folder = made(folder).resolve()
    text = render(recipe, model, data.resolve(), folder, device, rung)
    write_text(folder / "axolotl.yml", text)
    parts = (text, sha256_of(data), model.sha256)
    return folder / "axolotl.yml", hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _key(recipe: TrainingRecipe) -> str:
    return hashlib.sha256(recipe.model_dump_json().encode()).hexdigest()


def _placed(engine: contract.Engine, folder: Path) -> contract.Engine:
    """The engine with its data cache inside the folder, where it is removed with the rest."""
    return replace(engine, env={"HF_DATASETS_CACHE": str(folder.resolve() / "cache"), **engine.env})


def estimate_memory(recipe: TrainingRecipe, model: BaseModelCard, longest_row: int, device: Device) -> int:
    """Bytes that the recipe needs at its peak for rows of up to `longest_row` tokens; see tools/training_memory.py."""
    return training_memory.estimate(recipe, model, longest_row, device, micro_batch=first_rung(recipe).micro_batch)
