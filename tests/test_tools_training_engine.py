"""Training: what a recipe becomes, how it is watched, what a crash, too little memory and too little time come to."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from memory.errors import EngineError, TrialError
from memory.layout import sha256_of
from memory.records import BaseModelCard, LossPoint, TrainingRecipe
from tests.training_engines import (
    RECIPE,
    SMALL,
    kill_in_mid_training,
    quick,
    real_axolotl,
    smollm2,
    tensors,
    write_data,
)
from tools.engines.contract import Engine
from tools.training import engine
from tools.training.engine import preflight, render, train

ENDS = {"added_tokens": [{"id": 1, "content": "<start>"}, {"id": 2, "content": "<end>"}, {"id": 3, "content": "<pad>"}]}


@pytest.fixture(scope="module")
def real() -> Engine:
    return real_axolotl()


@pytest.fixture(scope="module")
def smollm(real: Engine) -> BaseModelCard:
    return smollm2(real)


# --- the configuration --------------------------------------------------------------------------------------------


def rendered(recipe: TrainingRecipe, model: BaseModelCard, device: engine.Device = "cpu") -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load(render(recipe, model, Path("/d.jsonl"), Path("/f"), device))
    return config


def test_the_effective_batch_is_what_the_recipe_says(model: BaseModelCard) -> None:
    for batch, micro in ((8, 8), (32, 8), (12, 8), (7, 4), (4, 16)):
        config = rendered(RECIPE.model_copy(update={"batch_size": batch, "micro_batch": micro}), model)
        assert config["micro_batch_size"] * config["gradient_accumulation_steps"] == batch
        assert config["micro_batch_size"] <= micro


def test_each_method_and_device_has_its_own_settings(model: BaseModelCard) -> None:
    lora = rendered(RECIPE, model)
    assert (lora["adapter"], lora["lora_r"], lora["lora_target_linear"]) == ("lora", 16, True)
    assert any("CpuPlugin" in plugin for plugin in lora["plugins"])
    full = rendered(RECIPE.model_copy(update={"method": "full"}), model, "cuda")
    assert "adapter" not in full
    assert full["plugins"] == ["tools.engines.axolotl.cpu_plugin.MasterWeightsPlugin"]
    qlora = rendered(RECIPE.model_copy(update={"method": "qlora"}), model, "cuda")
    assert qlora["load_in_4bit"] is True
    assert "plugins" not in qlora


@pytest.mark.parametrize(("stops", "expected"), [(2, ["<end>"]), ([3, 2], ["<end>"]), (9, None), (None, None)])
def test_the_token_that_ends_an_answer_is_the_one_that_stops_generation(
    model: BaseModelCard, stops: object, expected: list[str] | None
) -> None:
    folder = Path(model.path)
    (folder / "tokenizer.json").write_text(json.dumps(ENDS))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": stops}))
    (folder / "chat_template.jinja").write_text("<start>{{ message }}<end>")
    assert rendered(RECIPE, model).get("eot_tokens") == expected


# --- a training, with the stand-in ----------------------------------------------------------------------------------


def test_a_training_streams_its_curve_and_leaves_weights(model: BaseModelCard, data: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    run = train(
        quick(), RECIPE, model, data, tmp_path / "t", device="cpu", deadline_s=60,
        on_loss=lambda point, total: seen.append((point.step, total)),
    )  # fmt: skip
    assert seen == [(step, 10) for step in range(1, 11)]
    assert [point.step for point in run.losses] == list(range(1, 11))
    assert (run.steps, run.micro_batch, run.ladder, run.resumed_from_step) == (10, 8, (), 0)
    assert Path(run.weights).is_dir()
    assert run.config_sha256 == sha256_of(tmp_path / "t" / "axolotl.yml")


def test_a_finished_training_is_not_repeated_but_lost_weights_are_made_again(
    model: BaseModelCard, data: Path, tmp_path: Path
) -> None:
    def again() -> tuple[str, int]:
        run = train(quick(), RECIPE, model, data, tmp_path / "t", device="cpu", deadline_s=60)
        return run.weights_sha256, (tmp_path / "t" / "result.json").stat().st_mtime_ns

    first = again()
    assert again() == first
    Path(tmp_path / "t" / "weights" / "quality.json").unlink()
    Path(tmp_path / "t" / "weights" / "config.json").unlink()
    Path(tmp_path / "t" / "weights").rmdir()
    digest, when = again()
    assert digest == first[0]
    assert when > first[1]
    write_data(data, 48)
    assert again()[0] != digest


@pytest.mark.parametrize(("rate", "says"), [(1.0, "the loss is not a number at step 3"), (0.5, "after starting at")])
def test_a_learning_rate_beyond_reason_ends_the_engine_early(
    model: BaseModelCard, data: Path, tmp_path: Path, rate: float, says: str
) -> None:
    recipe = RECIPE.model_copy(update={"learning_rate": rate, "epochs": 100})
    began = time.monotonic()
    with pytest.raises(TrialError, match=says) as caught:
        train(quick(FAKE_AXOLOTL_STEP_S="0.02"), recipe, model, data, tmp_path / "t", device="cpu", deadline_s=60)
    assert caught.value.kind == "DIVERGED"
    assert time.monotonic() - began < 5


def test_a_training_that_cannot_end_in_time_is_stopped(model: BaseModelCard, data: Path, tmp_path: Path) -> None:
    recipe = RECIPE.model_copy(update={"epochs": 30})
    with pytest.raises(TrialError, match="s a step the training would end after") as caught:
        train(quick(FAKE_AXOLOTL_STEP_S="0.1"), recipe, model, data, tmp_path / "t", device="cpu", deadline_s=3)
    assert caught.value.kind == "BUDGET"
    with pytest.raises(TrialError, match="no time is left"):
        train(quick(), recipe, model, data, tmp_path / "u", device="cpu", deadline_s=0)


def test_qlora_on_a_cpu_is_refused_with_a_way_out(model: BaseModelCard, data: Path, tmp_path: Path) -> None:
    recipe = RECIPE.model_copy(update={"method": "qlora"})
    with pytest.raises(EngineError, match=r"QLoRA needs a CUDA device.*Use lora") as caught:
        preflight(quick(), recipe, model, data, tmp_path / "p", device="cpu", timeout_s=60)
    assert caught.value.kind == "CONFIG"


def test_out_of_memory_halves_the_micro_batch_and_says_so(model: BaseModelCard, data: Path, tmp_path: Path) -> None:
    said: list[str] = []

    def once() -> engine.TrainingRun:
        engine = quick(FAKE_AXOLOTL_ROWS="3")
        return train(engine, RECIPE, model, data, tmp_path / "t", device="cpu", deadline_s=60, on_ladder=said.append)

    run = once()
    assert (run.micro_batch, run.steps) == (2, 10)
    assert run.ladder == tuple(said) == (
        "micro-batch 8 to 4, effective batch stays 8", "micro-batch 4 to 2, effective batch stays 8",
    )  # fmt: skip
    assert once() == run
    assert len(said) == 2, "what did not fit was not tried again"


def test_the_end_of_the_ladder_says_what_would_fit(model: BaseModelCard, data: Path, tmp_path: Path) -> None:
    said: list[str] = []
    with pytest.raises(
        TrialError, match=r"out of memory even at micro-batch 1 .* GB\. To fit: .*smaller base model"
    ) as caught:
        train(
            quick(FAKE_AXOLOTL_ROWS="0"), RECIPE, model, data, tmp_path / "t", device="cpu", deadline_s=60,
            on_ladder=said.append,
        )  # fmt: skip
    assert caught.value.kind == "OOM"
    assert [line.split(",")[0] for line in said] == [
        "micro-batch 8 to 4", "micro-batch 4 to 2", "micro-batch 2 to 1",
        "gradient checkpointing on: activations are computed twice",
    ]  # fmt: skip


def test_a_training_killed_with_9_goes_on_where_it_was(model: BaseModelCard, data: Path, tmp_path: Path) -> None:
    engine = quick(FAKE_AXOLOTL_STEP_S="0.1")
    step = kill_in_mid_training(engine, RECIPE, model, data, tmp_path / "t", 3)
    run = train(engine, RECIPE, model, data, tmp_path / "t", device="cpu", deadline_s=60)
    assert run.resumed_from_step >= step
    assert [point.step for point in run.losses] == list(range(1, 11))
    assert not (tmp_path / "t" / "checkpoints").exists()


def test_a_half_written_checkpoint_and_one_of_another_recipe_are_not_continued(
    model: BaseModelCard, data: Path, tmp_path: Path
) -> None:
    engine = quick(FAKE_AXOLOTL_STEP_S="0.1")
    kill_in_mid_training(engine, RECIPE, model, data, tmp_path / "t", 3)
    half = tmp_path / "t" / "checkpoints" / "checkpoint-9"
    half.mkdir()
    other = RECIPE.model_copy(update={"learning_rate": 1e-3})
    (whole,) = (tmp_path / "t" / "checkpoints").glob("*/whole")
    assert train(quick(), other, model, data, tmp_path / "t", device="cpu", deadline_s=60).resumed_from_step == 0
    assert not whole.exists()
    assert not half.exists()


# --- the real engine ------------------------------------------------------------------------------------------------


@pytest.mark.engine
def test_the_real_preflight_measures_and_leaves_nothing(real: Engine, smollm: BaseModelCard, tmp_path: Path) -> None:
    data = write_data(tmp_path / "data.jsonl", 12)
    found = preflight(real, SMALL, smollm, data, tmp_path / "p", device="cpu", steps=2, timeout_s=240)
    assert (found.rows, found.dropped, found.total_steps) == (12, 0, 6)
    assert len(found.lengths) == len(found.supervised) == 12
    for sample in found.samples:
        learned = [token for token, label in zip(sample.input_ids, sample.labels, strict=True) if label != -100]
        assert learned[-1] == 2, "the model learns to end its answer with <|im_end|>"
        assert len(learned) == found.supervised[sample.row]
        assert len(sample.input_ids) == found.lengths[sample.row]
    assert found.predicted_seconds == pytest.approx(6 * found.step_seconds)
    estimate = engine.estimate_memory(SMALL, smollm, max(found.lengths), "cpu")
    assert 0.4 * estimate < found.peak_memory_bytes < 1.5 * estimate
    assert not [path for path in (tmp_path / "p").rglob("*") if path.stat().st_size > 100_000]
    short = SMALL.model_copy(update={"sequence_len": max(found.lengths) - 1})
    dropped = preflight(real, short, smollm, data, tmp_path / "q", device="cpu", timeout_s=240)
    assert dropped.dropped == sum(length == max(found.lengths) for length in found.lengths)
    assert dropped.lengths == found.lengths


@pytest.mark.engine
def test_a_real_training_killed_with_9_ends_as_if_nothing_had_happened(
    real: Engine, smollm: BaseModelCard, tmp_path: Path
) -> None:
    data = write_data(tmp_path / "data.jsonl", 12)
    seen: list[LossPoint] = []
    whole = train(
        real,
        SMALL,
        smollm,
        data,
        tmp_path / "whole",
        device="cpu",
        deadline_s=300,
        on_loss=lambda at, _: seen.append(at),
    )
    assert tuple(seen) == whole.losses
    assert tensors(Path(whole.weights)) == tensors(Path(smollm.path))
    assert whole.weights_sha256 != smollm.sha256
    for name in ("tokenizer.json", "chat_template.jinja", "generation_config.json"):
        assert (Path(whole.weights) / name).read_bytes() == (Path(smollm.path) / name).read_bytes()
    folder = tmp_path / "killed"
    kill_in_mid_training(real, SMALL, smollm, data, folder, 2)
    resumed = train(real, SMALL, smollm, data, folder, device="cpu", deadline_s=300)
    assert 0 < resumed.resumed_from_step < 6
    assert resumed.steps == whole.steps == 6
    assert [point.loss for point in resumed.losses] == [point.loss for point in whole.losses]
    assert resumed.weights_sha256 == whole.weights_sha256
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == ["adapter", "weights"]


@pytest.mark.engine
def test_real_full_tuning_trains_fp32_weights_and_leaves_whole_ones(
    real: Engine, smollm: BaseModelCard, tmp_path: Path
) -> None:
    data = write_data(tmp_path / "data.jsonl", 12)
    recipe = SMALL.model_copy(update={"method": "full", "learning_rate": 1e-5})
    step = kill_in_mid_training(real, recipe, smollm, data, tmp_path / "t", 1)
    kept = tensors(tmp_path / "t" / "checkpoints" / f"checkpoint-{step}")
    assert {dtype for dtype, _ in kept.values()} == {"F32"}, "in bf16 updates of 1e-5 would round to nothing"
    run = train(real, recipe, smollm, data, tmp_path / "t", device="cpu", deadline_s=300)
    assert run.adapter is None
    assert run.weights_sha256 != smollm.sha256
    assert tensors(Path(run.weights)) == tensors(Path(smollm.path))
    assert all(math.isfinite(point.loss) for point in run.losses)


@pytest.mark.engine
@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"lora_rnak": 3}, "Axolotl knows no setting lora_rnak"),
        ({"micro_batch_size": "many"}, "micro_batch_size: "),
    ],
)
def test_axolotl_itself_judges_the_configuration(
    real: Engine, smollm: BaseModelCard, tmp_path: Path, settings: dict[str, object], says: str
) -> None:
    data = write_data(tmp_path / "data.jsonl", 4)
    config = yaml.safe_load(render(SMALL, smollm, data, tmp_path, "cpu"))
    (tmp_path / "bad.yml").write_text(yaml.safe_dump({**config, **settings}))
    request = engine.PreflightRequest(
        config=str(tmp_path / "bad.yml"), identity="x", method="lora", device="cpu", steps=1, samples=1
    )
    with pytest.raises(EngineError, match=says) as caught:
        real.call(request, engine.Preflight, tmp_path / "p", timeout_s=240)
    assert caught.value.kind == "CONFIG"
