"""From which trial the strategies grow, in small trees made by hand, and what they leave alone."""

from typing import Literal, get_args

import pytest

from memory.records import Plan, Planning, Strategy, TrainingRecipe, Trial
from tests.bench_search import drawn
from tests.proposer_world import World, score
from tests.test_tools_proposers_history import START, trial
from tools.proposers.bounds import RefusedError
from tools.proposers.brief import Brief, Remembered, Stop
from tools.proposers.factors import Recipe, changed
from tools.proposers.history import dead_end, tried
from tools.proposers.llm_form import ProposedPlan
from tools.proposers.llm_plan import plan_of
from tools.proposers.search import propose
from tools.proposers.strategies import STRATEGIES
from tools.proposers.strategies.mcts import bound, luck
from tools.proposers.strategies.tree import Choice, roots


def brief(strategy: Strategy, *trials: Trial, seconds: float = 6_000, left: int | None = None) -> Brief:
    """These trials, so much time of a run with this strategy."""
    seen = World(seconds=seconds, planning=Planning(search=strategy)).brief()
    return seen.model_copy(update={"trials": trials, "trials_left": left})


def parent_of(strategy: Strategy, *trials: Trial, seconds: float = 6_000, left: int | None = None) -> int:
    """The trial from which the strategy grows."""
    choice = STRATEGIES[strategy](brief(strategy, *trials, seconds=seconds, left=left))
    assert isinstance(choice, Choice)
    return choice.parent.number


def branches(first: float, *others: float) -> list[Trial]:
    """A first trial, and others that each changed the rank of it."""
    stem = trial(1, START, first)
    ranks = (64, 8, 4, 2)
    return [
        stem,
        *(
            trial(n + 2, changed(START, lora_rank=ranks[n]), value, stem, "inconclusive")
            for n, value in enumerate(others)
        ),
    ]


@pytest.mark.parametrize("strategy", get_args(Strategy))
def test_every_strategy_grows_from_a_trial_that_is_clearly_best(strategy: Strategy) -> None:
    assert parent_of(strategy, *branches(0.30, 0.60)) == 2
    assert parent_of(strategy, *branches(0.60, 0.30)) == 1


def test_greedy_prefers_more_rows_within_noise_and_best_first_the_score() -> None:
    large = trial(1, changed(START, rows=1_200), 0.50)
    lucky = trial(2, START, 0.52, large, "inconclusive")
    assert parent_of("greedy", large, lucky) == 1
    assert parent_of("best-first", large, lucky) == 2


def test_best_first_takes_the_next_trial_where_the_best_has_nothing_left() -> None:
    tries = branches(0.50, 0.48)
    while (choice := STRATEGIES["best-first"](brief("best-first", *tries))) and choice.parent.number == 1:
        tries.append(trial(len(tries) + 1, choice.change.recipe, 0.2, tries[0], "rejected"))
    assert len(tries) > 2
    assert choice is not None
    assert choice.parent.number == 2
    assert "2 has the highest score plus standard error" in choice.why


def test_tree_search_explores_a_second_branch_when_the_first_is_flat() -> None:
    """The rank's branch went deep and stayed where it was; the first trial is worth another look. Greedy stays."""
    stem, child = branches(0.50, 0.51)
    third = trial(3, changed(START, lora_rank=64, lora_dropout=0.05), 0.505, child, "inconclusive")
    fourth = trial(4, changed(START, lora_rank=64, lora_dropout=0.05, warmup_ratio=0.1), 0.505, third, "inconclusive")
    assert parent_of("mcts", stem, child) == 2
    assert parent_of("mcts", stem, child, third, fourth) == 1
    assert parent_of("greedy", stem, child, third, fourth) != 1


def test_tree_search_goes_down_a_branch_that_rises() -> None:
    stem, child = branches(0.30, 0.45)
    third = trial(3, changed(START, lora_rank=64, rows=900), 0.60, child)
    assert parent_of("mcts", stem, child, third) == 3


