"""Each rule of the diagnosis fires on the figures that it names, changes one factor, and stays silent otherwise."""

import math

import pytest

from memory.records import (
    ConstantAnswer,
    DataRecipe,
    ErrorClass,
    NearDeduplicate,
    Order,
    Plan,
    Score,
    Select,
    SelfDistil,
    TrainingRecipe,
    Trial,
)
from tests.proposer_world import World, score, trained
from tools.proposers.brief import Brief
from tools.proposers.curves import curve_of
from tools.proposers.diagnosis import diagnose
from tools.proposers.factors import Recipe, differing
from tools.proposers.look import Diagnosis
from tools.proposers.search import propose

SETTLED = [2.0 * math.exp(-i / 5) + 0.4 for i in range(60)]
FALLING = [2.5 - 0.03 * i for i in range(60)]
SPIKY = [*SETTLED[:30], *[4.0] * 8, *SETTLED[38:]]
# fmt: off
JUMPING = [
    2.49, 2.06, 0.44, 1.3, 0.57, 1.37, 0.99, 0.25, 0.01, 1.95, 0.01, 0.03, 0.43, 0.37, 0.92, 1.33, 0.77,
    0.33, 0.03, 0.68, 0.6, 0.84, 0.52, 0.43, 0.34, 0.82, 1.31, 0.89, 0.41, 0.43, 0.2, 0.27, 0.05, 0.02,
    0.48, 1.01, 1.04, 0.86, 0.86, 0.72, 0.36, 0.62, 0.1, 0.29, 0.29, 0.42, 0.31, 0.29, 0.3, 0.28,
]
# fmt: on
RECIPE = Recipe(
    data=DataRecipe(operators=(Select(rows=400),)),
    training=TrainingRecipe(learning_rate=1e-3, epochs=1, batch_size=8),
)


def trial_of(
    losses: list[float], value: float, train: float | None, recipe: Recipe = RECIPE, validation: Score | None = None
) -> Trial:
    """A scored trial with this curve, validation score and score on its own rows."""
    plan = Plan(
        number=1,
        parent=None,
        diagnosis="d",
        hypothesis="h",
        change=None,
        expected_gain=0.3,
        data=recipe.data,
        training=recipe.training,
        proposer="search",
        predicted_seconds=100,
    )
    return Trial(
        plan=plan,
        decision="accepted",
        arithmetic="",
        training=trained(losses),
        score=validation or score(value),
        train_score=None if train is None else score(train, n=100, split="train"),
        seconds=150,
    )


def found(trial: Trial, recipe: Recipe = RECIPE, brief: Brief | None = None) -> list[Diagnosis]:
    """All that the rules say, each checked to change the one factor it names."""
    said = diagnose(brief or World(seconds=3_000).brief(), trial, recipe)
    for one in said:
        assert differing(recipe, one.recipe) == [one.factor]
        assert one.source
        assert any(character.isdigit() for character in one.figure)
        assert 0 < one.confidence <= 1
    assert [one.confidence for one in said] == sorted((one.confidence for one in said), reverse=True)
    return said


def first(said: list[Diagnosis], factor: str) -> Diagnosis:
    return next(one for one in said if one.factor == factor)


def test_a_falling_loss_asks_for_rows_and_a_higher_rate() -> None:
    said = found(trial_of(FALLING, 0.3, 0.35))
    assert said[0].factor == "continue_from"
    assert first(said, "rows").cause == said[0].cause
    assert "still falling" in said[0].cause
    assert first(said, "learning_rate").recipe.training.learning_rate == 3e-3


def test_a_spike_asks_for_a_lower_rate_before_anything_else() -> None:
    said = found(trial_of(SPIKY, 0.3, 0.35))
    assert said[0].cause == "the learning rate is too high"
    assert said[0].recipe.training.learning_rate == 3.3e-4
    assert all(one.recipe.training.learning_rate <= 1e-3 for one in said)


