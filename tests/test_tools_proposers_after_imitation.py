"""DPO and GRPO come when nothing else is left, go on from the best model, and are counted with all that they cost."""

from __future__ import annotations

from typing import Any

import pytest

from memory.records import Filter, PassRate, Plan, Preferences, Select
from tests.proposer_world import World
from tools.proposers import search
from tools.proposers.after_imitation import further, towards
from tools.proposers.bounds import RefusedError
from tools.proposers.curves import curve_of
from tools.proposers.factors import differing
from tools.proposers.history import recipe_of
from tools.proposers.llm_form import ProposedPlan
from tools.proposers.llm_plan import plan_of
from tools.training.objective import SOMETIMES

WORDS = {"diagnosis": "stuck", "hypothesis": "pairs", "decision": "train", "objective": "dpo"}


def played(**settings: Any) -> World:
    """A run with one accepted trial and hours left."""
    world = World(**{"seconds": 12_000, "train_rows": 2_000, "rows_for_two_thirds": 500, **settings})
    first = search.propose(world.brief())
    assert isinstance(first, Plan)
    assert world.run(first).decision == "accepted"
    return world


def test_the_next_objective_goes_on_from_the_best_model_with_questions_that_it_has_not_seen() -> None:
    world = played(cap=0.6, train_rows=50_000)
    brief, best = world.brief(), world.trials[0]
    found = further(brief)
    assert found is not None
    parent, diagnosis = found
    after = diagnosis.recipe
    assert (parent.number, after.training.objective, after.training.continue_from) == (1, "dpo", 1)
    assert after.training.learning_rate == pytest.approx(2e-4)
    assert after.training.lora_rank == best.plan.training.lora_rank
    assert differing(recipe_of(brief, best), after) == ["objective"], "it is one factor, and all else follows"
    (select,) = (one for one in after.data.operators if isinstance(one, Select))
    assert select.skip == best.plan.data.rows
    (pairs,) = (one for one in after.data.operators if isinstance(one, Preferences))
    assert (pairs.trial, pairs.rows) == (best.number, after.rows)


def test_grpo_keeps_questions_that_are_solved_sometimes() -> None:
    world = played()
    recipe = towards(world.brief(), world.trials[0], "grpo")
    assert recipe is not None
    assert any(isinstance(one, PassRate) and one.trial == 1 for one in recipe.data.operators)
    assert recipe.data.operators[-1] == Filter(where=SOMETIMES)
    assert recipe.training.beta == 0.04


def test_asking_and_training_fit_the_time_or_nothing_is_proposed() -> None:
    world = played()
    fitting = 0
    for seconds in range(0, 12_000, 300):
        world.spent = float(seconds)
        brief = world.brief()
        recipe = towards(brief, world.trials[0], "grpo")
        if recipe is not None:
            asked = brief.sampling_seconds(recipe.data)
            assert asked > 0
            assert brief.training_seconds(recipe.data, recipe.training) + asked <= brief.training_room
            fitting += 1
    assert 0 < fitting < 40


def test_a_model_that_is_never_or_always_right_is_left_alone() -> None:
    assert further(World().brief()) is None
    for value in (0.04, 0.97):
        world = played()
        trial = world.trials[0]
        assert trial.score is not None
        world.trials[0] = trial.model_copy(update={"score": trial.score.model_copy(update={"value": value})})
        assert further(world.brief()) is None


def test_search_tries_each_objective_once_after_all_other_remedies() -> None:
    world = played(cap=0.6)
    world.play(search.propose)
    trials = [trial.plan for trial in world.trials]
    objectives = [plan.training.objective for plan in trials]
    first = objectives.index("dpo")
    assert first >= 2
    assert (objectives.count("dpo"), objectives.count("grpo")) == (1, 1)
    change = trials[first].change
    assert change is not None and change.factor == "objective"


def test_a_language_model_may_name_an_objective() -> None:
    brief = played().brief()
    plan = plan_of(ProposedPlan.model_validate(WORDS), brief, search.propose(brief))
    assert isinstance(plan, Plan)
    assert (plan.training.objective, plan.training.continue_from, plan.parent) == ("dpo", 1, 1)
    assert plan.change is not None and plan.change.factor == "objective"
    slower = plan_of(ProposedPlan.model_validate(WORDS | {"learning_rate": 5e-5}), brief, search.propose(brief))
    assert isinstance(slower, Plan) and slower.training.learning_rate == 5e-5
    untrained = World().brief()
    with pytest.raises(RefusedError, match="Only a trial that was trained has answers to learn from"):
        plan_of(ProposedPlan.model_validate(WORDS), untrained, search.propose(untrained))


def test_a_reinforcements_loss_has_no_shape() -> None:
    run = played().trials[0].training
    assert run is not None
    assert curve_of(run.losses) is not None
    assert curve_of([point.model_copy(update={"reward": 0.5}) for point in run.losses]) is None
