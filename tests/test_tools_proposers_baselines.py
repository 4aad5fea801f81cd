"""The two references play whole runs on simulated tasks: in the budget, repeatable, and as strong as they can be."""

from __future__ import annotations

import itertools
from statistics import fmean

import pytest

from memory.records import DatasetCard, Failure, FailureKind, Plan, Trial, Verdict
from tests.proposer_world import World, uniform_random
from tools.proposers import default_fine_tune, random_search
from tools.proposers.brief import Brief, Stop
from tools.proposers.factors import Recipe

PROPOSERS = {"default": default_fine_tune.propose, "random": random_search.propose}
BOTH = pytest.mark.parametrize("name", PROPOSERS)


class Measuring(World):
    """A world whose validator measures the speed, and refuses what does not fit the time left."""

    def run(self, plan: Plan) -> Trial:
        recipe = Recipe(data=plan.data, training=plan.training)
        tokens = int(recipe.rows * self.row_tokens)
        seconds = tokens * recipe.training.epochs * self.seconds_per_token
        if seconds <= self.seconds - self.spent - self.reserve - 42.0:
            return super().run(plan)
        trial = Trial(
            plan=plan,
            decision="failed",
            arithmetic="",
            dataset=DatasetCard(path="d", sha256="0", rows=recipe.rows, mean_answer_chars=6, groups=()),
            verdict=Verdict(
                checks=(),
                step_seconds=seconds / recipe.steps,
                predicted_seconds=seconds,
                tokens=tokens,
                supervised_tokens=tokens // 10,
                longest_row=105,
            ),
            failure=Failure(kind="BUDGET", node="validator", message=f"{seconds:.0f} s of training predicted"),
            seconds=20.0,
        )
        self.trials.append(trial)
        self.spent += trial.seconds
        return trial


def recipes(world: World) -> list[Recipe]:
    return [Recipe(data=trial.plan.data, training=trial.plan.training) for trial in world.trials]


def planned(proposal: Plan | Stop) -> Plan:
    assert isinstance(proposal, Plan)
    return proposal


@BOTH
@pytest.mark.parametrize("slowness", [0.35, 1.0, 1.7])
@pytest.mark.parametrize("seconds", [500.0, 600.0, 1_200.0, 3_600.0])
def test_the_budget_holds_and_is_used(name: str, slowness: float, seconds: float) -> None:
    world = Measuring(slowness=slowness, seconds=seconds)
    world.play(PROPOSERS[name])
    assert world.spent <= world.seconds - world.reserve + 1
    assert any(trial.score for trial in world.trials)
    whole = any(recipe.visits == 3 * world.train_rows for recipe in recipes(world))
    assert whole or world.spent > 0.7 * (world.seconds - world.reserve)


@BOTH
def test_the_same_state_gets_the_same_plan(name: str) -> None:
    world = Measuring(seed=3, seconds=1_200)
    while isinstance(plan := PROPOSERS[name](world.brief()), Plan):
        assert PROPOSERS[name](Brief.model_validate_json(world.brief().model_dump_json())) == plan
        assert (plan.proposer, plan.number, plan.parent) == (name, world.brief().number, None)
        world.run(plan)


@BOTH
def test_the_sample_cap_and_the_number_of_trials_hold(name: str) -> None:
    world = World(seconds=20_000, max_trials=1)
    brief = world.brief()
    capped = brief.model_copy(update={"task": brief.task.model_copy(update={"sample_cap": 100})})
    assert planned(PROPOSERS[name](capped)).data.rows == 100
    world.play(PROPOSERS[name])
    assert len(world.trials) == 1
    no_rows = brief.model_copy(update={"train_rows": 0})
    stop = PROPOSERS[name](no_rows)
    assert isinstance(stop, Stop)
    assert "No training rows" in stop.reason


@BOTH
@pytest.mark.parametrize("kind", ["OOM", "CONFIG", "ENV", "BUDGET", "DATA"])
def test_a_failure_that_stays_ends_it(name: str, kind: FailureKind) -> None:
    world = World(seconds=20_000, fail=lambda plan: kind)
    stop = world.play(PROPOSERS[name])
    assert len(world.trials) <= 3
    assert kind in stop.reason


