"""Going on from another trial's weights: what is refused, what counts as the same training, and that it is one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from memory.errors import TrialError
from memory.layout import RunFolder
from memory.records import BaseModelCard, TrainingRun, Trial
from tests import example_run
from tests.training_engines import (
    RECIPE,
    SMALL,
    kill_in_mid_training,
    quick,
    read_tensor,
    real_axolotl,
    smollm2,
    tensors,
    write_data,
)
from tools.training.engine import render, train
from tools.training.start import Start, start_of
from tools.weights_proof import content_sha256

ON = RECIPE.model_copy(update={"continue_from": 1})


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run")


def trial_of(folder: RunFolder, run: TrainingRun, **recipe: object) -> Trial:
    """Trial 1, which trained."""
    made = example_run.trial(folder, example_run.plan(1, **recipe), [1, 1, 1, 0], "accepted")
    relative = {
        "weights": folder.relative(Path(run.weights)),
        "adapter": folder.relative(Path(run.adapter)) if run.adapter else None,
    }
    return made.model_copy(update={"training": run.model_copy(update=relative)})


def first(folder: RunFolder, model: BaseModelCard, data: Path, **recipe: object) -> Trial:
    """Trial 1, trained by the stand-in."""
    changed = RECIPE.model_copy(update=recipe)
    run = train(quick(), changed, model, data, folder.trial(1) / "train", device="cpu", deadline_s=60)
    return trial_of(folder, run, **recipe)


def test_an_adapter_goes_on_as_one_adapter_and_full_tuning_from_whole_weights(
    folder: RunFolder, model: BaseModelCard, data: Path
) -> None:
    trial = first(folder, model, data)
    adapter = start_of(ON, [trial], folder)
    assert adapter is not None and adapter.path == (folder.trial(1) / "train" / "adapter").resolve()
    text = render(ON, model, data, folder.root, "cpu", start=adapter.path)
    assert f"lora_model_dir: {adapter.path}\n" in text
    assert f"base_model: {model.path}\n" in text
    full = ON.model_copy(update={"method": "full"})
    merged = start_of(full, [trial], folder)
    assert merged is not None and merged.path == (folder.trial(1) / "train" / "weights").resolve()
    assert f"base_model: {merged.path}\n" in render(full, model, data, folder.root, "cpu", start=merged.path)
    assert start_of(RECIPE, [trial], folder) is None


@pytest.mark.parametrize(
    ("recipe", "before", "says"),
    [
        ({"continue_from": 7}, {}, "there is no trial 7 to go on from"),
        ({"continue_from": 2}, {}, "trial 2 failed and left nothing to go on from"),
        ({"lora_rank": 8}, {}, "the adapter of trial 1 has rank 16 and alpha 32, the recipe rank 8 and alpha 32"),
        ({"lora_alpha": 16}, {}, "rank 16 and alpha 16"),
        ({}, {"method": "full"}, "trial 1 trained all weights"),
    ],
)
def test_what_cannot_be_gone_on_from_is_refused(
    folder: RunFolder, model: BaseModelCard, data: Path, recipe: dict[str, object], before: dict[str, object], says: str
) -> None:
    trials = [first(folder, model, data, **before), example_run.failed_trial(example_run.plan(2))]
    with pytest.raises(TrialError, match=says) as caught:
        start_of(ON.model_copy(update=recipe), trials, folder)
    assert caught.value.kind == "CONFIG"


def test_weights_that_were_removed_are_missed(folder: RunFolder, model: BaseModelCard, data: Path) -> None:
    trial = first(folder, model, data)
    for file in (folder.trial(1) / "train" / "adapter").iterdir():
        file.unlink()
    with pytest.raises(TrialError, match="the weights of trial 1 are gone from"):
        start_of(ON, [trial], folder)


def test_other_weights_to_go_on_from_make_another_training(folder: RunFolder, model: BaseModelCard, data: Path) -> None:
    def again(start: Start | None) -> TrainingRun:
        return train(quick(), ON, model, data, folder.trial(2) / "train", device="cpu", deadline_s=60, start=start)

    start = start_of(ON, [first(folder, model, data)], folder)
    assert start is not None
    one = again(start)
    assert again(start) == one
    result = folder.trial(2) / "train" / "result.json"
    before = result.stat().st_mtime_ns
    again(start)
    assert result.stat().st_mtime_ns == before, "a finished training is found again"
    again(Start(start.path, "0" * 64))
    assert result.stat().st_mtime_ns > before
    with pytest.raises(TrialError, match="needs that trial's weights"):
        again(None)


# --- the real engine ------------------------------------------------------------------------------------------------


@pytest.mark.engine
def test_a_real_adapter_goes_on_where_the_first_training_ended(tmp_path: Path) -> None:
    """The second training's first loss is that of the first one's weights; its merged weights are base + adapter."""
    real = real_axolotl()
    smollm = smollm2(real)
    data = write_data(tmp_path / "data.jsonl", 12)
    once = SMALL.model_copy(update={"epochs": 3, "schedule": "constant", "warmup_ratio": 0.0})
    first = train(real, once, smollm, data, tmp_path / "1", device="cpu", deadline_s=300)
    assert first.adapter is not None
    more = SMALL.model_copy(update={"continue_from": 1, "lora_dropout": 0.1, "learning_rate": 3e-4})
    start = Start(Path(first.adapter), content_sha256(Path(first.adapter)))
    second = train(real, more, smollm, data, tmp_path / "2", device="cpu", deadline_s=300, start=start)
    fresh, ended, went_on = first.losses[0].loss, first.losses[-1].loss, second.losses[0].loss
    assert went_on < ended + 0.25 * (fresh - ended), f"{fresh} fell to {ended}; then {went_on}"
    assert json.loads((Path(second.adapter or "") / "adapter_config.json").read_text())["lora_dropout"] == 0.1
    assert second.weights_sha256 not in (first.weights_sha256, smollm.sha256)
    assert tensors(Path(second.weights)) == tensors(Path(smollm.path))
    layer = "model.layers.7.mlp.down_proj"
    down, up = (
        read_tensor(Path(second.adapter or "") / "adapter_model.safetensors", f"base_model.model.{layer}.{name}.weight")
        for name in ("lora_A", "lora_B")
    )
    base, merged = (
        read_tensor(Path(folder) / "model.safetensors", f"{layer}.weight") for folder in (smollm.path, second.weights)
    )
    exact = base + more.lora_alpha / more.lora_rank * (up @ down)
    assert (np.abs(merged - exact) <= np.abs(exact) / 256).all(), "within the rounding of bf16"
    assert np.abs(merged - base).max() > 0
    killed = tmp_path / "killed"
    kill_in_mid_training(real, more, smollm, data, killed, 2, start)
    resumed = train(real, more, smollm, data, killed, device="cpu", deadline_s=300, start=start)
    assert 0 < resumed.resumed_from_step < 6
    assert [point.loss for point in resumed.losses] == [point.loss for point in second.losses]
    assert resumed.weights_sha256 == second.weights_sha256
