"""What was tried and lost is not tried again, and the tree grows from the trial that the figures favour."""

import math
from typing import Literal

import pytest

from memory.records import DataRecipe, Failure, FailureKind, Plan, Select, TrainingRecipe, Trial
from tests.proposer_world import World, score, trained
from tools.proposers.brief import Brief
from tools.proposers.factors import Recipe, change_between, changed
from tools.proposers.history import losing_streak, lost, standing, tried

START = Recipe(data=DataRecipe(operators=(Select(rows=400),)), training=TrainingRecipe(learning_rate=1e-3, epochs=1))


def trial(
    number: int,
    recipe: Recipe,
    value: float | None,
    parent: Trial | None = None,
    decision: Literal["accepted", "rejected", "inconclusive"] = "accepted",
    end_loss: float = 0.5,
    failure: FailureKind = "OOM",
) -> Trial:
    """A trial with this score, or failed where there is none."""
    before = Recipe(data=parent.plan.data, training=parent.plan.training) if parent else None
    plan = Plan(
        number=number,
        parent=parent.number if parent else None,
        diagnosis="d",
        hypothesis="h",
        change=change_between(before, recipe) if before else None,
        expected_gain=0.1,
        data=recipe.data,
        training=recipe.training,
        proposer="search",
        predicted_seconds=100,
    )
    if value is None:
        broken = Failure(kind=failure, node="trainer", message="no")
        return Trial(plan=plan, decision="failed", arithmetic="", failure=broken, seconds=50)
    curve = trained([2 * math.exp(-i / 5) + end_loss for i in range(60)])
    return Trial(plan=plan, decision=decision, arithmetic="", training=curve, score=score(value), seconds=150)


def brief(*trials: Trial) -> Brief:
    return World(seconds=3_000).brief().model_copy(update={"trials": trials})


def test_a_learning_rate_that_lost_is_lost_for_grown_recipes_too() -> None:
    first = trial(1, START, 0.5)
    higher = trial(2, changed(START, learning_rate=3e-3), 0.3, first, "rejected")
    grown = trial(3, changed(START, rows=1_200), 0.6, first)
    seen = brief(first, higher, grown)
    assert lost(seen, grown, "learning_rate", 1e-3, 3e-3)
    assert lost(seen, grown, "learning_rate", 1e-3, 6e-3)
    assert not lost(seen, grown, "learning_rate", 1e-3, 2e-3)
    assert not lost(seen, grown, "learning_rate", 1e-3, 3e-4)


def test_a_learning_rate_that_won_may_be_raised_further() -> None:
    first = trial(1, START, 0.3)
    higher = trial(2, changed(START, learning_rate=3e-3), 0.5, first)
    assert not lost(brief(first, higher), higher, "learning_rate", 3e-3, 6e-3)


def test_rows_that_brought_nothing_may_be_tried_at_twice_the_number() -> None:
    first = trial(1, START, 0.5)
    more = trial(2, changed(START, rows=800), 0.45, first, "rejected")
    seen = brief(first, more)
    assert lost(seen, first, "rows", 400, 1_200)
    assert not lost(seen, first, "rows", 400, 1_600)


def test_a_named_value_that_lost_is_lost_everywhere() -> None:
    first = trial(1, START, 0.5)
    balanced = trial(2, changed(START, balance="answer"), 0.4, first, "rejected")
    grown = trial(3, changed(START, rows=1_200), 0.6, first)
    seen = brief(first, balanced, grown)
    assert lost(seen, grown, "balance", "none", "answer")
    assert not lost(brief(first, grown), grown, "balance", "none", "answer")


@pytest.mark.parametrize(("kind", "blamed"), [("OOM", True), ("DIVERGED", True), ("ENV", False), ("BUDGET", False)])
def test_only_failures_of_the_recipe_count_against_a_value(kind: FailureKind, blamed: bool) -> None:
    first = trial(1, START, 0.5)
    wider = trial(2, changed(START, lora_rank=64), None, first, failure=kind)
    assert lost(brief(first, wider), first, "lora_rank", 16, 64) is blamed


def test_near_duplicates_count_as_tried() -> None:
    seen = brief(trial(1, START, 0.5))
    assert tried(seen, changed(START, rows=430))
    assert tried(seen, changed(START, learning_rate=1.2e-3))
    assert not tried(seen, changed(START, learning_rate=1.2e-3), exactly=True)
    assert not tried(seen, changed(START, learning_rate=2e-3))
    assert not tried(seen, changed(START, lora_dropout=0.05))


def test_the_best_score_stands_even_where_it_was_not_accepted() -> None:
    first = trial(1, START, 0.30)
    second = trial(2, changed(START, learning_rate=3e-3), 0.40, first, "inconclusive")
    third = trial(3, changed(START, lora_rank=64), 0.20, first, "rejected")
    assert standing(brief(first, second, third)) == second
    assert standing(brief()) is None


def test_within_noise_more_rows_stand_before_a_luckier_score() -> None:
    large = trial(1, changed(START, rows=1_200), 0.50)
    lucky = trial(2, START, 0.52, large, "inconclusive")
    assert standing(brief(large, lucky)) == large


def test_within_noise_the_lower_loss_on_the_same_new_rows_stands() -> None:
    first = trial(1, START, 0.02, end_loss=1.0)
    second = trial(2, changed(START, learning_rate=3e-3), 0.02, first, "inconclusive", end_loss=0.4)
    third = trial(3, changed(START, lora_rank=64), 0.025, first, "inconclusive", end_loss=1.0)
    assert standing(brief(first, second, third)) == second


def test_failures_do_not_lengthen_a_losing_streak() -> None:
    first = trial(1, START, 0.5)
    worse = trial(2, changed(START, learning_rate=3e-3), 0.4, first, "rejected")
    broken = trial(3, changed(START, lora_rank=64), None, first)
    assert losing_streak(brief(first, worse, broken)) == 1
