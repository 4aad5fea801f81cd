"""Training: a recipe becomes an Axolotl configuration, a measured preflight, and a trained model.

Axolotl runs in its own environment behind the engine contract; this file writes its configuration, watches its curve,
and climbs down the out-of-memory ladder.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Literal

from memory.errors import EngineError, TrialError
from memory.layout import made, sha256_of, write_text
from memory.records import BaseModelCard, LossPoint, Record, TrainingRecipe, TrainingRun
from tools.engines import contract, worker_io
from tools.training_config import Device, Rung, first_rung, read_json, render
from tools.training_memory import does_not_fit, estimate_memory, ladder, words
from tools.watchdog import Watchdog

__all__ = ["Device", "Preflight", "Sample", "estimate_memory", "preflight", "render", "train"]

CHECKPOINT_SECONDS = 30.0
"""A killed training loses at most this much, or fifty times what a checkpoint costs, whichever is more."""
CPU_THREADS = {"OMP_PROC_BIND": "true", "GOMP_SPINCOUNT": "5000"}
"""One thread to a core, and a short wait before a thread sleeps. Left alone, two threads may share a core and spin
against each other: a step of 0.75 s on an idle machine then takes 10 s and more beside other work. With these it takes
0.63 s on an idle machine and 1.2 s on a busy one (two cores, SmolLM2-135M, 8 rows of 74 tokens); threads that sleep at
once (OMP_WAIT_POLICY=passive) take 1.0 s."""
GRACE = 1.2
"""The engine is ended at this multiple of the deadline at the latest; the watchdog speaks at 1.15."""


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
    """Seconds of one optimiser step of the recipe; 0 where rows were dropped or have no labels."""
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
    engine = _placed(engine, device)
    return contract.call(engine, request, Preflight, folder, timeout_s=timeout_s, on_progress=on_progress)


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
            trained = _watched(_placed(engine, device), request, folder, recipe, left, on_loss)
            break
        except EngineError as error:
            if error.kind != "OOM":
                raise
            if taken + 1 == len(rungs):
                raise does_not_fit(error, recipe, model, device) from error
        taken += 1
        write_text(folder / "ladder.json", json.dumps({"recipe": _key(recipe), "rung": taken}))
        if on_ladder is not None:
            on_ladder(words(rungs[taken - 1], rungs[taken], recipe))
    steps = tuple(words(above, below, recipe) for above, below in pairwise(rungs[: taken + 1]))
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
    _forget_lost_weights(request, folder)
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


def _remembered(folder: Path, recipe: TrainingRecipe, rungs: int) -> int:
    """The rung that an earlier call for this recipe had reached: what did not fit then is not tried again."""
    said = read_json(folder / "ladder.json")
    rung = said.get("rung")
    return rung if said.get("recipe") == _key(recipe) and isinstance(rung, int) and 0 <= rung < rungs else 0


def _forget_lost_weights(request: TrainRequest, folder: Path) -> None:
    """A finished training whose weights were removed since is no finished training."""
    earlier = contract.finished(request, Trained, folder)
    if earlier is not None and not Path(earlier.weights).is_dir():
        (folder / worker_io.RESULT).unlink()


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


def _placed(engine: contract.Engine, device: Device) -> contract.Engine:
    """The engine with its threads in their places."""
    return replace(engine, env={**CPU_THREADS, **engine.env}) if device == "cpu" else engine