def test_memorised_rows_ask_for_more_rows() -> None:
    said = found(trial_of(SETTLED, 0.5, 0.99))
    assert said[0].factor == "continue_from"
    assert first(said, "rows").cause == said[0].cause
    assert "memorises" in said[0].cause
    assert "0.990" in said[0].figure


def test_memorised_rows_without_others_ask_for_fewer_passes_or_dropout() -> None:
    recipe = Recipe(data=RECIPE.data, training=RECIPE.training.model_copy(update={"epochs": 4.0}))
    brief = World(seconds=3_000, train_rows=400).brief()
    said = found(trial_of(SETTLED, 0.5, 0.99, recipe), recipe, brief)
    assert {"epochs", "lora_dropout"} <= {one.factor for one in said}
    assert first(said, "epochs").recipe.training.epochs == 2
    assert not any(one.factor == "rows" for one in said)


def test_unknown_rows_ask_for_more_passes_then_capacity_once_all_are_used() -> None:
    brief = World(seconds=3_000, train_rows=400).brief()
    said = found_with_method(trial_of(SETTLED, 0.3, 0.33), brief)
    factors = [one.factor for one in said]
    assert factors.index("epochs") < factors.index("lora_rank") < factors.index("method")
    full = first(said, "method").recipe.training
    assert full.method == "full"
    assert full.learning_rate < 1e-3


def found_with_method(trial: Trial, brief: Brief) -> list[Diagnosis]:
    said = diagnose(brief, trial, RECIPE)
    assert all(differing(RECIPE, one.recipe) == [one.factor] for one in said)
    return said


def test_unparsable_outputs_ask_for_more_rows() -> None:
    said = found(trial_of(SETTLED, 0.3, 0.35, validation=score(0.3, parsed=150)))
    assert said[0].factor == "continue_from"
    assert first(said, "rows").cause == said[0].cause
    assert said[0].figure == "25% of outputs hold no answer"


def test_loops_after_learning_ask_for_half_the_rate() -> None:
    loops = (ErrorClass(name="repetition", count=20),)
    trial = trial_of(SETTLED, 0.7, 0.97).model_copy(update={"errors": loops})
    halved = [one for one in found(trial) if one.cause == "outputs do not end"]
    assert [one.recipe.training.learning_rate for one in halved] == [5e-4]


def test_a_score_of_one_constant_answer_asks_for_a_lower_rate_and_for_balance() -> None:
    world = World(seconds=3_000)
    world.baseline = world.baseline.model_copy(update={"constant": ConstantAnswer(answer="Yes", value=0.70, n=200)})
    brief = world.brief().model_copy(update={"closed_answers": ("Yes", "No")})
    said = found(trial_of(SETTLED, 0.71, 0.72), brief=brief)
    lower = [one for one in said if one.cause == "one answer is preferred" and one.factor == "learning_rate"]
    assert [one.recipe.training.learning_rate for one in lower] == [3.3e-4]
    balanced = first(said, "balance").recipe.data.operators[0]
    assert isinstance(balanced, Select)
    assert balanced.balance == "answer"
    assert not any(one.factor == "balance" for one in found(trial_of(SETTLED, 0.9, 0.92), brief=brief))


def test_few_steps_ask_for_a_smaller_batch() -> None:
    assert first(found(trial_of(SETTLED, 0.3, 0.33)), "batch_size").recipe.training.batch_size == 4
    many = Recipe(data=DataRecipe(operators=(Select(rows=1_200),)), training=RECIPE.training)
    assert not any(one.factor == "batch_size" for one in found(trial_of(SETTLED, 0.3, 0.33, many), many))


def test_no_score_no_diagnosis() -> None:
    trial = trial_of(SETTLED, 0.3, 0.3).model_copy(update={"score": None})
    assert diagnose(World().brief(), trial, RECIPE) == []


