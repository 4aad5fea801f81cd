"""Where a training begins: at the base model, or at the weights of an earlier trial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from memory.errors import TrialError
from memory.layout import RunFolder
from memory.records import TrainingRecipe, TrainingRun, Trial
from tools.weights_proof import content_sha256

ADAPTERS = ("lora", "qlora")


@dataclass(frozen=True)
class Start:
    """The trained weights that a training goes on from. None in its place is the base model."""

    path: Path
    """Folder of an adapter, or of whole weights for full tuning; absolute."""
    sha256: str
    """Over its safetensors files in order of their names, so that a training from other weights is another training."""


def start_of(recipe: TrainingRecipe, trials: Sequence[Trial], folder: RunFolder) -> Start | None:
    """The start that a recipe asks for by `continue_from`.

    An adapter goes on as that one adapter, relative to the base model, so rank and alpha must be the same; full tuning
    goes on from whole weights, merged ones as well. Raises TrialError (CONFIG) where that trial left none that fit.
    """
    if recipe.continue_from is None:
        return None
    name = f"trial {recipe.continue_from}"
    trial = next((each for each in trials if each.number == recipe.continue_from), None)
    if trial is None:
        raise TrialError("CONFIG", f"there is no {name} to go on from", "Go on from a trial of this run.")
    if trial.training is None or trial.decision == "failed":
        raise TrialError("CONFIG", f"{name} failed and left nothing to go on from", "Go on from a trial that trained.")
    return start_from(recipe, trial.plan.training, trial.training, folder, name)


def start_from(
    recipe: TrainingRecipe, theirs: TrainingRecipe, training: TrainingRun, folder: RunFolder, name: str
) -> Start:
    """The start of `recipe` in what an earlier training made by the recipe `theirs`. Raises TrialError (CONFIG) where
    it left nothing that fits."""
    where = training.weights if recipe.method == "full" else adapter_of(training, theirs, recipe, name)
    path = folder.resolve(where).resolve()
    if not any(path.glob("*.safetensors")) and not any(path.glob("*.json")):
        raise TrialError("CONFIG", f"the weights of {name} are gone from {path}", "Start from the base model.")
    return Start(path, content_sha256(path))


def adapter_of(training: TrainingRun, theirs: TrainingRecipe, recipe: TrainingRecipe, name: str) -> str:
    """The adapter of a training, relative to the run's folder. Raises TrialError (CONFIG) where it has another
    shape."""
    if training.adapter is None or theirs.method not in ADAPTERS:
        raise TrialError(
            "CONFIG",
            f"{name} trained all weights; an adapter on top of them would not be one of the base model",
            "Go on with full tuning, or from a trial with an adapter.",
        )
    mine, other = (recipe.lora_rank, recipe.lora_alpha), (theirs.lora_rank, theirs.lora_alpha)
    if mine != other:
        raise TrialError(
            "CONFIG",
            f"the adapter of {name} has rank {other[0]} and alpha {other[1]}, the recipe rank {mine[0]} and alpha "
            f"{mine[1]}",
            "Keep rank and alpha where a training goes on.",
        )
    return training.adapter
