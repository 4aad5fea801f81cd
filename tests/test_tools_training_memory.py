"""The memory of a training: what the estimate goes with, and what is said would fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory.records import BaseModelCard
from tests.training_engines import RECIPE, small_model
from tools.training.config import Rung
from tools.training.memory import estimate_memory, ladder, what_fits


@pytest.fixture
def model(tmp_path: Path) -> BaseModelCard:
    return small_model(tmp_path / "model")


def test_the_memory_estimate_grows_with_what_costs_memory(model: BaseModelCard) -> None:
    def needed(rows_of: int = 100, **changes: object) -> int:
        return estimate_memory(RECIPE.model_copy(update=changes), model, rows_of, "cpu")

    base = needed()
    assert base < needed(200) < needed(200, micro_batch=8, batch_size=16, method="full")
    assert needed(micro_batch=2) < base < needed(lora_rank=256)
    deep = model.model_copy(update={"layers": 30})
    rungs = [estimate_memory(RECIPE, deep, 5000, "cpu", rung) for rung in ladder(RECIPE)]
    assert rungs == sorted(rungs, reverse=True), "each rung of the ladder needs less"


def test_what_would_fit_does_and_one_more_would_not(model: BaseModelCard) -> None:
    deep = model.model_copy(update={"layers": 30, "hidden_size": 576})
    free = estimate_memory(RECIPE, deep, 1000, "cpu", Rung(2)) + 1
    says = what_fits(RECIPE, deep, 1000, "cpu", free)
    assert says.startswith("a micro-batch of 2, or rows of at most ")
    length = int(says.split("at most ")[1].split()[0])
    assert estimate_memory(RECIPE, deep, length, "cpu") < free <= estimate_memory(RECIPE, deep, length + 1, "cpu")


def test_a_smaller_rank_or_an_adapter_is_named_where_it_helps(model: BaseModelCard) -> None:
    wide = RECIPE.model_copy(update={"lora_rank": 4096, "micro_batch": 1})
    free = estimate_memory(wide.model_copy(update={"lora_rank": 99}), model, 40, "cpu") + 1
    assert "rank 99 would fit" in what_fits(wide, model, 40, "cpu", free)
    full = RECIPE.model_copy(update={"method": "full"})
    free = estimate_memory(RECIPE, model, 40, "cpu") + 1
    assert what_fits(full, model, 40, "cpu", free) == "lora instead of full tuning would fit"


def test_where_nothing_fits_that_is_said(model: BaseModelCard) -> None:
    assert what_fits(RECIPE, model, 40, "cpu", 10**9).endswith("GB: take a smaller base model")