def test_tree_search_is_greedy_where_no_further_trial_can_follow() -> None:
    stem, child = branches(0.50, 0.51)
    third = trial(3, changed(START, lora_rank=64, lora_dropout=0.05), 0.505, child, "inconclusive")
    fourth = trial(4, changed(START, lora_rank=64, lora_dropout=0.05, warmup_ratio=0.1), 0.505, third, "inconclusive")
    tree = (stem, child, third, fourth)
    assert parent_of("mcts", *tree, left=1) == parent_of("greedy", *tree, left=1)
    assert parent_of("mcts", *tree, left=5) == 1


def test_the_bound_narrows_with_tries_and_the_best_of_many_is_taken_down() -> None:
    assert bound(0.5, 0.03, 1, 1) == 0.5
    assert bound(0.5, 0.03, 8, 4) < bound(0.5, 0.03, 8, 1)
    assert luck(1) == pytest.approx(0)
    assert luck(4) == pytest.approx(1.03, abs=0.03)  # expected maximum of four standard normals


# --- the tree ---------------------------------------------------------------------------------------------------------


def test_seeds_of_one_recipe_are_one_node_and_a_repair_grows_from_what_failed() -> None:
    first = trial(1, START, 0.50)
    again = trial(2, changed(START, seed=1), 0.54, first, "inconclusive")
    again = again.model_copy(update={"plan": again.plan.model_copy(update={"repeats": 1})})
    broken = trial(3, changed(START, lora_rank=64), None, again)
    mended = trial(4, changed(START, lora_rank=32), 0.60, broken)
    (root,) = roots(brief("mcts", first, again, broken, mended))
    assert root.value == pytest.approx(0.52)
    assert root.error == pytest.approx(score(0.5).stderr / 2**0.5, rel=0.01)
    assert root.trial == again
    assert [child.trial.number for child in root.children] == [4]
    assert (root.visits, root.failed) == (4, 1)


@pytest.mark.parametrize("strategy", get_args(Strategy))
def test_a_failed_trial_is_repaired(strategy: Strategy) -> None:
    first = trial(1, START, 0.50)
    broken = trial(2, changed(START, rows=3_000), None, first)
    hopeful = broken.plan.model_copy(update={"expected_gain": 0.45})
    broken = broken.model_copy(update={"plan": hopeful})
    choice = STRATEGIES[strategy](brief(strategy, first, broken))
    assert choice is not None
    assert (choice.parent.number, choice.change.factor) == (2, "micro_batch")
    alone = STRATEGIES[strategy](brief(strategy, trial(1, START, None)))
    assert alone is not None
    assert alone.change.factor == "micro_batch"


# --- dead ends --------------------------------------------------------------------------------------------------------


def test_three_children_that_scored_no_higher_make_a_dead_end() -> None:
    assert dead_end(brief("mcts", *branches(0.5, 0.45, 0.5)), branches(0.5)[0]) is None
    dead = dead_end(brief("mcts", *branches(0.5, 0.45, 0.5, 0.4)), branches(0.5)[0])
    assert dead == (
        "Trial 1 (0.500) is a dead end: the last 3 trials grown from it, 2 (0.450), 3 (0.500), 4 (0.400), scored no "
        "higher."
    )
    assert dead_end(brief("mcts", *branches(0.5, 0.45, 0.5, 0.6)), branches(0.5)[0]) is None


def test_what_the_machine_broke_and_other_seeds_do_not_make_a_dead_end() -> None:
    stem, second, third = branches(0.5, 0.45, 0.4)
    broken = trial(4, changed(START, lora_rank=4), None, stem, failure="ENV")
    assert dead_end(brief("mcts", stem, second, third, broken), stem) is None
    seed = trial(4, changed(START, seed=1), 0.4, stem)
    seed = seed.model_copy(update={"plan": seed.plan.model_copy(update={"repeats": 1})})
    assert dead_end(brief("mcts", stem, second, third, seed), stem) is None


@pytest.mark.parametrize("strategy", ["best-first", "mcts"])
def test_a_dead_end_is_left_and_named_in_the_reason_of_the_next_plan(strategy: Literal["best-first", "mcts"]) -> None:
    tree = branches(0.60, 0.58, 0.50, 0.50)
    plan = propose(brief(strategy, *tree))
    assert isinstance(plan, Plan)
    assert plan.parent != 1
    assert "Trial 1 (0.600) is a dead end" in plan.diagnosis


