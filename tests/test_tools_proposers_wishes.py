"""A person's wishes on the next plan: each is carried, bounded by what the machine can do, and told in words."""

from __future__ import annotations

import pytest

from graph.wishes import understand
from memory.records import Filter, Plan, Wish
from tests.proposer_world import World
from tools.proposers.brief import Brief, Stop
from tools.proposers.factors import Recipe
from tools.proposers.search import propose


def wishing(brief: Brief, *texts: str) -> Brief:
    """The same brief with open wishes."""
    wishes = [Wish(number=n, at=float(n), text=text, understood=understand(text)) for n, text in enumerate(texts, 1)]
    return brief.model_copy(update={"wishes": tuple(wishes)})


def planned(brief: Brief) -> Plan:
    plan = propose(brief)
    assert isinstance(plan, Plan), plan
    return plan


def after(trials: int, **world: float) -> World:
    """A world in which some trials have been run."""
    made = World(**{"seconds": 4_000.0, **world})  # type: ignore[arg-type]
    for _ in range(trials):
        made.run(planned(made.brief()))
    return made


@pytest.mark.parametrize(
    ("text", "factor", "times"),
    [
        ("a lower learning rate", "learning_rate", 1 / 3),
        ("a higher learning rate", "learning_rate", 3),
        ("a smaller batch", "batch_size", 1 / 2),
        ("less data", "rows", 1 / 2),
        ("more data", "rows", 2),
        ("higher rank", "lora_rank", 2),
        ("longer context", "sequence_len", 2),
    ],
)
def test_a_first_plan_carries_a_wish_as_its_one_change(text: str, factor: str, times: float) -> None:
    brief = World(seconds=4_000.0, train_rows=20_000).brief()
    own, wished = planned(brief), planned(wishing(brief, text))
    assert wished.change is not None
    assert wished.change.factor == factor
    assert float(wished.change.after) == pytest.approx(float(wished.change.before) * times, rel=0.02)
    assert f'You said: "{text}"' in wished.hypothesis
    assert own.hypothesis in wished.hypothesis
    assert (wished.number, wished.parent) == (1, None)


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("learning rate 0.0004", "learning_rate", 4e-4),
        ("1 epoch", "epochs", 1.0),
        ("batch size 2", "batch_size", 2),
        ("dropout 0.1", "lora_dropout", 0.1),
        ("a linear schedule", "schedule", "linear"),
        ("seed 7", "seed", 7),
        ("keep the order", "order", "file"),
        ("warmup 0.2", "warmup_ratio", 0.2),
        ("alpha 64", "lora_alpha", 64),
    ],
)
def test_a_value_is_taken_as_it_was_said(text: str, field: str, value: object) -> None:
    training = planned(wishing(after(1).brief(), text)).training
    assert getattr(training, field) == value
    assert training.micro_batch <= training.batch_size


def test_all_weights_come_with_the_learning_rate_of_their_size() -> None:
    plan = planned(wishing(World().brief(), "train all weights"))
    assert (plan.training.method, plan.training.learning_rate) == ("full", 2e-4)
    plan = planned(wishing(World().brief(), "learning rate 0.0003", "train all weights"))
    assert (plan.training.method, plan.training.learning_rate) == ("full", 3e-4)


def test_what_the_machine_cannot_do_is_bounded_and_said() -> None:
    brief = World(train_rows=1_000).brief()
    many = planned(wishing(brief, "5000 rows"))
    assert many.data.rows is not None
    assert many.data.rows <= 1_000
    assert "1000 rows are there" in many.hypothesis
    long = planned(wishing(brief, "50 epochs"))
    assert brief.training_seconds(long.data, long.training) <= brief.training_room
    assert "Rows are cut to" in long.hypothesis
    quantised = planned(wishing(brief, "use qlora"))
    assert quantised.training.method == "lora"
    assert "Qlora needs a GPU" in quantised.hypothesis


def test_what_fits_in_no_way_leaves_the_planners_own() -> None:
    brief = World(seconds=500.0).brief()
    own, wished = propose(brief), propose(wishing(brief, "1000000 epochs"))
    assert isinstance(own, Plan)
    assert isinstance(wished, Plan)
    assert wished.training == own.training
    assert "It does not fit" in wished.hypothesis


def test_long_samples_are_dropped_and_a_filter_that_was_there_stays() -> None:
    brief = World().brief()
    plan = planned(wishing(brief, "drop samples over 90 characters"))
    assert [one.where for one in plan.data.operators if isinstance(one, Filter)] == [
        "prompt_chars + answer_chars <= 90"
    ]
    plan = planned(wishing(brief, "drop the long samples"))
    (where,) = [one.where for one in plan.data.operators if isinstance(one, Filter)]
    limit = int(where.rpartition(" ")[2])
    assert (brief.row_tokens - 36) * 3.2 < limit < (brief.longest_row - 36) * 3.2


def test_of_two_wishes_about_one_thing_the_later_counts() -> None:
    brief = World(seconds=4_000.0).brief()
    assert planned(wishing(brief, "more data", "less data")).data == planned(wishing(brief, "less data")).data


def test_going_back_grows_from_that_trial() -> None:
    world = after(3)
    second = world.trials[1]
    plan = planned(wishing(world.brief(), "go back to trial 2 and use a higher learning rate"))
    assert plan.parent == 2
    assert plan.change is not None
    assert plan.change.factor == "learning_rate"
    assert plan.training.learning_rate == pytest.approx(3 * second.plan.training.learning_rate, rel=0.02)
    assert plan.data == second.plan.data
    alone = planned(wishing(world.brief(), "go back to trial 1"))
    assert alone.parent == 1
    assert (alone.data, alone.training) != (world.trials[0].plan.data, world.trials[0].plan.training)


def test_another_rank_starts_from_the_base_model_where_the_plan_goes_on_from_weights() -> None:
    world = after(1)
    while planned(world.brief()).training.continue_from is None:
        world.run(planned(world.brief()))
    plan = planned(wishing(world.brief(), "rank 32"))
    assert (plan.training.lora_rank, plan.training.continue_from) == (32, None)
    assert "starts from the base model" in plan.hypothesis


def test_a_wish_is_tried_where_the_planner_itself_would_stop() -> None:
    world = World(seconds=6_000.0)
    world.play(propose)
    if world.brief().training_room < 100:
        world.seconds += 2_000
    stop = propose(world.brief())
    plan = propose(wishing(world.brief(), "a lower learning rate, and 200 rows"))
    assert isinstance(plan, Plan)
    assert isinstance(stop, Stop) or plan.training != stop.training
    brief = world.brief().model_copy(update={"trials_left": 0})
    assert isinstance(propose(wishing(brief, "a lower learning rate")), Stop)


def test_a_declined_plan_is_not_proposed_again() -> None:
    for world in (World(seconds=4_000.0), after(1), after(2)):
        brief = world.brief()
        seen: list[Recipe] = []
        for _ in range(4):
            plan = propose(brief.model_copy(update={"declined": tuple(declined_of(seen, brief))}))
            if isinstance(plan, Stop):
                break
            recipe = Recipe(data=plan.data, training=plan.training)
            assert recipe not in seen
            seen.append(recipe)
        assert len(seen) > 1


def declined_of(seen: list[Recipe], brief: Brief) -> list[Plan]:
    """Plans with these recipes."""
    model = planned(brief)
    return [model.model_copy(update={"data": one.data, "training": one.training}) for one in seen]


def test_without_wishes_nothing_is_different() -> None:
    world = after(2)
    assert propose(world.brief()) == propose(wishing(world.brief()))
