"""Optuna tunes a number that a language model names: one factor a trial, within what time and machine allow."""

from __future__ import annotations

import random
from typing import Any

import pytest

from memory.records import Plan
from tests.proposer_world import World, score
from tools.proposers import search
from tools.proposers.bounds import RefusedError
from tools.proposers.brief import Brief, Stop
from tools.proposers.factors import Recipe, differing
from tools.proposers.history import recipe_of
from tools.proposers.llm_form import StructuredPlan
from tools.proposers.llm_plan import plan_of
from tools.proposers.tuning import NUMBERS, comparable, tuned

WORDS = {"diagnosis": "the loss is flat", "hypothesis": "it learns too slowly", "decision": "train"}
NO_NET = Stop(reason="search has no more ideas")


def planned(brief: Brief, **settings: Any) -> Plan:
    plan = plan_of(StructuredPlan.model_validate({**WORDS, **settings}), brief, NO_NET)
    assert isinstance(plan, Plan)
    return plan


def recipe(plan: Plan) -> Recipe:
    return Recipe(data=plan.data, training=plan.training)


@pytest.fixture
def world() -> World:
    """A task with time enough and one scored trial."""
    world = World(seconds=6_000.0, max_trials=40, train_rows=20_000)
    first = search.propose(world.brief())
    assert isinstance(first, Plan)
    world.run(first)
    return world


def with_rates(world: World, scores: dict[float, float]) -> Brief:
    """Trials like the first at other learning rates, with these scores."""
    first = world.trials[0]
    for rate, value in scores.items():
        training = first.plan.training.model_copy(update={"learning_rate": rate})
        plan = first.plan.model_copy(update={"number": len(world.trials) + 1, "parent": 1, "training": training})
        world.trials.append(first.model_copy(update={"plan": plan, "score": score(value)}))
    return world.brief()


@pytest.mark.parametrize("number", NUMBERS)
def test_the_number_that_is_named_changes_and_nothing_else(world: World, number: str) -> None:
    brief = world.brief()
    plan = planned(brief, parent=1, tune=number)
    assert differing(recipe_of(brief, world.trials[0]), recipe(plan)) == [number]
    assert plan.change is not None
    assert (plan.change.factor, plan.tuned, plan.proposer) == (number, (number,), "llm")
    assert (
        f"Tuned: {number} {plan.change.before} -> {plan.change.after}, a first spread over its range" in plan.diagnosis
    )
    assert "Bounded" not in plan.diagnosis
    assert brief.training_seconds(plan.data, plan.training) <= brief.training_room


@pytest.mark.parametrize("number", NUMBERS)
def test_the_model_says_which_way_and_the_draw_how_far(world: World, number: str) -> None:
    for towards, sign in (("lower", -1), ("higher", 1)):
        change = planned(world.brief(), parent=1, tune=number, towards=towards).change
        assert change is not None
        assert sign * (float(change.after) - float(change.before)) > 0


def test_equal_briefs_draw_equal_numbers(world: World) -> None:
    brief = with_rates(world, {1e-3: 0.4, 5e-4: 0.2, 3e-4: 0.1})
    again = Brief.model_validate_json(brief.model_dump_json())
    assert planned(brief, parent=1, tune="learning_rate") == planned(again, parent=1, tune="learning_rate")


@pytest.mark.parametrize("seed", range(4))
def test_what_scored_well_draws_the_next_value_to_it(world: World, seed: int) -> None:
    world.seed = seed
    falling = {3e-4: 0.9, 4.5e-4: 0.8, 1e-3: 0.3, 1.4e-3: 0.2, 2.8e-3: 0.1}
    world.trials[0] = world.trials[0].model_copy(update={"score": score(0.15)})
    plan = planned(with_rates(world, falling), parent=1, tune="learning_rate")
    assert plan.training.learning_rate < 1e-3
    assert "Optuna's TPE from 6 comparable trials" in plan.diagnosis


