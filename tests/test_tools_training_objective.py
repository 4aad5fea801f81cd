"""DPO and GRPO: what a recipe becomes, whose scores a training learns from, and that a failed score is never a 0."""

from __future__ import annotations

import json
import math
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from memory.errors import InputError, TrialError
from memory.records import (
    BaseModelCard,
    DataRecipe,
    Deduplicate,
    Filter,
    Order,
    PassRate,
    Preferences,
    Select,
    TrainingRecipe,
)
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
from tools import benchmarks
from tools.benchmarks.benchmark import Graded, Item
from tools.engines.axolotl import rewards as asking
from tools.engines.contract import Engine
from tools.engines.worker_io import WorkerFailure
from tools.training.engine import estimate_memory, preflight, render, train
from tools.training.objective import SOMETIMES, rows_for
from tools.training.rewards import Rewards
from tools.training.start import Start
from tools.weights_proof import content_sha256

DPO = RECIPE.model_copy(update={"objective": "dpo", "learning_rate": 2e-4})
GRPO = RECIPE.model_copy(update={"objective": "grpo", "learning_rate": 2e-4, "batch_size": 4, "generations": 4})
SUMS = replace(benchmarks.get("syllogism"), name="sums", max_new_tokens=8)


def exact(output: str, item: Item) -> Graded:
    return Graded(score=float(output == item.answer), answer=output)


def scorer(data: Path, grade: Any = exact) -> Rewards:
    """A scorer over the rows of a training file."""
    rows = [json.loads(line) for line in data.read_text().splitlines()]
    items = {
        row["id"]: Item(
            id=row["id"], prompt=row["messages"][0]["content"], answer=row["messages"][1]["content"], reference="{}"
        )
        for row in rows
    }
    return Rewards(replace(SUMS, grade=grade), items)


def as_pairs(data: Path) -> Path:
    """The same rows with an answer to reject."""
    rows = [json.loads(line) for line in data.read_text().splitlines()]
    data.write_text("".join(json.dumps(row | {"rejected": "no idea"}) + "\n" for row in rows))
    return data


# --- the rows -------------------------------------------------------------------------------------------------------


def test_an_objective_adds_the_operators_that_its_rows_need_and_no_more() -> None:
    plain = DataRecipe(operators=(Deduplicate(), Select(rows=50), Order(by="length")))
    going_on = {"continue_from": 3, "seed": 7}
    assert rows_for(plain, RECIPE, 400) == plain
    pairs = rows_for(plain, DPO.model_copy(update=going_on), 400)
    assert pairs.operators[2:] == (Preferences(trial=3, rows=50, seed=7), Order(by="length"))
    assert rows_for(pairs, DPO, 400) == pairs
    taught = rows_for(DataRecipe(operators=(Deduplicate(),)), GRPO.model_copy(update=going_on), 400)
    measured, kept = taught.operators[1:]
    assert isinstance(measured, PassRate) and (measured.trial, measured.rows) == (3, 400)
    assert kept == Filter(where=SOMETIMES)
    assert rows_for(taught, GRPO, 400) == taught


# --- the configuration ----------------------------------------------------------------------------------------------


def rendered(recipe: TrainingRecipe, model: BaseModelCard, **settings: Any) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load(
        render(recipe, model, Path("/d.jsonl"), Path("/f"), "cpu", longest_answer=8, **settings)
    )
    return config


def test_each_objective_has_its_own_settings_and_imitation_none_of_them(model: BaseModelCard) -> None:
    assert not {"rl", "trl", "rl_beta", "trainer_cls"} & set(rendered(RECIPE, model))
    dpo = rendered(DPO.model_copy(update={"beta": 0.3}), model)
    assert (dpo["rl"], dpo["rl_beta"], dpo["dpo_loss_type"]) == ("dpo", 0.3, ["sigmoid", "sft"])
    grpo = rendered(GRPO, model)
    assert (grpo["rl"], grpo["trl"]["use_vllm"], grpo["trl"]["max_completion_length"]) == ("grpo", False, 8)
    sequences = grpo["micro_batch_size"] * grpo["gradient_accumulation_steps"]
    assert sequences == GRPO.batch_size * GRPO.generations, "a step takes all answers to each of its questions"


