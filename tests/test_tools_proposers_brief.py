"""Costs are predicted from what is assumed at first and measured later, and first recipes are sized by them."""

import pytest

from memory.records import Plan
from tests.proposer_world import MODEL, World
from tools.lengths import row_tokens
from tools.proposers.brief import (
    Stop,
    measured_longest_row,
    measured_overhead,
    measured_row_tokens,
    measured_seconds_per_token,
)
from tools.proposers.search import propose
from tools.proposers.starting_recipe import starting_recipe


def one_trial(world: World) -> World:
    plan = propose(world.brief())
    assert isinstance(plan, Plan)
    world.run(plan)
    return world


def test_nothing_is_measured_before_the_first_trial() -> None:
    assert measured_row_tokens([]) is measured_longest_row([]) is measured_seconds_per_token([]) is None
    assert measured_overhead([]) is None


def test_measured_figures_are_what_the_trials_show() -> None:
    world = one_trial(World(slowness=2.0))
    assert measured_row_tokens(world.trials) == pytest.approx(world.row_tokens, rel=0.01)
    assert measured_seconds_per_token(world.trials) == pytest.approx(2 / 560, rel=0.01)
    assert measured_overhead(world.trials) == pytest.approx(world.overhead)
    assert measured_longest_row(world.trials) == 105


def test_a_failed_trial_still_teaches_the_speed_of_its_micro_run() -> None:
    world = one_trial(World(slowness=2.0))
    failed = world.trials[0].model_copy(update={"training": None, "score": None})
    assert measured_seconds_per_token([failed]) == pytest.approx(2 / 560, rel=0.01)
    assert measured_overhead([failed]) is None


def test_the_assumed_speed_is_that_of_two_cores() -> None:
    assert 1 / World().brief().speed == pytest.approx(560, rel=0.05)


def test_a_trial_costs_its_fixed_part_and_its_tokens() -> None:
    brief = World().brief()
    plan = propose(brief)
    assert isinstance(plan, Plan)
    tokens = (plan.data.rows or 0) * plan.training.epochs * brief.row_tokens
    assert brief.trial_seconds(plan.data, plan.training) == pytest.approx(82 + 1.2 * tokens * brief.speed)
    assert plan.training.micro_batch == 4
    full = plan.training.model_copy(update={"method": "full"})
    assert brief.training_seconds(plan.data, full) == pytest.approx(
        1.5 * brief.training_seconds(plan.data, plan.training)
    )


def test_rows_are_estimated_on_the_long_side() -> None:
    assert row_tokens("x" * 300, "y" * 20) == pytest.approx(136)


@pytest.mark.parametrize(
    ("parameters", "rate"), [(135_000_000, 2e-3), (1_200_000_000, 5e-4), (7_000_000_000, 2e-4), (70_000_000_000, 2e-4)]
)
def test_larger_models_start_lower(parameters: int, rate: float) -> None:
    brief = World(seconds=40_000_000.0).brief()
    brief = brief.model_copy(update={"model": MODEL.model_copy(update={"parameters": parameters})})
    start = starting_recipe(brief)
    assert not isinstance(start, Stop)
    assert start[1].learning_rate == rate


def test_the_first_recipe_leaves_time_for_two_more_and_takes_enough_steps() -> None:
    brief = World().brief()
    start = starting_recipe(brief)
    assert not isinstance(start, Stop)
    data, training = start
    assert brief.spendable > 3 * brief.trial_seconds(data, training)
    assert (data.rows or 0) * training.epochs / training.batch_size >= 50
    assert training.sequence_len >= brief.longest_row


def test_a_long_budget_starts_with_a_small_share() -> None:
    brief = World(seconds=10_000, train_rows=100_000).brief()
    start = starting_recipe(brief)
    assert not isinstance(start, Stop)
    assert brief.training_seconds(*start) < 0.15 * brief.spendable


def test_few_rows_are_seen_several_times_and_many_once() -> None:
    few = starting_recipe(World(train_rows=100, seconds=6_000).brief())
    many = starting_recipe(World(train_rows=100_000, seconds=6_000).brief())
    assert not isinstance(few, Stop)
    assert not isinstance(many, Stop)
    assert (few[0].rows, few[1].epochs) == (100, 4.0)
    assert many[1].epochs == 1


def test_no_rows_no_recipe() -> None:
    start = starting_recipe(World(train_rows=0).brief())
    assert isinstance(start, Stop)
    assert "No training rows" in start.reason