def test_trials_that_differ_in_more_than_the_number_say_nothing_about_it(world: World) -> None:
    brief = with_rates(world, {1e-3: 0.4})
    other = planned(brief, parent=1, tune="rows", towards="higher")
    world.run(other)
    brief = world.brief()
    assert [trial.number for trial in comparable(brief, recipe_of(brief, world.trials[0]), "learning_rate")] == [1, 2]


def test_several_numbers_are_drawn_together_only_where_all_are_asked_for(world: World) -> None:
    plan = planned(world.brief(), parent=1, tune="all")
    assert plan.change is not None
    assert plan.change.factor == "several"
    assert set(plan.tuned) <= {*NUMBERS, "lora_dropout", "warmup_ratio"}
    assert len(plan.tuned) > 1


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"tune": "epochs", "balance": "length"}, "Change one factor, not balance and epochs"),
        ({"tune": "all", "schedule": "linear"}, "Change one factor"),
        ({"schedule": "linear", "weight_decay": 0.1}, "Change one factor, not schedule and weight_decay"),
    ],
)
def test_more_than_one_factor_is_refused(world: World, settings: dict[str, Any], why: str) -> None:
    with pytest.raises(RefusedError, match=why):
        planned(world.brief(), parent=1, **settings)


def test_a_step_leaves_the_numbers_as_the_parent_has_them(world: World) -> None:
    plan = planned(world.brief(), parent=1, schedule="linear")
    assert (plan.change and plan.change.factor, plan.tuned) == ("schedule", ())
    full = planned(world.brief(), parent=1, method="full")
    assert (full.change and full.change.factor, full.training.learning_rate) == ("method", 2e-4)


def test_before_the_first_score_there_is_nothing_to_tune_by() -> None:
    brief = World().brief()
    plan = plan_of(StructuredPlan.model_validate({**WORDS, "tune": "epochs"}), brief, search.propose(brief))
    net = search.propose(brief)
    assert isinstance(plan, Plan)
    assert isinstance(net, Plan)
    assert (recipe(plan), plan.tuned) == (recipe(net), ())
    assert "Not tuned: epochs stays as it is, for no trial has a score yet." in plan.diagnosis


def test_where_no_time_is_left_for_more_of_it_the_model_is_told(world: World) -> None:
    brief = world.brief()
    # Time for the first trial's rows once more, and no second beyond them.
    short = world.trials[0].training.train_seconds if world.trials[0].training else 0.0
    brief = brief.model_copy(update={"seconds_left": brief.reserve_seconds + brief.fixed_seconds + 1.02 * short / 0.93})
    with pytest.raises(RefusedError, match=r"No value of rows from \d+ to \d+ is new and fits \(\d+ s are left"):
        tuned(brief, recipe_of(brief, world.trials[0]), "rows", "higher")


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_named_becomes_a_plan_of_one_factor_or_is_refused(seed: int) -> None:
    draw, world = random.Random(seed), World(seed=seed, seconds=20_000.0)
    choices: dict[str, list[Any]] = {
        "tune": [None, *NUMBERS], "towards": [None, "lower", "higher"], "parent": [None, 0, 1, 2, 3],
        "schedule": [None] * 4 + ["linear"], "balance": [None] * 4 + ["length"], "method": [None] * 4 + ["full"],
    }  # fmt: skip
    for _ in range(25):
        brief = world.brief()
        filled = {name: draw.choice(values) for name, values in choices.items()}
        try:
            plan = planned(brief, **filled)
        except RefusedError:
            continue
        parent = next((trial for trial in world.trials if trial.number == plan.parent), None)
        names = differing(recipe_of(brief, parent), recipe(plan)) if parent else []
        assert len(names) <= 1 or "Bounded" in plan.diagnosis
        assert set(plan.tuned) <= set(NUMBERS)
        assert brief.training_seconds(plan.data, plan.training) <= brief.training_room + 1
        world.run(plan)
    assert len(world.trials) > 2