def test_an_adapter_that_goes_on_becomes_the_reference_too(model: BaseModelCard) -> None:
    going_on = DPO.model_copy(update={"continue_from": 1})
    config = rendered(going_on, model, start=Path("/runs/adapter"))
    assert config["lora_model_dir"] == "/runs/adapter"
    assert any(plugin.endswith("ContinuedPairsPlugin") for plugin in config["plugins"])


def test_pairs_and_a_reference_need_more_memory(smaller: BaseModelCard) -> None:
    imitation = estimate_memory(RECIPE, smaller, 100, "cpu")
    assert estimate_memory(DPO, smaller, 100, "cpu") > imitation
    full = {"method": "full"}
    kept = estimate_memory(DPO.model_copy(update=full), smaller, 1, "cpu")
    assert kept > estimate_memory(RECIPE.model_copy(update=full), smaller, 1, "cpu") + 4 * smaller.parameters


@pytest.fixture
def smaller(model: BaseModelCard) -> BaseModelCard:
    return model.model_copy(update={"parameters": 10**6})


# --- a training, with the stand-in ----------------------------------------------------------------------------------


def test_grpo_learns_from_the_callers_scorer_and_keeps_its_rewards(
    model: BaseModelCard, data: Path, tmp_path: Path
) -> None:
    asked: list[str] = []

    def counted(output: str, item: Item) -> Graded:
        asked.append(item.id)
        return exact(output, item)

    run = train(quick(), GRPO, model, data, tmp_path / "t", device="cpu", deadline_s=60, rewards=scorer(data, counted))
    assert len(asked) == run.steps * GRPO.batch_size * GRPO.generations
    rewards = [point.reward for point in run.losses if point.reward is not None]
    assert len(rewards) == run.steps
    assert rewards[-1] > rewards[0]
    assert all(point.loss == 0 and point.kl is not None for point in run.losses)


def test_dpo_keeps_how_many_pairs_it_tells_apart(model: BaseModelCard, data: Path, tmp_path: Path) -> None:
    as_pairs(data)
    found = preflight(quick(), DPO, model, data, tmp_path / "p", device="cpu", samples=3, timeout_s=60)
    assert [sample.row for sample in found.samples] == [0, 0, 1, 1, 2, 2], "both halves of a pair are shown"
    run = train(quick(), DPO, model, data, tmp_path / "t", device="cpu", deadline_s=60)
    assert run.losses[-1].accuracy == 1
    assert all(point.reward is None for point in run.losses)


def test_a_reward_that_fails_fails_the_training(model: BaseModelCard, data: Path, tmp_path: Path) -> None:
    def broken(output: str, item: Item) -> Graded:
        raise InputError("score() returned 'x' on row 1", "A score is a number from 0 to 1")

    rewards = scorer(data, broken)
    with pytest.raises(TrialError, match=r"the scorer failed on an answer to row \d+: score\(\) returned") as caught:
        preflight(quick(), GRPO, model, data, tmp_path / "p", device="cpu", rewards=rewards, timeout_s=60)
    with pytest.raises(TrialError, match=r"the scorer failed on an answer to row \d+: score\(\) returned") as caught:
        train(quick(), GRPO, model, data, tmp_path / "t", device="cpu", rewards=rewards, deadline_s=60)
    assert caught.value.kind == "ENV"
    foreign = replace(scorer(data), items={})
    with pytest.raises(TrialError, match="row 1 is no training item of sums") as caught:
        train(quick(), GRPO, model, data, tmp_path / "u", device="cpu", deadline_s=60, rewards=foreign)
    assert caught.value.kind == "DATA"
    with pytest.raises(TrialError, match="GRPO needs the benchmark's scorer"):
        train(quick(), GRPO, model, data, tmp_path / "v", device="cpu", deadline_s=60)


