"""A recipe as a table of named factors: what a plan may change, how two recipes differ, and when they are the same."""

from __future__ import annotations

import math
from collections.abc import Iterable

from memory.records import (
    Change,
    DataRecipe,
    Filter,
    Mix,
    NearDeduplicate,
    Operator,
    Order,
    PassRate,
    Record,
    Select,
    SelfDistil,
    TrainingRecipe,
)

Value = str | int | float | None

MIX_SHARE = 0.3
"""Share of a further source that is mixed in."""
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


class Recipe(Record):
    """Data and training of one trial."""

    data: DataRecipe
    training: TrainingRecipe

    @property
    def rows(self) -> int:
        """Rows that the recipe selects; 0 where it takes all."""
        return self.data.rows or 0

    @property
    def visits(self) -> float:
        """Rows seen in training, each epoch counted."""
        return self.rows * self.training.epochs

    @property
    def steps(self) -> int:
        """Optimiser steps."""
        return math.ceil(self.visits / self.training.batch_size)


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
    settings = {name: value for name, value in values.items() if name in TrainingRecipe.model_fields}
    if "curriculum" in values:
        by, _, descending = str(values["curriculum"]).partition(" ")
        order = Order.model_validate({"by": by, "descending": bool(descending)})
        operators, settings["order"] = [*without(operators, Order), order], "file"
    training = TrainingRecipe.model_validate(recipe.training.model_dump() | settings)
    if training.micro_batch > training.batch_size:
        training = training.model_copy(update={"micro_batch": training.batch_size})
    return Recipe(data=DataRecipe(operators=tuple(operators)), training=training)


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
    names = differing(before, after)
    if not names:
        return None
    old, new = factors(before), factors(after)
    if names == ["continue_from"]:
        return Change(factor="continue_from", before=_weights(before), after=f"{_weights(after)}, {after.rows} rows")
    if len(names) == 1:
        return Change(factor=names[0], before=shown(old.get(names[0])), after=shown(new.get(names[0])))
    return Change(
        factor="several",
        before=", ".join(f"{name} {shown(old.get(name))}" for name in names),
        after=", ".join(f"{name} {shown(new.get(name))}" for name in names),
    )


def _weights(recipe: Recipe) -> str:
    """What a training begins with."""
    number = recipe.training.continue_from
    return "base model" if number is None else f"trial {number}"


def shown(value: Value) -> str:
    """A factor's value as people write it."""
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def near(one: Recipe, other: Recipe) -> bool:
    """Whether two recipes are too alike to be worth two trials: same settings, amounts within 15 %, learning rates
    within a factor of 1.3 (a grid of 3 is fine enough: tinker-cookbook)."""
    tolerance = {"learning_rate": 1.3, "rows": 1.15, "epochs": 1.15}
    old, new = factors(one), factors(other)
    for name in old | new:
        a, b = old.get(name), new.get(name)
        if a == b or name in ("micro_batch", "snapshots"):
            continue
        alike = tolerance.get(name, 1.0)
        if not isinstance(a, int | float) or not isinstance(b, int | float) or max(a, b) >= alike * min(a, b):
            return False
    return True
