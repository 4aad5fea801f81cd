"""Where no rule fires: recipes around the best one, drawn by Optuna from the space that the budget leaves.

The study is rebuilt from the trials each time, in memory and seeded, so that the same state always draws the same
recipes.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.trial import FrozenTrial, TrialState, create_trial

from tools.proposers.brief import Brief
from tools.proposers.factors import Recipe, Value, changed, factors
from tools.proposers.history import rows_open
from tools.proposers.starting_recipe import most_epochs, rounded, size_of

MODEL_FROM = 8
"""Scored trials from which Optuna's TPE models the space; before, quasi-random points cover it better (Tuning
Playbook)."""
DRAWS = 64
"""Points drawn at most in search of one that is new and fits."""
Space = dict[str, BaseDistribution]


def space_around(brief: Brief, centre: Recipe) -> Space:
    """Learning rate within a factor of 3 of the centre, and the choices beside it that time and rows allow."""
    size, training = size_of(brief.model.parameters), centre.training
    low, high = (size.full / 10, size.full * 5) if training.method == "full" else (size.low, size.high)
    slow = max(low, training.learning_rate / 3)
    fast = max(min(high, training.learning_rate * 3), slow * 1.5)  # a person's or a model's rate may lie beyond `high`
    visits = brief.row_visits(brief.training_room, training)
    most = max(1, min(rows_open(brief, centre), visits))
    least = max(1, int(0.8 * min(centre.rows, most)))
    epochs = max(1, int(min(most_epochs(centre.rows), visits / least)))
    # What goes on from trained weights keeps the shape of the adapter.
    ranks = (8, 16, 32, 64) if training.continue_from is None else (training.lora_rank,)
    return {
        "learning_rate": FloatDistribution(slow, fast, log=True),
        "rows": IntDistribution(least, most, log=True),
        "epochs": IntDistribution(1, epochs),
        "batch_size": CategoricalDistribution((4, 8, 16)),
        "lora_rank": CategoricalDistribution(ranks),
        "lora_dropout": CategoricalDistribution((0.0, 0.05)),
        "warmup_ratio": CategoricalDistribution((0.03, 0.1)),
    }


def draws(brief: Brief, centre: Recipe) -> Iterator[Recipe]:
    """Up to DRAWS recipes around `centre`, best guess first; rows are cut to what the time left can train on."""
    space = space_around(brief, centre)
    modelled = len(brief.scored) >= MODEL_FROM
    for point in points(space, _history(brief, space), brief.task.seed, modelled=modelled):
        yield _recipe(brief, centre, point)


def points(space: Space, history: Iterable[FrozenTrial], seed: int, *, modelled: bool) -> Iterator[dict[str, float]]:
    """Up to DRAWS points of a space, best guess first: of a model of the history, or quasi-random."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=_sampler(seed, modelled))
    for record in history:
        study.add_trial(record)
    for _ in range(DRAWS):
        yield study.ask(space).params


def _sampler(seed: int, modelled: bool) -> optuna.samplers.BaseSampler:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        if not modelled:
            return optuna.samplers.QMCSampler(scramble=True, seed=seed, warn_independent_sampling=False)
        return optuna.samplers.TPESampler(n_startup_trials=0, multivariate=True, constant_liar=True, seed=seed)


def _history(brief: Brief, space: Space) -> Iterator[FrozenTrial]:
    """All former trials that lie in the space; failed ones count as bad as the worst that was scored."""
    worst = min((brief.value(trial) for trial in brief.scored), default=0.0)
    for trial in brief.trials:
        table = factors(Recipe(data=trial.plan.data, training=trial.plan.training))
        params = {name: table[name] for name in space} | {"epochs": round(trial.plan.training.epochs)}
        if all(inside(space[name], value) for name, value in params.items()):
            value = brief.value(trial) if trial.score else worst
            yield create_trial(state=TrialState.COMPLETE, params=params, distributions=space, value=value)


def inside(distribution: BaseDistribution, value: Value) -> bool:
    """Whether a value lies in a distribution."""
    if isinstance(distribution, CategoricalDistribution):
        return value in distribution.choices
    if isinstance(distribution, FloatDistribution | IntDistribution):
        return isinstance(value, int | float) and distribution.low <= value <= distribution.high
    return False


def _recipe(brief: Brief, centre: Recipe, params: dict[str, float]) -> Recipe:
    """A drawn point as a recipe: rows give way where the time left is short."""
    epochs = float(params["epochs"])
    fitting = int(brief.row_visits(brief.training_room, centre.training) / epochs)
    rows = min(int(params["rows"]), fitting)
    return changed(
        centre,
        rows=max(1, rows),
        epochs=epochs,
        learning_rate=rounded(params["learning_rate"]),
        batch_size=int(params["batch_size"]),
        lora_rank=int(params["lora_rank"]),
        lora_dropout=float(params["lora_dropout"]),
        warmup_ratio=float(params["warmup_ratio"]),
    )
