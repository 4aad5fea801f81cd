"""A recipe as a table of named factors: what a plan may change, how two recipes differ, and when they are the same."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from memory.records import (
    Change,
    DataRecipe,
    Filter,
    Judge,
    Mix,
    NearDeduplicate,
    Operator,
    Order,
    PassRate,
    Plan,
    Record,
    Rewrite,
    Select,
    SelfDistil,
    Synthesise,
    TrainingRecipe,
    Transform,
)

Value = str | int | float | None

MIX_SHARE = 0.3
"""Share of a further source that is mixed in."""
THOUGHT: dict[str, type[Transform | Synthesise | Rewrite | Judge]] = {
    "transform": Transform,
    "synthesise": Synthesise,
    "rewrite": Rewrite,
    "judge": Judge,
}
"""Steps that language models write, as factors: JSON of the operator. In this order they stand behind the others, so
that only selected rows are paid for and everything new is judged; an `order` stands behind them."""
FOLLOWERS: dict[str, tuple[str, ...]] = {
    "batch_size": ("micro_batch",),
    "method": ("learning_rate",),
    "objective": (
        "learning_rate",
        "beta",
        "generations",
        "continue_from",
        "rows",
        "skip",
        "select_seed",
        "balance",
        "epochs",
        "batch_size",
        "micro_batch",
        "snapshots",
        "order",
        "curriculum",
        "filter",
        "mix",
        "near_duplicates",
        "self_distil",
        "pass_rate",
        "preferences",
    ),
    "continue_from": ("rows", "skip", "epochs", "batch_size", "micro_batch", "snapshots"),
    "rows": ("snapshots",),
    "epochs": ("snapshots",),
    "learning_rate": ("snapshots",),
    "curriculum": ("order",),
}
"""Settings that cannot stay when another changes: rows in memory never exceed the batch, each method has a learning
rate of its own size, what goes on from trained weights has an amount of its own, and how often a training is
looked at goes with its length; another objective needs other rows, fewer at a time, and smaller steps. They belong to
the factor that leads."""

WITHOUT_EFFECT = ("micro_batch", "snapshots")
"""Settings that change neither the optimiser's steps nor the rows."""
ALIKE: dict[str, float] = {
    "learning_rate": 1.3,  # a quarter of the step of 3 that is a fine enough grid (tinker-cookbook)
    "lora_alpha": 1.3,  # acts like the learning rate
    "batch_size": 1.3,  # the best learning rate goes with its square root (tinker-cookbook)
    "lora_rank": 1.3,  # 32 times the rank brought 0.009 to 0.04 of loss (tinker-cookbook)
    "rows": 1.15,  # a doubling closes 17 % of the distance to the ceiling, this 3 %: about a standard error
    "epochs": 1.15,  # half of what rows bring
}
"""Ratio from which two values of a factor count as different, with its reason; other factors differ by any amount."""
ALIKE_STEP: dict[str, float] = {
    "lora_dropout": 0.02,  # guides know 0, 0.05 and 0.1
    "warmup_ratio": 0.015,  # guides give 0.03 to 0.1, and none at all cost nothing (2412.13337)
    "weight_decay": 0.011,  # guides give 0 to 0.01; only above 0.1 it holds an adapter back (Axolotl)
}
"""The same as a difference, for factors that may be 0."""


class Recipe(Record):
    """Data and training of one trial."""

    data: DataRecipe
    training: TrainingRecipe

    @property
    def rows(self) -> int:
        """Rows that the recipe selects; 0 where it takes all. Those that are written anew come on top."""
        return 0 if self.data.rows is None else self.data.rows - self.data.synthesised

    @property
    def visits(self) -> float:
        """Rows seen in training, each epoch counted."""
        return (self.rows + self.data.synthesised) * self.training.epochs

    @property
    def steps(self) -> int:
        """Optimiser steps."""
        return math.ceil(self.visits / self.training.batch_size)


def recipe_of_plan(plan: Plan, rows: int) -> Recipe:
    """A plan's recipe; where it takes all rows, `rows` is written into it: how many that are."""
    recipe = Recipe(data=plan.data, training=plan.training)
    return recipe if recipe.data.rows is not None else changed(recipe, rows=rows)


def factors(recipe: Recipe) -> dict[str, Value]:
    """Every factor of a recipe with its value, in a fixed order."""
    table: dict[str, Value] = {"rows": None, "skip": 0, "balance": "none", "select_seed": 0}
    table |= {
        "mix": None,
        "filter": None,
        "self_distil": None,
        "near_duplicates": None,
        "pass_rate": None,
        "curriculum": None,
    }
    table |= dict.fromkeys(THOUGHT)
    for operator in recipe.data.operators:
        if isinstance(operator, Select):
            table |= {"rows": operator.rows, "skip": operator.skip}
            table |= {"balance": operator.balance, "select_seed": operator.seed}
        elif isinstance(operator, Mix):
            table["mix"] = operator.source
        elif isinstance(operator, Filter):
            table["filter"] = operator.where
        elif isinstance(operator, NearDeduplicate):
            table["near_duplicates"] = operator.threshold
        elif isinstance(operator, PassRate):
            table["pass_rate"] = operator.rows
        elif isinstance(operator, Order):
            table["curriculum"] = f"{operator.by}{' descending' if operator.descending else ''}"
        else:
            table[operator.kind] = operator.model_dump_json()
    return table | recipe.training.model_dump()


