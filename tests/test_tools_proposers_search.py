"""The search proposer plays whole runs on simulated tasks: it must end well, in time, and be able to explain itself."""

import random
from itertools import pairwise
from statistics import fmean
from typing import get_args

import pytest

from memory.records import Comparison, FailureKind, Lesson, Plan, Select, Trial
from tests.proposer_world import World, score, uniform_random
from tools.proposers import search
from tools.proposers.brief import Brief, Stop
from tools.proposers.factors import Recipe, differing, near
from tools.proposers.sampler import draws
from tools.proposers.search import propose

KINDS: tuple[FailureKind, ...] = get_args(FailureKind)
SHAPES = {
    "data-limited": {},
    "rate too low": {"best_rate": 6e-3, "width": 1.0},
    "rate too high": {"best_rate": 6e-4, "width": 0.8, "diverges_at": 5e-3},
    "rate too high, little time": {"best_rate": 6e-4, "width": 0.8, "diverges_at": 5e-3, "seconds": 600.0},
    "rate diverges": {"best_rate": 5e-4, "diverges_at": 1.5e-3},
    "soon learnt": {"rows_for_two_thirds": 150.0},
    "hard": {"rows_for_two_thirds": 8_000.0},
    "capped": {"cap": 0.6, "rows_for_two_thirds": 500.0},
    "few rows": {"train_rows": 200, "seconds": 1_500.0},
    "an hour": {"seconds": 3_600.0},
}
SEEDS = range(8)


def oracle(world: World) -> float:
    """What one training with all the time and the best learning rate would reach."""
    answers = []
    for rate in (3e-4, 6e-4, 1e-3, 2e-3, 4e-3, 6e-3):
        brief = world.brief().model_copy(update={"min_trials": 1})
        plan = propose(brief)
        assert isinstance(plan, Plan)
        training = plan.training.model_copy(update={"learning_rate": rate})
        answers.append(world.truth(Recipe(data=plan.data, training=training)))
    return max(answers)


def check_run(world: World) -> None:
    """What must hold of every run: in time, numbered, new, one named factor a plan, and words with figures."""
    recipes = [Recipe(data=trial.plan.data, training=trial.plan.training) for trial in world.trials]
    assert world.spent <= world.seconds - world.reserve + 1
    assert [trial.number for trial in world.trials] == list(range(1, len(world.trials) + 1))
    for i, (trial, recipe) in enumerate(zip(world.trials, recipes, strict=True)):
        plan = trial.plan
        assert recipe.rows <= world.train_rows
        assert recipe.training.micro_batch <= recipe.training.batch_size
        assert all(recipe != other for other in recipes[:i])
        assert plan.diagnosis
        assert plan.hypothesis
        if i == 0:
            assert plan.parent is None
            assert plan.change is None
            continue
        assert plan.parent is not None
        assert plan.change is not None
        names = differing(recipes[plan.parent - 1], recipe)
        assert plan.change.factor == (names[0] if len(names) == 1 else "several")


@pytest.mark.parametrize("shape", SHAPES)
def test_it_beats_random_search_and_comes_near_the_best(shape: str) -> None:
    ours, theirs = [], []
    for seed in SEEDS:
        world = World(seed=seed, **SHAPES[shape])
        world.play(propose)
        check_run(world)
        ours.append(world.result)
        rival = World(seed=seed, **SHAPES[shape])
        rival.play(uniform_random)
        theirs.append(rival.result)
    assert fmean(ours) > fmean(theirs) + 0.03
    assert fmean(ours) > 0.5 * oracle(World(**SHAPES[shape]))


def test_it_spends_the_time_where_that_pays() -> None:
    world = World()
    world.play(propose)
    assert len(world.trials) >= 3
    assert world.spent > 0.93 * (world.seconds - world.reserve)
    assert world.trials[-1].plan.data.rows == max(trial.plan.data.rows or 0 for trial in world.trials)


def test_rules_change_one_factor() -> None:
    world = World()
    world.play(propose)
    factors = [trial.plan.change.factor for trial in world.trials if trial.plan.change]
    assert factors == ["continue_from", "continue_from"]


def test_a_sure_remedy_gets_all_the_time_where_it_would_be_the_last_trial() -> None:
    world = World(best_rate=6e-4, width=0.8, diverges_at=5e-3, seconds=600)
    world.play(propose)
    first, last = world.trials
    assert last.plan.change is not None
    assert last.plan.change.factor == "several"
    assert last.plan.training.learning_rate < first.plan.training.learning_rate / 2
    assert (last.plan.data.rows or 0) > 2 * (first.plan.data.rows or 0)
    assert "for the time left" in last.plan.hypothesis


