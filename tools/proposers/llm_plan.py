"""A language model's proposal, and how it becomes a plan: open places are filled, what cannot be done is bounded.

The model fills in a flat form. What the change was is computed from the recipes, whatever the model says of it.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from memory.records import Plan, Record, Trial
from tools.proposers.brief import Brief, Stop
from tools.proposers.factors import Recipe, Value, change_between, changed, differing, shown
from tools.proposers.history import recipe_of, rows_open, rows_seen, standing, twin
from tools.proposers.sizing import looks
from tools.proposers.starting_recipe import (
    FEWEST_VISITS,
    rounded,
    rows_at_once,
    sequence_length,
    size_of,
    starting_recipe,
)


class RefusedError(ValueError):
    """A proposal that cannot become a plan; its text is for the model."""


class ProposedPlan(Record):
    """The next trial, or the end of the run."""

    diagnosis: str = Field(max_length=600, description="what the figures so far show, with the figure")
    hypothesis: str = Field(max_length=600, description="the one change, and why it should help")
    decision: Literal["train", "stop"] = Field(description="train, or stop where no trial can be expected to help")
    parent: int | None = Field(default=None, ge=0, description="trial to grow from; 0 is the starting recipe")
    expected_gain: float | None = Field(
        default=None, ge=-1, le=1, description="expected change of the metric against the best so far"
    )
    learning_rate: float | None = Field(default=None, ge=1e-6, le=0.1)
    epochs: float | None = Field(default=None, ge=0.25, le=20, description="passes over the rows")
    rows: int | None = Field(default=None, ge=1, le=10_000_000, description="training rows")
    batch_size: int | None = Field(default=None, ge=1, le=256, description="rows an optimiser step")
    method: Literal["lora", "qlora", "full"] | None = Field(default=None, description="qlora needs a GPU")
    lora_rank: int | None = Field(default=None, ge=1, le=256)
    lora_alpha: int | None = Field(default=None, ge=1, le=512)
    lora_dropout: float | None = Field(default=None, ge=0, le=0.5)
    warmup_ratio: float | None = Field(default=None, ge=0, le=0.5)
    schedule: Literal["cosine", "linear", "constant"] | None = None
    weight_decay: float | None = Field(default=None, ge=0, le=0.2)
    balance: Literal["none", "answer", "length"] | None = Field(default=None, description="equally many rows of each")
    curriculum: Literal["length"] | None = Field(default=None, description="short rows first")
    filter: str | None = Field(
        default=None, max_length=200, description="SQL over prompt, answer, prompt_chars, answer_chars and the columns"
    )
    go_on: bool | None = Field(
        default=None, description="true: go on from the parent's weights with rows that they have not seen"
    )


SETTINGS = (
    "learning_rate", "epochs", "rows", "batch_size", "method", "lora_rank", "lora_alpha", "lora_dropout",
    "warmup_ratio", "schedule", "weight_decay", "balance", "curriculum", "filter",
)  # fmt: skip
"""Fields of the form that are factors of a recipe."""


def plan_of(answer: ProposedPlan, brief: Brief, net: Plan | Stop) -> Plan | Stop:
    """The proposal as a plan; `net` is what the search proposer would do, and fills what is left open.

    A setting that is left open stays as in the parent. Where nothing at all is set, search's plan is taken whole.
    Raises RefusedError where the proposal names what does not exist, was tried, or does not fit the time left.
    """
    if answer.decision == "stop":
        return _stop(answer, brief)
    settings = {name: value for name in SETTINGS if (value := getattr(answer, name)) is not None}
    if not settings and not answer.go_on and answer.parent is None and isinstance(net, Plan):
        return net.model_copy(update=_words(answer, net, []))
    parent, start = _grown_from(answer, brief, net)
    recipe = _with(brief, start, settings)
    if answer.go_on:
        recipe = _going_on(brief, parent, recipe, "rows" in settings)
    recipe, bounds = bounded(brief, recipe)
    _refuse_twins(brief, recipe)
    recipe = looks(brief, recipe)
    plan = Plan(
        number=brief.number,
        parent=parent.number if parent else None,
        diagnosis="",
        hypothesis="",
        change=change_between(recipe_of(brief, parent), recipe) if parent else None,
        expected_gain=net.expected_gain if isinstance(net, Plan) else 0.0,
        data=recipe.data,
        training=recipe.training,
        proposer="llm",
        predicted_seconds=round(brief.trial_seconds(recipe.data, recipe.training), 1),
    )
    return plan.model_copy(update=_words(answer, plan, bounds))


def bounded(brief: Brief, recipe: Recipe) -> tuple[Recipe, list[str]]:
    """The recipe within what the machine, the data and the time left allow, and each bound in words.

    Raises RefusedError where the time left is too short for the smallest training that shows anything.
    """
    wanted = recipe
    reasons: dict[str, str] = {}
    if recipe.training.method == "qlora" and brief.device == "cpu":
        recipe, reasons["method"] = changed(recipe, method="lora"), "qlora needs a GPU"
    if recipe.rows > (most := rows_open(brief, recipe)):
        recipe, reasons["rows"] = changed(recipe, rows=most), f"{most} rows are there"
    recipe = _within_time(brief, recipe, reasons)
    if recipe.training.batch_size > recipe.rows:
        recipe, reasons["batch_size"] = changed(recipe, **rows_at_once(recipe.rows)), "no more rows than there are"
    if recipe.training.sequence_len < brief.longest_row:
        recipe = changed(recipe, sequence_len=sequence_length(brief.longest_row))
        reasons["sequence_len"] = f"the longest row has {brief.longest_row} tokens"
    before, after = _table(wanted), _table(recipe)
    return recipe, [
        f"{name} {shown(before[name])} -> {shown(after[name])}, as {why}"
        for name, why in reasons.items()
        if before[name] != after[name]
    ]


def _within_time(brief: Brief, recipe: Recipe, reasons: dict[str, str]) -> Recipe:
    """Fewer rows where the training does not fit the time left, and one epoch where that leaves too few of them."""
    visits = brief.row_visits(brief.training_room, recipe.training)
    if recipe.visits <= visits:
        return recipe
    why = f"{brief.training_room:.0f} s are left for training"
    if visits < FEWEST_VISITS:
        raise RefusedError(f"{why}, which is less than {FEWEST_VISITS} rows take with these settings.")
    if visits / recipe.training.epochs < FEWEST_VISITS and recipe.training.epochs > 1:
        recipe, reasons["epochs"] = changed(recipe, epochs=1.0), why
    reasons["rows"] = why
    return changed(recipe, rows=min(recipe.rows, max(1, int(visits / recipe.training.epochs))))


def _table(recipe: Recipe) -> dict[str, Value]:
    training = recipe.training
    return {
        "rows": recipe.rows,
        "epochs": training.epochs,
        "method": training.method,
        "batch_size": training.batch_size,
        "sequence_len": training.sequence_len,
    }


def _stop(answer: ProposedPlan, brief: Brief) -> Stop:
    if not brief.scored:
        raise RefusedError("Nothing was trained and scored yet, so nothing can be known: propose a training.")
    return Stop(reason=f"{answer.diagnosis} {answer.hypothesis}".strip())


def _grown_from(answer: ProposedPlan, brief: Brief, net: Plan | Stop) -> tuple[Trial | None, Recipe]:
    """The trial to grow from (None for the base model), and the recipe that is changed."""
    if answer.parent:
        return _trial(brief, answer.parent)
    if answer.parent is None:
        if isinstance(net, Plan) and net.parent is None:
            return None, Recipe(data=net.data, training=net.training)
        best = standing(brief)
        if best is not None:
            return best, recipe_of(brief, best)
        if brief.trials:
            return _trial(brief, brief.trials[-1].number)
    start = starting_recipe(brief)
    if isinstance(start, Stop):
        raise RefusedError(start.reason)
    return None, Recipe(data=start[0], training=start[1])


def _trial(brief: Brief, number: int) -> tuple[Trial, Recipe]:
    for trial in brief.trials:
        if trial.number == number:
            return trial, recipe_of(brief, trial)
    there = ", ".join(str(trial.number) for trial in brief.trials) or "none"
    raise RefusedError(f"There is no trial {number} to grow from; there are: {there}.")


def _with(brief: Brief, start: Recipe, settings: dict[str, Value]) -> Recipe:
    """The recipe with its settings set; a new method brings its own learning rate, a new batch its rows in memory."""
    method = settings.get("method", start.training.method)
    if method != start.training.method and "learning_rate" not in settings:
        size = size_of(brief.model.parameters)
        settings = settings | {"learning_rate": size.full if method == "full" else size.lora}
    if isinstance(batch := settings.get("batch_size"), int):
        settings = settings | rows_at_once(batch)
    if isinstance(rate := settings.get("learning_rate"), float):
        settings = settings | {"learning_rate": rounded(rate)}
    return changed(start, **settings)


def _going_on(brief: Brief, parent: Trial | None, recipe: Recipe, rows_given: bool) -> Recipe:
    """The recipe on the parent's trained weights, with rows that they have not seen; as many as there are, unless the
    number is given."""
    if parent is None or parent.training is None:
        raise RefusedError("Only a trial that was trained has weights to go on from: name it as the parent.")
    seen = rows_seen(brief, recipe_of(brief, parent))
    fresh = brief.rows_available - seen
    if fresh < 1:
        raise RefusedError(f"Trial {parent.number} has seen all {seen} rows; there are no new ones to go on with.")
    rows = min(recipe.rows, fresh) if rows_given else fresh
    return changed(recipe, continue_from=parent.number, skip=seen, rows=rows)


def _refuse_twins(brief: Brief, recipe: Recipe) -> None:
    """Raises RefusedError where a trial had this recipe, or one too near to tell apart. One that only the machine kept
    from ending may be run again."""
    other = twin(brief, recipe)
    if other is None or (other.failure is not None and other.failure.kind == "ENV"):
        return
    names = differing(recipe_of(brief, other), recipe)
    how = f"differs from it only in {', '.join(names)}, by too little to tell apart" if names else "is the same"
    came = f"scored {other.score.value:.3f}" if other.score else f"failed: {other.arithmetic}"
    raise RefusedError(f"Trial {other.number} was this already: the recipe {how}. It {came}.")


def _words(answer: ProposedPlan, plan: Plan, bounds: list[str]) -> dict[str, object]:
    """What the model says of a plan, and what was bounded, as fields of it."""
    said = answer.diagnosis + "".join(f" Bounded: {bound}." for bound in bounds)
    gain = plan.expected_gain if answer.expected_gain is None else answer.expected_gain
    return {"diagnosis": said, "hypothesis": answer.hypothesis, "expected_gain": gain, "proposer": "llm"}
