"""`python -m tests.bench_search`: the search strategies, greedy, best-first and tree search, on simulated tasks.

A simulation and no measurement of models: its response surfaces follow published curves and our own log, and a strategy
that wins here has still to win on real tasks (`python -m graph.dojo --methods search best_first mcts`). Every task is
drawn before any strategy sees it, and every strategy plays every task once.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Mapping, Sequence
from math import exp, log, sqrt
from statistics import fmean, stdev
from typing import NamedTuple, get_args

from memory.records import FailureKind, Plan, Planning, Strategy
from tests.proposer_world import START_UP, World
from tools.proposers.search import propose

TASKS = 400
BUDGETS = (600.0, 840.0, 1_800.0, 3_600.0, 7_200.0)
"""Wall clock of a run in seconds: about 2 to 12 trials."""
FAILING = 0.04
"""Share of trials that the machine or memory breaks."""
KINDS: tuple[FailureKind, ...] = ("ENV", "OOM")
REFERENCE: Strategy = "greedy"


def drawn(seed: int, strategy: Strategy) -> World:
    """A task by its seed: the same for every strategy.

    Learning rate: the best one of a model of 135M weights lies near 2e-3 to 3e-3 at batch 8, between 3e-4 and 1e-2 on
    others, goes with the square root of the batch, and diverges at about twice of it (docs/log.md). Rows: accuracy is
    about log-linear in them until it saturates; 400 rows taught most of one task and a tenth of another. Going on keeps
    most of what was learnt. Rank hardly matters, trainings of one recipe differ by up to three points, and some tasks
    show nothing before the form of an answer is learnt.
    """
    draw = random.Random(f"task {seed}")
    best_rate = between(draw, 6e-4, 6e-3)
    broken = random.Random(f"machine {seed}")
    fails = {number: broken.choice(KINDS) for number in range(1, 99) if broken.random() < FAILING}
    base = draw.choice((0.0, 0.0, 0.1, 0.3, 0.5))
    return World(
        best_rate=best_rate,
        width=draw.uniform(0.8, 1.6),
        diverges_at=best_rate * between(draw, 1.5, 8.0),
        rate_by_batch=True,
        rows_for_two_thirds=between(draw, 150, 8_000),
        form_rows=draw.choice((0.0, 0.0, 0.0, between(draw, 30, 300))),
        epochs_power=draw.uniform(0.3, 0.7),
        rank_power=draw.uniform(0.0, 0.1),
        retained=draw.uniform(0.7, 1.0),
        cap=draw.uniform(base + 0.1, 1.0),
        base=base,
        train_rows=int(between(draw, 200, 8_000)),
        seconds=draw.choice(BUDGETS),
        slowness=between(draw, 0.5, 2.0),
        seed_spread=draw.uniform(0.0, 0.03),
        seed=seed,
        fail=failing(fails),
        planning=Planning(search=strategy),
    )


def between(draw: random.Random, low: float, high: float) -> float:
    """A value between two others, evenly in its logarithm."""
    return exp(draw.uniform(log(low), log(high)))


def failing(fails: Mapping[int, FailureKind]) -> Callable[[Plan], FailureKind | None]:
    """Trials of these numbers fail."""
    return lambda plan: fails.get(plan.number)


class Played(NamedTuple):
    """What came of a task."""

    budget: float
    used: float
    """Share of the time for trials that was spent."""
    trials: int
    score: float
    """True accuracy of the trial that is handed over."""


def play(seed: int, strategy: Strategy) -> Played:
    """A strategy on a task."""
    world = drawn(seed, strategy)
    world.play(propose)
    used = (world.spent - START_UP) / (world.seconds - world.reserve - START_UP)
    return Played(world.seconds, used, len(world.trials), world.handed_over)


def mean(values: Sequence[float]) -> tuple[float, float]:
    """Mean and its standard error."""
    return fmean(values), stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0


def table(played: Mapping[Strategy, Sequence[Played]]) -> str:
    """A line for each strategy: trials, time, the mean true score of what is handed over, and the difference to greedy
    on the same tasks with the number of tasks on which it is higher and lower."""
    lines = []
    for strategy, results in played.items():
        value, error = mean([one.score for one in results])
        differences = [one.score - other.score for one, other in zip(results, played[REFERENCE], strict=True)]
        more, its_error = mean(differences)
        up, down = sum(one > 0 for one in differences), sum(one < 0 for one in differences)
        against = "" if strategy == REFERENCE else f"  {more:+.4f} ± {its_error:.4f}, {up} up, {down} down"
        trials, used = fmean(one.trials for one in results), fmean(one.used for one in results)
        spent = f"{trials:5.1f} trials  {used:4.0%} of the time"
        lines.append(f"  {strategy:10}  {spent}  {value:.4f} ± {error:.4f}{against}")
    return "\n".join(lines)


def main() -> None:
    """Print the figures: over all tasks, and by budget."""
    parser = argparse.ArgumentParser(description="The search strategies on simulated tasks; nothing is trained.")
    parser.add_argument("--tasks", type=int, default=TASKS, metavar="N", help=f"default {TASKS}")
    parser.add_argument("--from", type=int, default=0, dest="first", metavar="SEED", help="seed of the first task")
    given = parser.parse_args()
    strategies: tuple[Strategy, ...] = get_args(Strategy)
    seeds = range(given.first, given.first + given.tasks)
    played = {strategy: [play(seed, strategy) for seed in seeds] for strategy in strategies}
    print(f"{given.tasks} simulated tasks: mean true score of the trial handed over ± standard error, and the mean of")
    print(f"the differences to {REFERENCE} on the same tasks ± its standard error")
    print(table(played))
    for budget in BUDGETS:
        some = {strategy: [one for one in results if one.budget == budget] for strategy, results in played.items()}
        if some[REFERENCE]:
            print(f"{budget / 60:.0f} minutes, {len(some[REFERENCE])} tasks")
            print(table(some))


if __name__ == "__main__":
    main()