def test_predictions_come_true_once_measured() -> None:
    world = World(slowness=1.7, seconds=1_800)
    world.play(propose)
    for trial in world.trials[1:]:
        assert trial.plan.predicted_seconds == pytest.approx(trial.seconds, rel=0.05)


def test_the_same_state_gets_the_same_plan() -> None:
    world = World(seed=3, seconds=3_600, rows_for_two_thirds=200)
    while isinstance(plan := propose(world.brief()), Plan):
        again = Brief.model_validate_json(world.brief().model_dump_json())
        assert propose(again) == plan
        world.run(plan)


def test_a_small_budget_gets_fewer_trials_and_a_smaller_one_none() -> None:
    world = World(seconds=600)
    world.play(propose)
    assert len(world.trials) == 2
    stop = propose(World(seconds=290).brief())
    assert isinstance(stop, Stop)
    assert "larger budget" in stop.reason


@pytest.mark.parametrize("most", [1, 2, 3])
def test_no_more_trials_than_allowed(most: int) -> None:
    world = World(max_trials=most, seconds=1_200)
    stop = world.play(propose)
    assert len(world.trials) == most
    assert f"All {most} trials" in stop.reason
    assert world.spent > 0.75 * (world.seconds - world.reserve)


def test_it_stops_when_no_error_is_left() -> None:
    world = World(rows_for_two_thirds=5)
    stop = world.play(propose)
    assert len(world.trials) == 1
    assert "no error on 200 validation items" in stop.reason
    stop = World(base=1.0).play(propose)
    assert "the base model" in stop.reason


def test_it_stops_when_nothing_helps_though_time_is_left() -> None:
    world = World(cap=0.1, base=0.1, seconds=20_000, train_rows=300)
    stop = world.play(propose)
    assert world.spent < 0.6 * world.seconds
    assert "every remedy" in stop.reason
    check_run(world)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_it_recovers_from_one_failure(kind: FailureKind, number: int) -> None:
    world = World(seconds=1_500, fail=lambda plan: kind if plan.number == number else None)
    world.play(propose)
    check_run(world)
    failed, after = world.trials[number - 1], world.trials[number]
    assert after.score is not None
    assert after.plan.training != failed.plan.training or after.plan.data != failed.plan.data
    assert world.result > 0.3


@pytest.mark.parametrize("kind", KINDS)
def test_it_gives_up_on_a_failure_that_stays(kind: FailureKind) -> None:
    world = World(seconds=20_000, fail=lambda plan: kind)
    stop = world.play(propose)
    assert len(world.trials) == 3
    assert f"3 trials in a row failed with {kind}" in stop.reason
    assert "simulated" in stop.reason


@pytest.mark.parametrize("seed", range(40))
def test_no_weather_breaks_it(seed: int) -> None:
    weather = random.Random(seed)
    plans_that_fail = {number: weather.choice(KINDS) for number in range(1, 40) if weather.random() < 0.35}
    world = World(
        seed=seed,
        best_rate=weather.choice((5e-4, 2e-3, 5e-3)),
        diverges_at=weather.choice((1.8e-3, 7e-3, 1.0)),
        rows_for_two_thirds=weather.choice((100.0, 1_000.0, 6_000.0)),
        cap=weather.choice((0.1, 0.7, 1.0)),
        base=weather.choice((0.0, 0.08)),
        train_rows=weather.choice((40, 300, 4_000)),
        seconds=weather.choice((500.0, 900.0, 4_000.0)),
        max_trials=weather.choice((None, None, 5)),
        fail=lambda plan: plans_that_fail.get(plan.number),
    )
    stop = world.play(propose)
    check_run(world)
    assert len(stop.reason) > 20


def test_it_grows_from_a_better_looking_trial_that_was_not_accepted() -> None:
    world = World(seconds=1_500)
    for decision, value in (("accepted", 0.30), ("inconclusive", 0.36)):
        plan = propose(world.brief())
        assert isinstance(plan, Plan)
        trial = world.run(plan)
        world.trials[-1] = trial.model_copy(update={"decision": decision, "score": score(value)})
    plan = propose(world.brief())
    assert isinstance(plan, Plan)
    assert plan.parent == 2


def test_errors_are_pushed_down_where_less_is_better() -> None:
    world = World(seconds=1_500)
    world.baseline = world.baseline.model_copy(update={"zero_shot": score(0.9), "few_shot": score(0.9)})

    def brief() -> Brief:
        seen = world.brief()
        return seen.model_copy(update={"task": seen.task.model_copy(update={"higher_is_better": False})})

    for value in (0.5, 0.7):
        plan = propose(brief())
        assert isinstance(plan, Plan)
        assert plan.expected_gain > 0
        trial = world.run(plan)
        world.trials[-1] = trial.model_copy(
            update={"score": score(value), "decision": "accepted" if value < 0.6 else "rejected"}
        )
    plan = propose(brief())
    assert isinstance(plan, Plan)
    assert plan.parent == 1


