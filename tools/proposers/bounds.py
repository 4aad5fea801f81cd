"""A recipe that somebody wants, within what the machine, the data and the time left allow, and each bound in words."""

from __future__ import annotations

from bisect import bisect

from memory.records import Transform
from tools.proposers.brief import Brief
from tools.proposers.factors import THOUGHT, Recipe, Value, changed, factors, shown
from tools.proposers.history import rows_open
from tools.proposers.starting_recipe import FEWEST_VISITS, rows_at_once, sequence_length


class RefusedError(ValueError):
    """What is wanted cannot become a plan; the text is for whoever wanted it."""


def bounded(brief: Brief, wanted: Recipe) -> tuple[Recipe, list[str]]:
    """The recipe as it can be run, and each bound in words.

    Raises RefusedError where the time left is too short for the smallest training that shows anything, and for steps
    that need a language model or a sandbox which the run does not have.
    """
    _refuse_without_means(brief, wanted)
    reasons: dict[str, str] = {}
    recipe = _same_adapter(brief, wanted, reasons)
    if recipe.training.method == "qlora" and brief.device == "cpu":
        recipe, reasons["method"] = changed(recipe, method="lora"), "qlora needs a GPU"
    if recipe.rows > (most := rows_open(brief, recipe)):
        recipe, reasons["rows"] = changed(recipe, rows=most), f"{most} rows are there"
    recipe = _within_cap(brief, recipe, reasons)
    recipe = _within_time(brief, recipe, reasons)
    if recipe.training.batch_size > (rows := recipe.rows + recipe.data.synthesised):
        recipe, reasons["batch_size"] = changed(recipe, **rows_at_once(rows)), "no more rows than there are"
    if recipe.training.sequence_len < brief.longest_row:
        recipe = changed(recipe, sequence_len=sequence_length(brief.longest_row))
        reasons["sequence_len"] = f"the longest row has {brief.longest_row} tokens"
    before, after = factors(wanted), factors(recipe)
    return recipe, [
        f"{name} {shown(before[name])} -> {shown(after[name])}, as {why}"
        for name, why in reasons.items()
        if before[name] != after[name]
    ]


def _refuse_without_means(brief: Brief, recipe: Recipe) -> None:
    table = factors(recipe)
    asks = [name for name, kind in THOUGHT.items() if kind is not Transform and table[name] is not None]
    if asks and brief.task.planning.planner == "search":
        raise RefusedError(f"{asks[0]} needs a language model, and this run has none: start one with --planner-model.")
    if table["transform"] is not None and brief.no_code:
        raise RefusedError(f"Generated code cannot run here: {brief.no_code}")


def _within_cap(brief: Brief, recipe: Recipe, reasons: dict[str, str]) -> Recipe:
    """Rows that are written anew count under the person's cap of rows, too."""
    cap, new = brief.task.sample_cap, recipe.data.synthesised
    if cap is None or not new or recipe.rows + new <= cap:
        return recipe
    reasons["rows"] = f"{cap} rows are allowed, those that are written anew among them"
    if new >= cap:
        raise RefusedError(f"{reasons['rows']}: {new} new rows are too many.")
    return changed(recipe, rows=cap - new)


def _same_adapter(brief: Brief, recipe: Recipe, reasons: dict[str, str]) -> Recipe:
    """What goes on from an adapter keeps its shape, unless it trains all weights."""
    before = next((trial for trial in brief.trials if trial.number == recipe.training.continue_from), None)
    if before is None or recipe.training.method == "full":
        return recipe
    theirs = before.plan.training
    shape: dict[str, Value] = {"lora_rank": theirs.lora_rank, "lora_alpha": theirs.lora_alpha, "method": theirs.method}
    reasons.update(dict.fromkeys(shape, f"trial {before.number}, on whose weights it goes on, has that"))
    return changed(recipe, **shape)


def _within_time(brief: Brief, recipe: Recipe, reasons: dict[str, str]) -> Recipe:
    """Fewer rows where data and training do not fit the time left, and one epoch where that leaves too few of them."""
    if _fits(brief, recipe):
        return recipe
    fewer = _fewer_rows(brief, recipe)
    data_seconds = brief.sampling_seconds(fewer.data)
    beside = f" beside {data_seconds:.0f} s for its data" if data_seconds else ""
    why = f"{max(0.0, brief.training_room - data_seconds):.0f} s are left for training{beside}"
    visits = _visits_left(brief, fewer)
    if visits < FEWEST_VISITS or not _fits(brief, fewer):
        raise RefusedError(f"{why}, which is less than {FEWEST_VISITS} rows take with these settings.")
    if visits / recipe.training.epochs < FEWEST_VISITS and recipe.training.epochs > 1:
        fewer, reasons["epochs"] = _fewer_rows(brief, changed(recipe, epochs=1.0)), why
    reasons["rows"] = why
    return fewer


def _fewer_rows(brief: Brief, recipe: Recipe) -> Recipe:
    """As many rows of the training split as fit, or one; what is written anew stays."""
    most = bisect(range(1, recipe.rows + 1), False, key=lambda rows: not _fits(brief, changed(recipe, rows=rows)))
    return changed(recipe, rows=max(1, most))


def _fits(brief: Brief, recipe: Recipe) -> bool:
    return recipe.visits <= _visits_left(brief, recipe)


def _visits_left(brief: Brief, recipe: Recipe) -> int:
    """Rows, each epoch counted, that fit the time which is left beside the making of its data."""
    room = max(0.0, brief.training_room - brief.sampling_seconds(recipe.data))
    return brief.row_visits(room, recipe.training)