@pytest.mark.parametrize("scores", [[1.0], [1.0, None], [1.0, math.inf], []])
def test_a_training_takes_nothing_but_numbers_for_rewards(tmp_path: Path, scores: list[Any]) -> None:
    def caller() -> None:
        while not (tmp_path / asking.ASKED).exists():
            time.sleep(0.01)
        (tmp_path / asking.ANSWER).write_text(json.dumps(scores))

    thread = threading.Thread(target=caller)
    thread.start()
    with pytest.raises(WorkerFailure, match="scores came back for 2 answers"):
        asking.ask(tmp_path, ["1", "2"], ["a", "b"])
    thread.join()


# --- the real engine ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real() -> Engine:
    return real_axolotl()


@pytest.fixture(scope="module")
def smollm(real: Engine) -> BaseModelCard:
    return smollm2(real)


@pytest.mark.engine
@pytest.mark.timeout(900)
def test_real_dpo_goes_on_from_an_adapter_and_survives_a_kill(
    real: Engine, smollm: BaseModelCard, tmp_path: Path
) -> None:
    data = as_pairs(write_data(tmp_path / "data.jsonl", 8))
    few = SMALL.model_copy(update={"epochs": 0.5, "batch_size": 2, "micro_batch": 2})
    begin = train(real, few, smollm, data, tmp_path / "sft", device="cpu", deadline_s=300)
    assert begin.adapter is not None
    adapter = Path(begin.adapter)
    start = Start(adapter, content_sha256(adapter))
    recipe = few.model_copy(update={"objective": "dpo", "learning_rate": 1e-4, "continue_from": 1, "epochs": 1.0})
    folder = tmp_path / "dpo"
    kill_in_mid_training(real, recipe, smollm, data, folder, 2, start)
    run = train(real, recipe, smollm, data, folder, device="cpu", deadline_s=300, start=start)
    assert run.steps == 4
    assert 2 <= run.resumed_from_step < 4
    first = run.losses[0]
    supervised = begin.losses[-1].loss
    assert first.accuracy == 0, "the reference is the adapter that it goes on from: no pair is told apart yet"
    assert math.log(2) < first.loss < math.log(2) + supervised, "and what it has learnt there is there"
    assert run.losses[-1].accuracy is not None and run.losses[-1].accuracy > 0
    assert tensors(Path(run.weights)) == tensors(Path(smollm.path))
    assert run.weights_sha256 not in (smollm.sha256, begin.weights_sha256)
    assert run.adapter is not None
    assert sorted(path.name for path in Path(run.adapter).glob("*/")) == [], "the reference is not handed on"
    name = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
    before, after = (read_tensor(place / "adapter_model.safetensors", name) for place in (adapter, Path(run.adapter)))
    assert 0 < np.abs(before - after).max() < 0.01 < np.abs(before).max(), "it went on, and did not begin anew"


@pytest.mark.engine
@pytest.mark.timeout(900)
def test_real_grpo_learns_what_the_scorer_likes(real: Engine, smollm: BaseModelCard, tmp_path: Path) -> None:
    def vowels(output: str, item: Item) -> Graded:
        return Graded(score=sum(output.count(vowel) for vowel in "aeiou") / max(1, len(output)), answer=output)

    data = write_data(tmp_path / "data.jsonl", 8)
    rewards = scorer(data, vowels)
    few = {"epochs": 0.25, "batch_size": 1, "micro_batch": 2, "generations": 2, "learning_rate": 1e-4}
    recipe = SMALL.model_copy(update={"objective": "grpo", "beta": 0.04, **few})
    measured = preflight(
        real, recipe, smollm, data, tmp_path / "p", device="cpu", steps=1, rewards=rewards, timeout_s=300
    )
    assert (measured.rows, measured.total_steps) == (8, 2)
    assert measured.predicted_seconds == pytest.approx(2 * measured.step_seconds)
    run = train(real, recipe, smollm, data, tmp_path / "t", device="cpu", deadline_s=300, rewards=rewards)
    assert run.steps == 2
    assert all(point.reward is not None and 0 < point.reward < 1 for point in run.losses)
    assert all(point.kl is not None and math.isfinite(point.kl) for point in run.losses)
    assert any(point.grad_norm for point in run.losses)
    assert tensors(Path(run.weights)) == tensors(Path(smollm.path))
    assert run.weights_sha256 != smollm.sha256
    assert run.tokens > 2 * 2 * 41, "questions and answers count"