def test_the_sample_cap_holds() -> None:
    world = World(seconds=3_000)
    brief = world.brief()
    plan = propose(brief.model_copy(update={"task": brief.task.model_copy(update={"sample_cap": 100})}))
    assert isinstance(plan, Plan)
    assert plan.data.rows == 100


def test_a_trial_by_another_proposer_that_takes_all_rows_is_a_parent_like_any_other() -> None:
    world = World(seconds=3_000, train_rows=600)
    plan = propose(world.brief())
    assert isinstance(plan, Plan)
    operators = tuple(operator for operator in plan.data.operators if not isinstance(operator, Select))
    trial = world.run(plan)
    other = plan.model_copy(update={"data": plan.data.model_copy(update={"operators": operators}), "proposer": "llm"})
    world.trials[-1] = trial.model_copy(update={"plan": other})
    assert isinstance(propose(world.brief()), Plan)


def test_draws_are_repeatable_differ_and_stay_near_the_centre() -> None:
    world = World(seconds=6_000)
    for _ in range(2):
        plan = propose(world.brief())
        assert isinstance(plan, Plan)
        world.run(plan)
    centre = Recipe(data=plan.data, training=plan.training)
    first = list(draws(world.brief(), centre))
    assert first == list(draws(world.brief(), centre))
    assert not any(near(one, other) for one, other in pairwise(first[:6]))
    for drawn in first:
        assert 1 / 3.1 < drawn.training.learning_rate / centre.training.learning_rate < 3.1
        assert world.brief().training_seconds(drawn.data, drawn.training) <= world.brief().training_room


def test_lessons_do_not_disturb_it() -> None:
    brief = World().brief()
    lesson = Lesson(text="rows pay", trials=(1,), evidence="0.2 -> 0.3")
    assert propose(brief.model_copy(update={"lessons": (lesson,)})) == propose(brief)


def one_compared_trial() -> tuple[World, Trial, Comparison]:
    """A hard task after its first trial."""
    world = World(rows_for_two_thirds=8_000.0, seconds=3_000)
    plan = propose(world.brief())
    assert isinstance(plan, Plan)
    trial = world.run(plan)
    assert trial.comparison is not None
    return world, trial, trial.comparison


def test_a_rise_within_noise_runs_again_under_other_seeds_and_is_then_left() -> None:
    world, trial, compared = one_compared_trial()
    rise = compared.model_copy(update={"difference": 0.03, "p_value": 0.2})
    world.trials[0] = trial.model_copy(update={"decision": "inconclusive", "comparison": rise})
    for number in (2, 3):
        again = search._again(world.brief())
        assert again is not None
        assert (again.number, again.repeats) == (number, 1)
        assert again.change is not None
        assert (again.change.factor, again.training.seed) == ("seed", number - 1)
        assert again.expected_gain == 0.03
        repeated = world.run(again)
        world.trials[-1] = repeated.model_copy(update={"decision": "inconclusive", "comparison": rise})
    assert search._again(world.brief()) is None


def test_a_fall_or_pure_noise_is_not_run_again() -> None:
    world, trial, compared = one_compared_trial()
    for difference, p_value in ((-0.03, 0.2), (0.01, 0.8)):
        other = compared.model_copy(update={"difference": difference, "p_value": p_value})
        world.trials[0] = trial.model_copy(update={"decision": "inconclusive", "comparison": other})
        assert search._again(world.brief()) is None


def test_a_plan_that_went_on_from_itself_is_repaired_like_any_refused_one() -> None:
    world = World(seconds=3_000)
    for _ in range(2):
        plan = propose(world.brief())
        assert isinstance(plan, Plan)
        world.run(plan)
        world.fail = lambda plan: "CONFIG"
    refused = world.trials[-1]
    itself = refused.plan.training.model_copy(update={"continue_from": refused.number})
    world.trials[-1] = refused.model_copy(update={"plan": refused.plan.model_copy(update={"training": itself})})
    assert isinstance(propose(world.brief()), Plan)


def test_a_recipe_beyond_the_usual_learning_rates_can_be_drawn_around() -> None:
    world = World()
    plan = propose(world.brief())
    assert isinstance(plan, Plan)
    for rate in (1e-6, 0.09):
        wild = Recipe(data=plan.data, training=plan.training.model_copy(update={"learning_rate": rate}))
        assert next(draws(world.brief(), wild)).training.learning_rate > 0