@pytest.mark.parametrize(
    ("losses", "falling", "smooth"), [(SETTLED, False, True), (FALLING, True, True), (SPIKY, False, False)]
)
def test_curves_are_read_as_a_person_would(losses: list[float], falling: bool, smooth: bool) -> None:
    curve = curve_of(trained(losses).losses)
    assert curve is not None
    assert (curve.falling, curve.smooth) == (falling, smooth)


def test_a_handful_of_points_is_no_curve() -> None:
    assert curve_of(trained([2.0, 1.0, 0.5]).losses) is None


def test_single_steps_that_jump_about_are_no_spike() -> None:
    """A measured curve: syllogisms in batches of four rows with two labelled tokens each, at a sound learning rate."""
    curve = curve_of(trained(JUMPING).losses)
    assert curve is not None
    assert curve.smooth


def test_long_answers_that_are_sometimes_right_ask_for_the_models_own_words() -> None:
    brief = World(seconds=3_000).brief()
    assert not any(one.factor == "self_distil" for one in found(trial_of(SETTLED, 0.5, 0.55), brief=brief))
    wordy = brief.model_copy(update={"answer_chars": 250.0})
    distilled = first(found(trial_of(SETTLED, 0.5, 0.55), brief=wordy), "self_distil").recipe
    (operator,) = [op for op in distilled.data.operators if isinstance(op, SelfDistil)]
    assert (operator.trial, operator.rows, operator.unsolved) == (1, RECIPE.rows, "gold")
    asked = RECIPE.rows * operator.samples * brief.baseline.zero_shot.seconds / brief.baseline.zero_shot.n
    more = wordy.trial_seconds(distilled.data, distilled.training) - wordy.trial_seconds(RECIPE.data, RECIPE.training)
    assert more == pytest.approx(asked)


def test_memorised_rows_of_collected_text_ask_for_near_copies_to_go() -> None:
    brief = World(seconds=3_000).brief()
    said = found(trial_of(SETTLED, 0.5, 0.99), brief=brief)
    assert first(said, "near_duplicates").recipe.data.operators[0] == NearDeduplicate(threshold=0.8)
    generated = brief.model_copy(update={"generated": True})
    assert not any(one.factor == "near_duplicates" for one in found(trial_of(SETTLED, 0.5, 0.99), brief=generated))


def test_unknown_rows_may_come_in_an_order_once_all_are_used() -> None:
    brief = World(seconds=3_000, train_rows=400).brief()
    ordered = first(found_with_method(trial_of(SETTLED, 0.3, 0.33), brief), "curriculum").recipe
    assert ordered.training.order == "file"
    assert ordered.data.operators[-1] == Order(by="length")


def test_weights_that_learnt_go_on_with_rows_that_they_have_not_seen() -> None:
    on = first(found(trial_of(FALLING, 0.3, 0.35)), "continue_from").recipe
    assert on.training.continue_from == 1
    select = on.data.operators[-1]
    assert isinstance(select, Select)
    assert select.skip == RECIPE.rows
    spiky = found(trial_of(SPIKY, 0.3, 0.35))
    assert not any(one.factor == "continue_from" for one in spiky)


def test_a_recipe_that_goes_on_grows_into_the_rows_that_it_does_not_skip() -> None:
    world = World(seconds=4_000, train_rows=1_000)
    plan = propose(world.brief())
    assert isinstance(plan, Plan)
    world.run(plan.model_copy(update={"data": DataRecipe(operators=(Select(rows=200),))}))
    on = plan.training.model_copy(update={"continue_from": 1})
    data = DataRecipe(operators=(Select(rows=100, skip=200),))
    world.run(plan.model_copy(update={"number": 2, "parent": 1, "data": data, "training": on}))
    brief, trial = world.brief(), world.trials[1]
    grown = [one for one in diagnose(brief, trial, Recipe(data=data, training=on)) if one.factor == "rows"]
    assert grown
    assert all(one.recipe.rows <= 800 for one in grown)
    assert all(one.gain == pytest.approx(0.17 * math.log2((200 + one.recipe.rows) / 300)) for one in grown)
