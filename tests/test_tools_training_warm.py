"""Axolotl kept warm: imports once, and each training is as if it had a process of its own."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from memory.errors import TrialError
from memory.records import BaseModelCard
from tests.training_engines import RECIPE, SMALL, quick, real_axolotl, smollm2, write_data
from tools.engines.contract import Engine
from tools.training.engine import kept_warm, preflight, train
from tools.warm_engine import WarmEngine


def warm(engine: Engine, folder: Path) -> WarmEngine:
    kept = kept_warm(engine, folder, "cpu")
    assert isinstance(kept, WarmEngine)
    return kept


def test_one_process_answers_all_and_a_failed_one_is_replaced(model: BaseModelCard, data: Path, tmp_path: Path) -> None:
    with warm(quick(FAKE_AXOLOTL_STEP_S="0.01"), tmp_path / "warm") as engine:
        preflight(engine, RECIPE, model, data, tmp_path / "p", device="cpu", timeout_s=60)
        first = engine._process
        run = train(engine, RECIPE, model, data, tmp_path / "t", device="cpu", deadline_s=60)
        assert run.steps == 10 and engine._process is first
        hopeless = RECIPE.model_copy(update={"learning_rate": 1.0})
        with pytest.raises(TrialError, match="the loss is not a number"):
            train(engine, hopeless, model, data, tmp_path / "u", device="cpu", deadline_s=60)
        assert train(engine, RECIPE, model, data, tmp_path / "v", device="cpu", deadline_s=60).steps == 10
        assert engine._process is not first


def test_on_a_gpu_every_training_has_a_process_of_its_own(tmp_path: Path) -> None:
    assert kept_warm(quick(), tmp_path, "cuda") == quick()


@pytest.mark.engine
def test_a_real_training_in_a_warm_engine_is_the_same_training(tmp_path: Path) -> None:
    real = real_axolotl()
    smollm = smollm2(real)
    data = write_data(tmp_path / "data.jsonl", 12)
    cold = train(real, SMALL, smollm, data, tmp_path / "cold", device="cpu", deadline_s=300)
    with warm(real, tmp_path / "warm") as engine:
        preflight(engine, SMALL, smollm, data, tmp_path / "p", device="cpu", timeout_s=300)
        began = time.monotonic()
        found = preflight(engine, SMALL, smollm, data, tmp_path / "q", device="cpu", steps=0, timeout_s=300)
        assert time.monotonic() - began < 4 and found.padded_tokens > 0
        run = train(engine, SMALL, smollm, data, tmp_path / "t", device="cpu", deadline_s=300)
    assert run.weights_sha256 == cold.weights_sha256
    assert [point.loss for point in run.losses] == [point.loss for point in cold.losses]