def test_a_language_models_plan_is_told_that_it_grows_from_a_dead_end_and_near_copies_are_refused() -> None:
    tree = branches(0.60, 0.58, 0.50, 0.50)
    seen = brief("greedy", *tree)
    answer = ProposedPlan(diagnosis="d", hypothesis="h", decision="train", parent=1, lora_rank=128)
    plan = plan_of(answer, seen, propose(seen))
    assert isinstance(plan, Plan)
    assert plan.diagnosis.startswith("d Trial 1 (0.600) is a dead end")
    with pytest.raises(RefusedError, match="differs from it only in lora_rank"):
        plan_of(answer.model_copy(update={"lora_rank": 70}), seen, propose(seen))


# --- what earlier runs found ------------------------------------------------------------------------------------------


def test_a_first_trial_takes_over_the_settings_that_won_before_at_its_own_size() -> None:
    plain = propose(brief("greedy"))
    assert isinstance(plain, Plan)
    won = TrainingRecipe(learning_rate=6e-4, epochs=4, batch_size=4 * plain.training.batch_size, lora_rank=64, seed=9)
    before = Remembered(run="earlier", trial=3, score=score(0.9), training=won)
    plan = propose(brief("greedy").model_copy(update={"remembered": before}))
    assert isinstance(plan, Plan)
    assert plan.training == plain.training.model_copy(update={"learning_rate": 3e-4, "lora_rank": 64})
    assert plan.data == plain.data
    assert "Settings are those of trial 3 of run earlier, which won there with 0.900 on validation" in plan.diagnosis


def test_settings_that_this_machine_cannot_run_are_not_taken_over() -> None:
    won = TrainingRecipe(method="qlora", learning_rate=6e-4, epochs=4)
    before = Remembered(run="earlier", trial=3, score=score(0.9), training=won)
    assert propose(brief("greedy").model_copy(update={"remembered": before})) == propose(brief("greedy"))


# --- duplicates -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "near"),
    [
        ({"learning_rate": 1.1e-3}, True),
        ({"learning_rate": 1.4e-3}, False),
        ({"rows": 420}, True),
        ({"rows": 480}, False),
        ({"lora_rank": 18}, True),
        ({"lora_rank": 32}, False),
        ({"lora_alpha": 36}, True),
        ({"warmup_ratio": 0.06}, True),
        ({"warmup_ratio": 0.03}, False),
        ({"weight_decay": 0.01}, True),
        ({"weight_decay": 0.1}, False),
        ({"lora_dropout": 0.01}, True),
        ({"lora_dropout": 0.05}, False),
        ({"schedule": "linear"}, False),
        ({"seed": 1}, False),
        ({"learning_rate": 1.1e-3, "rows": 430, "micro_batch": 4}, True),
    ],
)
def test_what_could_not_matter_is_not_run_again(change: dict[str, float], near: bool) -> None:
    assert tried(brief("greedy", trial(1, START, 0.5)), changed(START, **change)) is near


@pytest.mark.parametrize("strategy", get_args(Strategy))
def test_no_run_holds_a_recipe_twice_and_all_of_them_end_in_time(strategy: Strategy) -> None:
    for seed in range(6):
        world = drawn(seed, strategy)
        stop = world.play(propose)
        assert isinstance(stop, Stop)
        assert world.spent <= world.seconds - world.reserve + 1
        recipes = [Recipe(data=each.plan.data, training=each.plan.training) for each in world.trials]
        assert len(set(recipes)) == len(recipes)


@pytest.mark.parametrize("strategy", get_args(Strategy))
def test_equal_briefs_get_equal_answers(strategy: Strategy) -> None:
    world = drawn(17, strategy)
    while isinstance(plan := propose(world.brief()), Plan):
        assert propose(Brief.model_validate_json(world.brief().model_dump_json())) == plan
        world.run(plan)
    assert len(world.trials) > 2
