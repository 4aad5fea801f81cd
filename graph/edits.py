"""What `--set key=value` may change in a forked run: fields of its task, and of the plan that waits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, get_args

from pydantic import ValidationError

from graph.values import duration, in_words, near, positive, whole
from memory.errors import InputError
from memory.records import Approval, Budget, Change, DataRecipe, Plan, Record, Select, Strategy, Task, TrainingRecipe
from memory.state import State

BEFORE_DATA = ("data_engineer",)
BEFORE_TRAINING = ("data_engineer", "validator")


class Edit(Record):
    """One `--set key=value`."""

    key: str
    value: str
    """As the person wrote it; known to be valid for `key`."""


def _field(key: str, record: type[Record], required: dict[str, object]) -> Callable[[str], Any]:
    """Reads one field as its record would."""
    name = key.partition(".")[2]

    def read(text: str) -> Any:
        try:
            value = getattr(record.model_validate(required | {name: text}), name)
            if isinstance(value, float) and not math.isfinite(value):
                raise InputError(f"'{text}' is no value for {key}", "It should be a finite number.")
            return value
        except ValidationError as error:
            problem = error.errors()[0]["msg"].removeprefix("Input should be ")
            raise InputError(f"'{text}' is no value for {key}", f"It should be {problem}.") from None

    return read


def _one_of(key: str, words: tuple[str, ...]) -> Callable[[str], str]:
    """Reads one of some words."""

    def read(text: str) -> str:
        if text not in words:
            raise InputError(f"'{text}' is no value for {key}", f"It should be {', '.join(words)}.")
        return text

    return read


EDITS: dict[str, Callable[[str], Any]] = {
    "budget": duration,
    "max_trials": positive,
    "sample_cap": positive,
    "seed": whole,
    "approve": _one_of("approve", get_args(Approval)),
    "search": _one_of("search", get_args(Strategy)),
    "plan.rows": positive,
    "plan.balance": _field("plan.balance", Select, {"rows": 1}),
    **{
        f"plan.{name}": _field(f"plan.{name}", TrainingRecipe, {"learning_rate": 1.0, "epochs": 1.0})
        for name in TrainingRecipe.model_fields
    },
}
"""Every key, and how its value is read."""


def edit(text: str) -> Edit:
    """One `key=value`. Raises InputError for an unknown key or a bad value."""
    key, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"--set {text} has no value", "Write --set key=value.")
    if key not in EDITS:
        known = "It knows " + ", ".join(name for name in EDITS if "." not in name) + " and plan.FIELD; see --help."
        way_out = f"Did you mean plan.{key}?" if f"plan.{key}" in EDITS else near(key, EDITS, known)
        raise InputError(f"--set knows no key {key}", way_out)
    EDITS[key](value)
    return Edit(key=key, value=value)


def edited(state: State, following: str | None, edits: Sequence[Edit]) -> State:
    """The fields of `state` that `edits` change; `following` is the node that comes next, None at the end.

    Raises InputError where an edit would change nothing that is still to happen, or breaks a limit of the task.
    """
    changes: State = {}
    task, plan = state["task"], state.get("plan")
    if edits and (following is None or state.get("stop") is not None):
        raise InputError("the planner had stopped by that checkpoint; nothing can be changed", "Fork an earlier one.")
    for change in edits:
        value = EDITS[change.key](change.value)
        if change.key.startswith("plan."):
            allowed = BEFORE_DATA if change.key in ("plan.rows", "plan.balance") else BEFORE_TRAINING
            if plan is None or following not in allowed:
                raise InputError(
                    f"{change.key} cannot be changed before {following}",
                    f"Fork a checkpoint that is followed by {' or '.join(allowed)}; --history shows which.",
                )
            plan = changes["plan"] = _edited_plan(plan, change.key.removeprefix("plan."), value)
        elif change.key == "seed" and state.get("baseline") is not None:
            raise InputError("seed drew the splits, which stay as they were scored", "Set plan.seed, or start anew.")
        else:
            task = changes["task"] = _edited_task(task, change.key, value)
    if edits:
        _within_limits(state, task, plan)
    return changes


def editable(state: State, following: str | None) -> dict[str, str]:
    """Every key that `edited` takes at this checkpoint, with the value that stands there as a person would write it;
    empty where none is set."""
    task, plan = state["task"], state.get("plan")
    if following is None or state.get("stop") is not None:
        return {}
    budget = task.budget
    values: dict[str, object] = {
        "budget": in_words(budget.seconds), "max_trials": budget.max_trials, "sample_cap": task.sample_cap,
        "approve": task.approve, "search": task.planning.search,
    }  # fmt: skip
    if state.get("baseline") is None:
        values["seed"] = task.seed
    if plan is not None and following in BEFORE_DATA and (select := _select(plan.data)):
        values |= {"plan.rows": select.rows, "plan.balance": select.balance}
    if plan is not None and following in BEFORE_TRAINING:
        values |= {f"plan.{name}": getattr(plan.training, name) for name in TrainingRecipe.model_fields}
    return {key: _written(value) for key, value in values.items()}


def _written(value: object) -> str:
    """A value as a person writes it."""
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def difference(before: State, after: State) -> list[str]:
    """What was edited between two states, in words."""
    words = []
    old, new = before["task"], after["task"]
    if old.budget.seconds != new.budget.seconds:
        words.append(f"budget {in_words(old.budget.seconds)} -> {in_words(new.budget.seconds)}")
    if old.budget.max_trials != new.budget.max_trials:
        words.append(f"max_trials {old.budget.max_trials} -> {new.budget.max_trials}")
    words += _changed_fields("", old, new, ("sample_cap", "seed", "approve"))
    words += _changed_fields("", old.planning, new.planning, ("search",))
    first, second = before.get("plan"), after.get("plan")
    if first and second:
        words += _changed_fields("plan.", _select(first.data), _select(second.data), ("rows", "balance"))
        words += _changed_fields("plan.", first.training, second.training, TrainingRecipe.model_fields)
    return words


def _changed_fields(prefix: str, old: Record | None, new: Record | None, names: Iterable[str]) -> list[str]:
    pairs = [(name, getattr(old, name, None), getattr(new, name, None)) for name in names]
    return [f"{prefix}{name} {before} -> {after}" for name, before, after in pairs if before != after]


def _edited_task(task: Task, key: str, value: Any) -> Task:
    if key in ("budget", "max_trials"):
        field = {"budget": "seconds"}.get(key, key)
        return task.model_copy(update={"budget": Budget.model_validate(task.budget.model_dump() | {field: value})})
    if key == "search":
        return task.model_copy(update={"planning": task.planning.model_copy(update={"search": value})})
    return task.model_copy(update={key: value})


def _edited_plan(plan: Plan, field: str, value: Any) -> Plan:
    """The plan with one field set by hand, which its hypothesis and its one change must not deny."""
    if field in ("rows", "balance"):
        old = _select(plan.data)
        if old is None:
            raise InputError("the pending plan selects no rows, so there is nothing to set", "Set sample_cap instead.")
        select = old.model_copy(update={field: value})
        operators = tuple(select if operator is old else operator for operator in plan.data.operators)
        recipes: dict[str, Record] = {"data": DataRecipe(operators=operators)}
        before = getattr(old, field)
    else:
        before = getattr(plan.training, field)
        recipes = {"training": plan.training.model_copy(update={field: value})}
    by_hand = f"{plan.hypothesis} [{field} {before} -> {value} set by hand]"
    change = plan.change
    if change is not None and change.factor == field:
        change = change.model_copy(update={"after": str(value)})
    elif change is not None:
        change = Change(factor="several", before=f"{change.before}, {before}", after=f"{change.after}, {value}")
    return plan.model_copy(update={**recipes, "hypothesis": by_hand, "change": change})


def _select(recipe: DataRecipe) -> Select | None:
    """The last selection of a recipe, which sets its rows."""
    return next((operator for operator in reversed(recipe.operators) if isinstance(operator, Select)), None)


def _within_limits(state: State, task: Task, plan: Plan | None) -> None:
    """Refuse a task that the run has already outgrown."""
    spent, done = state.get("spent_seconds", 0.0), len(state.get("trials", []))
    if task.budget.seconds <= spent:
        raise InputError(
            f"a budget of {in_words(task.budget.seconds)} is spent: the run had used {in_words(spent)} by then",
            "Set a longer budget, or fork an earlier checkpoint.",
        )
    needed = done + (plan is not None)
    if task.budget.max_trials is not None and task.budget.max_trials < needed:
        raise InputError(
            f"max_trials={task.budget.max_trials} is less than the {needed} trials of that checkpoint",
            "Set more, or fork an earlier checkpoint.",
        )
    rows = plan.data.rows if plan else None
    if task.sample_cap is not None and rows is not None and rows > task.sample_cap and state.get("dataset") is None:
        raise InputError(
            f"the pending plan takes {rows} rows, more than the cap of {task.sample_cap}",
            f"Add --set plan.rows={task.sample_cap}.",
        )
    if plan is not None and plan.training.micro_batch > plan.training.batch_size:
        raise InputError(
            f"plan.batch_size {plan.training.batch_size} is smaller than plan.micro_batch {plan.training.micro_batch}",
            f"Add --set plan.micro_batch={plan.training.batch_size}.",
        )
