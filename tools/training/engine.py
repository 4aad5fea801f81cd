"""Training: a recipe becomes an Axolotl configuration, a measured preflight, and a trained model.

Axolotl runs in its own environment behind the engine contract; this file writes its configuration, watches its curve,
has its snapshots judged, and climbs down the out-of-memory ladder.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from memory.errors import EngineError, TrialError
from memory.layout import disk, made, sha256_of, write_text
from memory.records import BaseModelCard, LossPoint, Snapshot, TrainingRecipe, TrainingRun
from tools.cluster.connection import Cluster
from tools.cluster.placed_engine import PlacedEngine
from tools.engines import contract, worker_io
from tools.engines.axolotl import snapshots
from tools.training import rate_sweep
from tools.training.config import Device, Rung, first_rung, read_json, render
from tools.training.memory import does_not_fit, estimate_memory, ladder, words
from tools.training.requests import Preflight, PreflightRequest, Sample, Trained, TrainRequest
from tools.training.rewards import Rewards
from tools.training.start import Start
from tools.training.watchdog import Watchdog
from tools.warm_engine import WarmEngine

__all__ = [
    "Axolotl",
    "Device",
    "Preflight",
    "PreflightRequest",
    "Sample",
    "estimate_memory",
    "forget_snapshots",
    "kept_warm",
    "placed",
    "preflight",
    "render",
    "train",
]

CHECKPOINT_SECONDS = 30.0
"""A killed training loses at most this much, or fifty times what a checkpoint costs, whichever is more."""
CPU_THREADS = {"OMP_PROC_BIND": "true", "GOMP_SPINCOUNT": "5000"}
"""One thread to a core, and a short wait before a thread sleeps. Left alone, two threads may share a core and spin
against each other: a step of 0.75 s on an idle machine then takes 10 s and more beside other work. With these it takes
0.63 s on an idle machine and 1.2 s on a busy one (two cores, SmolLM2-135M, 8 rows of 74 tokens); threads that sleep at
once (OMP_WAIT_POLICY=passive) take 1.0 s."""
MICRO_STEPS = 5
"""Timed micro-batches of a preflight, after one that warms up."""
GRACE = 1.2
"""The engine is ended at this multiple of the deadline at the latest; the watchdog speaks at 1.15."""


Axolotl = contract.Engine | WarmEngine | PlacedEngine
"""A process for each request, one that stays, or one on a node of a cluster."""


def placed(
    engine: contract.Engine, cluster: Cluster, model: BaseModelCard, device: Device, say: Callable[[str], None]
) -> PlacedEngine:
    """The engine on whatever node of the cluster has room for a training."""
    return PlacedEngine(_pinned(engine, device), cluster, model, device, say)


def kept_warm(engine: contract.Engine, folder: Path, device: Device) -> contract.Engine | WarmEngine:
    """The engine as a process that imports once for all requests; it answers each in a copy of itself. On a GPU the
    engine as it is: CUDA does not survive a copy."""
    return WarmEngine(_pinned(engine, device), folder) if device == "cpu" else engine


def preflight(
    engine: Axolotl,
    recipe: TrainingRecipe,
    model: BaseModelCard,
    data: Path,
    folder: Path,
    *,
    device: Device,
    start: Start | None = None,
    rewards: Rewards | None = None,
    steps: int = MICRO_STEPS,
    samples: int = 4,
    sweep_steps: int = 0,
    sweep_seconds: float = math.inf,
    timeout_s: float,
    on_progress: Callable[[contract.Progress], None] | None = None,
) -> Preflight:
    """Have Axolotl judge the recipe, tokenise every row, and time `steps` micro-batches; nothing stays but the answer.

    `steps=0` loads no model. GRPO needs `rewards`. `sweep_steps` tries that many learning rates, one optimiser step
    each, after the timed ones, unless it would take more than `sweep_seconds`. `start` is what `continue_from` means.
    Raises EngineError: CONFIG with what Axolotl says, DATA for an unreadable file, OOM, DIVERGED, BUDGET on time-out.
    """
    config, identity = _prepare(recipe, model, data, folder, device, first_rung(recipe), start, rewards)
    rates = rate_sweep.rates(recipe, sweep_steps) if steps else ()
    request = PreflightRequest(
        config=str(config), identity=identity, method=recipe.method, device=device, steps=steps, samples=samples,
        rates=rates, sweep_seconds=min(sweep_seconds, timeout_s),
    )  # fmt: skip

    def progress(fields: contract.Progress) -> None:
        if rewards is not None and "to_score" in fields:
            rewards.answer(folder)
        elif on_progress is not None:
            on_progress(fields)

    engine = _started_for(engine, device)
    measured = engine.call(request, Preflight, folder, timeout_s=timeout_s, on_progress=progress)
    if not measured.losses:
        return measured
    swept = rate_sweep.read(rates, measured.losses)
    return measured.model_copy(update={"sweep": swept.points, "diverges_at": swept.diverges_at})


def train(
    engine: Axolotl,
    recipe: TrainingRecipe,
    model: BaseModelCard,
    data: Path,
    folder: Path,
    *,
    device: Device,
    deadline_s: float,
    start: Start | None = None,
    rewards: Rewards | None = None,
    on_loss: Callable[[LossPoint, int], None] | None = None,
    on_ladder: Callable[[str], None] | None = None,
    on_snapshot: Callable[[Snapshot], bool] | None = None,
    checkpoint_every_s: float = CHECKPOINT_SECONDS,
) -> TrainingRun:
    """Train, watched, within about `deadline_s` seconds; a killed training goes on from its last whole checkpoint.

    `on_loss` gets each point and the number of all steps; `on_ladder` each step of the out-of-memory ladder in words.
    `on_snapshot` is called while the training waits for its answer: whether to go on. After a crash it is asked about
    earlier snapshots once more. The wait counts against the deadline, but not as training. On a single GPU the waiting
    training holds its memory: whether a server fits beside it is for the caller to know. GRPO needs `rewards`, and what
    they raise ends the training. Paths in the answer are absolute. Raises TrialError: DIVERGED, BUDGET, OOM at the
    ladder's end, CONFIG, ENV.
    """
    began = time.monotonic()
    rungs = ladder(recipe)
    taken = _remembered(folder, recipe, len(rungs))
    while True:
        rung = rungs[taken]
        config, identity = _prepare(recipe, model, data, folder, device, rung, start, rewards)
        request = TrainRequest(
            config=str(config), identity=identity, method=recipe.method, device=device, model=model.path,
            checkpoint_every_s=checkpoint_every_s, snapshots=recipe.snapshots,
        )  # fmt: skip
        left = deadline_s - (time.monotonic() - began)
        try:
            watched = _Watched(folder, recipe, left, on_loss, on_snapshot, rewards)
            trained = watched.call(_started_for(engine, device), request)
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
    stopped = trained.stopped_at_step
    return TrainingRun(
        **trained.model_dump(exclude={"planned_steps"}),
        stopped_because=f"the scores of its snapshots, at step {stopped} of {trained.planned_steps}" if stopped else "",
        config_sha256=sha256_of(config),
        micro_batch=rung.micro_batch,
        ladder=tuple(words(above, below, recipe) for above, below in pairwise(rungs[: taken + 1])),
        seed=recipe.seed,
    )


def forget_snapshots(folder: Path, keep: Path | None = None) -> None:
    """Remove the weights of the snapshots of the training in `folder`, except those in the weights folder `keep`; what
    was measured on them stays."""
    with disk(folder):
        for place in (folder / snapshots.FOLDER).glob("*/"):
            if keep is None or keep.resolve().parent != place.resolve():
                for name in ("weights", "adapter"):
                    shutil.rmtree(place / name, ignore_errors=True)


class _Watched:
    """One call of the engine under the watchdog."""

    def __init__(
        self,
        folder: Path,
        recipe: TrainingRecipe,
        deadline_s: float,
        on_loss: Callable[[LossPoint, int], None] | None,
        on_snapshot: Callable[[Snapshot], bool] | None,
        rewards: Rewards | None,
    ) -> None:
        """The clock starts here. Raises TrialError (BUDGET) where there is no time."""
        if deadline_s <= 0:
            raise TrialError("BUDGET", "no time is left for the training", "Give more time, or train less.")
        self.folder, self.deadline_s = folder, deadline_s
        self.on_loss, self.on_snapshot, self.rewards = on_loss, on_snapshot, rewards
        self.launch = time.monotonic()
        self.watchdog = Watchdog(deadline_s=deadline_s, warmup_ratio=recipe.warmup_ratio)

    def call(self, engine: Axolotl, request: TrainRequest) -> Trained:
        """The engine's answer. Raises EngineError, and TrialError where the watchdog ends it."""
        _forget_lost_weights(request, self.folder)
        limit = GRACE * self.deadline_s
        return engine.call(request, Trained, self.folder, timeout_s=limit, on_progress=self.seen, on_tick=self.looked)

    def looked(self) -> None:
        """Nothing new. Raises TrialError where that has lasted too long."""
        self.watchdog.tick(self.now)

    @property
    def now(self) -> float:
        """Seconds since the launch."""
        return time.monotonic() - self.launch

    def seen(self, fields: contract.Progress) -> None:
        """A line of the engine's progress: a snapshot, answers to score, or a point of the curve."""
        if self.rewards is not None and "to_score" in fields:
            self.rewards.answer(self.folder)
            self.watchdog.waited(self.now, goes_on=True)
            return
        if "snapshot" in fields:
            self.judged(Snapshot.model_validate(fields["snapshot"]))
            return
        total = int(str(fields.pop("total_steps")))
        point = LossPoint.model_validate(fields)  # "nan" in words becomes NaN
        if self.on_loss is not None and point.loss == point.loss:
            self.on_loss(point, total)
        self.watchdog.point(point, total, self.now)

    def judged(self, snapshot: Snapshot) -> None:
        """Have a snapshot judged while the training waits, and tell it the answer."""
        goes_on = self.on_snapshot is None or self.on_snapshot(snapshot)
        snapshots.answer(self.folder, go=goes_on)
        self.watchdog.waited(self.now, goes_on=goes_on)


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
    recipe: TrainingRecipe,
    model: BaseModelCard,
    data: Path,
    folder: Path,
    device: Device,
    rung: Rung,
    start: Start | None,
    rewards: Rewards | None,
) -> tuple[Path, str]:
    """Write the YAML; its path, and the hash over it, the data and the weights that the training begins with.

    Raises TrialError (CONFIG) where the recipe goes on from a trial and no start is given, or the other way round, and
    where it wants rewards and nobody gives them.
    """
    if recipe.objective == "grpo" and rewards is None:
        raise TrialError("CONFIG", "GRPO needs the benchmark's scorer, and this caller has none")
    if (start is None) != (recipe.continue_from is None):
        raise TrialError("CONFIG", "a recipe that goes on from a trial needs that trial's weights, and no other does")
    folder = made(folder).resolve()
    longest = rewards.longest_answer if rewards is not None else 0
    text = render(recipe, model, data.resolve(), folder, device, rung, start.path if start else None, longest)
    write_text(folder / "axolotl.yml", text)
    parts = (text, sha256_of(data), model.sha256, *((start.sha256,) if start else ()))
    return folder / "axolotl.yml", hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _key(recipe: TrainingRecipe) -> str:
    return hashlib.sha256(recipe.model_dump_json().encode()).hexdigest()


def _started_for(engine: Axolotl, device: Device) -> Axolotl:
    """The engine as it is; one that starts for each request gets its threads now."""
    return _pinned(engine, device) if isinstance(engine, contract.Engine) else engine


def _pinned(engine: contract.Engine, device: Device) -> contract.Engine:
    """The engine with its threads in their places."""
    return replace(engine, env={**CPU_THREADS, **engine.env}) if device == "cpu" else engine