def changed(recipe: Recipe, **values: Value) -> Recipe:
    """The recipe with some factors set to new values; followers follow."""
    select = {"rows": "rows", "skip": "skip", "balance": "balance", "select_seed": "seed"}
    updates = {select[name]: value for name, value in values.items() if name in select}
    operators: list[Operator] = [
        Select.model_validate(op.model_dump() | updates) if isinstance(op, Select) else op
        for op in recipe.data.operators
    ]
    if "rows" in updates and recipe.data.rows is None:
        orders = [op for op in operators if isinstance(op, Order)]
        operators = [*without(operators, Order), Select.model_validate(updates), *orders]
    if "mix" in values:
        operators = [Mix(source=str(values["mix"]), share=MIX_SHARE), *without(operators, Mix)]
    if "pass_rate" in values:
        measured = PassRate.model_validate({"rows": values["pass_rate"], "seed": factors(recipe)["select_seed"]})
        operators = [measured, *without(operators, PassRate)]
    if "filter" in values:
        others = without(operators, Filter)
        place = max((n for n, op in enumerate(others, 1) if isinstance(op, PassRate)), default=0)
        operators = [*others[:place], Filter(where=str(values["filter"])), *others[place:]]
    if "self_distil" in values:
        distil = SelfDistil.model_validate_json(str(values["self_distil"]))
        operators = [*without(operators, SelfDistil), distil]
    if "near_duplicates" in values:
        alike = NearDeduplicate.model_validate({"threshold": values["near_duplicates"]})
        operators = [alike, *without(operators, NearDeduplicate)]
    operators = _with_thought(operators, values)
    settings = {name: value for name, value in values.items() if name in TrainingRecipe.model_fields}
    if "curriculum" in values:
        by, _, descending = str(values["curriculum"]).partition(" ")
        order = Order.model_validate({"by": by, "descending": bool(descending)})
        operators, settings["order"] = [*without(operators, Order), order], "file"
    training = TrainingRecipe.model_validate(recipe.training.model_dump() | settings)
    if training.micro_batch > training.batch_size:
        training = training.model_copy(update={"micro_batch": training.batch_size})
    return Recipe(data=DataRecipe(operators=tuple(operators)), training=training)


def _with_thought(operators: list[Operator], values: Mapping[str, Value]) -> list[Operator]:
    """The operators with the steps that language models write set, or taken out where a value is None."""
    if not values.keys() & THOUGHT.keys():
        return operators
    steps: dict[str, Operator] = {op.kind: op for op in operators if op.kind in THOUGHT}
    for name, kind in THOUGHT.items():
        if name in values:
            steps.pop(name, None)
            if (value := values[name]) is not None:
                steps[name] = kind.model_validate_json(str(value))
    orders = [op for op in operators if isinstance(op, Order)]
    others = [op for op in operators if op.kind not in THOUGHT and not isinstance(op, Order)]
    return [*others, *(steps[name] for name in THOUGHT if name in steps), *orders]


def without(operators: Iterable[Operator], kind: type[Record]) -> list[Operator]:
    """The operators but for those of one kind."""
    return [operator for operator in operators if not isinstance(operator, kind)]


def differing(before: Recipe, after: Recipe) -> list[str]:
    """Names of the factors that differ, without those that merely follow another."""
    old, new = factors(before), factors(after)
    names = [name for name in old | new if old.get(name) != new.get(name)]
    followers = {follower for name in names for follower in FOLLOWERS.get(name, ())}
    return [name for name in names if name not in followers]


def change_between(before: Recipe, after: Recipe) -> Change | None:
    """The change as a plan states it: one factor by name, or `several`; None where nothing differs."""
    changes = changes_between(before, after)
    if len(changes) < 2:
        return changes[0] if changes else None
    return Change(
        factor="several",
        before=", ".join(f"{change.factor} {change.before}" for change in changes),
        after=", ".join(f"{change.factor} {change.after}" for change in changes),
    )


def changes_between(before: Recipe, after: Recipe) -> list[Change]:
    """All changes, those left out that merely follow another."""
    changes = _changes(before, after, differing(before, after))
    if [change.factor for change in changes] == ["continue_from"]:
        return [Change(factor="continue_from", before=_weights(before), after=f"{_weights(after)}, {after.rows} rows")]
    return changes


def following(before: Recipe, after: Recipe) -> list[Change]:
    """The changes that merely follow another."""
    names = {follower for name in differing(before, after) for follower in FOLLOWERS.get(name, ())}
    old, new = factors(before), factors(after)
    return _changes(before, after, [name for name in old if name in names and old[name] != new.get(name)])


def _changes(before: Recipe, after: Recipe, names: Iterable[str]) -> list[Change]:
    old, new = factors(before), factors(after)
    return [Change(factor=name, before=shown(old.get(name)), after=shown(new.get(name))) for name in names]


def _weights(recipe: Recipe) -> str:
    """What a training begins with."""
    number = recipe.training.continue_from
    return "base model" if number is None else f"trial {number}"


def shown(value: Value) -> str:
    """A factor's value as people write it."""
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def near(one: Recipe, other: Recipe) -> bool:
    """Whether two recipes are too alike to be worth two trials: no factor differs by as much as could matter."""
    old, new = factors(one), factors(other)
    return all(name in WITHOUT_EFFECT or _alike(name, old.get(name), new.get(name)) for name in old | new)


def _alike(name: str, one: Value, other: Value) -> bool:
    if one == other:
        return True
    if isinstance(one, str | None) or isinstance(other, str | None):
        return False
    ratio, step = ALIKE.get(name, 1.0), ALIKE_STEP.get(name, 0.0)
    return max(one, other) < ratio * min(one, other) or abs(one - other) < step