@BOTH
def test_a_budget_that_bears_no_training_says_so(name: str) -> None:
    stop = Measuring(seconds=290).play(PROPOSERS[name])
    assert "s are left for tr" in stop.reason


# --- one default fine-tune ------------------------------------------------------------------------------------------


def test_the_default_is_one_training_on_all_data() -> None:
    world = Measuring(seconds=20_000)
    stop = world.play(default_fine_tune.propose)
    (recipe,) = recipes(world)
    training = recipe.training
    assert (recipe.rows, training.epochs, training.learning_rate) == (4_000, 3.0, 2e-4)
    assert (training.lora_rank, training.lora_alpha, training.batch_size) == (16, 32, 8)
    assert stop.reason == "The one default fine-tune is done."


def test_the_default_is_cut_to_the_time_by_epochs_first() -> None:
    world = Measuring(train_rows=1_200, seconds=600)
    world.play(default_fine_tune.propose)
    refused, done = recipes(world)
    assert (refused.rows, refused.training.epochs) == (1_200, 3.0)
    assert done.rows == 1_200
    assert 1.0 <= done.training.epochs < 3.0
    assert done.training.model_copy(update={"epochs": 3.0}) == refused.training


def test_the_default_is_cut_to_the_time_by_rows_where_one_epoch_is_too_long() -> None:
    world = Measuring(seconds=600)
    world.play(default_fine_tune.propose)
    _, done = recipes(world)
    assert 500 < done.rows < 4_000
    assert done.training.epochs == 1.0


def test_a_machine_that_is_faster_than_assumed_trains_the_default_longer() -> None:
    rows = []
    for slowness in (1.0, 0.35):
        world = Measuring(slowness=slowness, seconds=600)
        world.play(default_fine_tune.propose)
        rows.append(recipes(world)[-1].visits)
    assert rows[1] > 2 * rows[0]


def test_the_default_is_tried_again_where_the_machine_failed() -> None:
    world = Measuring(seconds=20_000, fail=lambda plan: "ENV" if plan.number == 1 else None)
    world.play(default_fine_tune.propose)
    failed, done = recipes(world)
    assert failed == done
    assert world.trials[1].score is not None


# --- random search --------------------------------------------------------------------------------------------------


def test_draws_differ_between_trials_and_seeds_and_stay_in_the_space() -> None:
    drawn = []
    for seed in range(10):
        world = World(seed=seed, seconds=3_600)
        world.play(random_search.propose)
        assert len(world.trials) >= 3
        drawn += [recipe.training for recipe in recipes(world)]
    assert len(set(drawn)) == len(drawn)
    rates = sorted(training.learning_rate for training in drawn)
    assert rates[0] >= 3e-4
    assert rates[-1] <= 3e-3
    assert rates[0] < 6e-4
    assert rates[-1] > 2e-3
    assert {training.batch_size for training in drawn} == {4, 8, 16}
    assert {training.lora_rank for training in drawn} == {8, 16, 32, 64}


def test_draws_get_equal_shares_of_the_time() -> None:
    world = World(seconds=3_600)
    world.play(random_search.propose)
    seconds = [trial.seconds for trial in world.trials]
    assert max(seconds) < 1.6 * fmean(seconds)
    assert 3 <= len(world.trials) <= 4


def test_a_longer_budget_brings_larger_draws_not_ever_more() -> None:
    sizes = []
    for seconds in (1_200.0, 4_800.0):
        world = World(seconds=seconds)
        world.play(random_search.propose)
        sizes.append(fmean(recipe.visits for recipe in recipes(world)))
    assert sizes[1] > 2 * sizes[0]


@pytest.mark.slow
def test_random_search_is_no_straw_man() -> None:
    """At least as good as draws whose size is drawn as well, over tasks that are limited by data, rate and time."""
    ours, yardstick = [], []
    shapes: list[dict[str, float]] = [{}, {"best_rate": 6e-4, "width": 0.8, "diverges_at": 5e-3}, {"seconds": 3_600.0}]
    for seed, shape in itertools.product(range(8), shapes):
        for results, proposer in ((ours, random_search.propose), (yardstick, uniform_random)):
            world = World(seed=seed, **shape)  # type: ignore[arg-type]
            world.play(proposer)
            results.append(world.result)
    assert fmean(ours) > fmean(yardstick) + 0.05
