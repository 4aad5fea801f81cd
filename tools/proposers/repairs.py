"""What to change after a failed trial: for each kind of failure, the remedies in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import sqrt

from memory.records import FailureKind, Trial
from tools.proposers.brief import CHARS_PER_TOKEN, TEMPLATE_TOKENS, Brief
from tools.proposers.factors import THOUGHT, Recipe, Value, changed, factors
from tools.proposers.starting_recipe import FEWEST_VISITS, rounded, sequence_length

Remedy = tuple[str, Value, str]
"""Factor, its new value, and why."""

PERSISTENT = 3
"""So many failures of one kind in a row end the run: the planner's means are used up."""

WAYS_OUT: dict[FailureKind, str] = {
    "CONFIG": "The engine refuses even plain recipes: see the trial's train.log; does it support this base model?",
    "DATA": "Look at the rows that the validator names and mend the training data.",
    "CONTAMINATION": "The training data holds held-out items: remove them at the source, or choose other splits.",
    "TEMPLATE": "Training and serving render differently: give a base model with a complete chat template.",
    "OOM": "Give a smaller base model, shorter rows, or a machine with more memory.",
    "BUDGET": "Give a larger budget, or a smaller base model.",
    "ENV": "The machine or an engine is broken: read the trial's log, run `make setup`, then resume.",
    "DIVERGED": "Even low learning rates diverge: look for broken rows in the training data.",
}


def out_of_memory(brief: Brief, trial: Trial, recipe: Recipe) -> Iterator[Remedy]:
    """Quality-neutral means first: rows in memory, longest rows, then a smaller trained part."""
    training = recipe.training
    if training.micro_batch > 1:
        yield "micro_batch", training.micro_batch // 2, "half as many rows in memory, same effective batch"
    if training.method == "full":
        yield "method", "lora", "an adapter needs a fraction of the optimiser's memory"
    if training.method == "lora" and brief.device == "cuda":
        yield "method", "qlora", "a quantised base takes a quarter of the memory"
    chars = int((brief.longest_row - TEMPLATE_TOKENS) * CHARS_PER_TOKEN * 0.6)
    if chars > 0 and factors(recipe)["filter"] is None:
        yield "filter", f"prompt_chars + answer_chars <= {chars}", "the longest rows set the peak of memory"
    if training.lora_rank > 4 and training.method != "full":
        yield "lora_rank", training.lora_rank // 2, "a smaller adapter"


def over_budget(brief: Brief, trial: Trial, recipe: Recipe) -> Iterator[Remedy]:
    """Fewer rows: as many as fit at the measured speed, and never more than three quarters of what did not fit."""
    fitting = brief.row_visits(brief.training_room, recipe.training) / recipe.training.epochs
    rows = int(min(fitting, recipe.rows * 0.75))
    if rows * recipe.training.epochs >= FEWEST_VISITS:
        yield "rows", rows, f"{brief.training_room:.0f} s are left for training"


def other_rows(brief: Brief, trial: Trial, recipe: Recipe) -> Iterator[Remedy]:
    """Rows too long for the recipe get room; otherwise other rows are drawn."""
    longest = max(brief.longest_row, trial.verdict.longest_row if trial.verdict else 0)
    if longest > recipe.training.sequence_len:
        yield "sequence_len", sequence_length(longest), f"the longest row has {longest} tokens"
    seed = int(factors(recipe)["select_seed"] or 0)
    yield "select_seed", seed + 1, "other rows of the same source"
    yield "sequence_len", 2 * recipe.training.sequence_len, "room for rows longer than estimated"


def redrawn(brief: Brief, trial: Trial, recipe: Recipe) -> Iterator[Remedy]:
    """Other rows of the same source."""
    seed = int(factors(recipe)["select_seed"] or 0)
    yield "select_seed", seed + 1, "other rows of the same source"
    yield "select_seed", seed + 2, "other rows of the same source"


def once_more(brief: Brief, trial: Trial, recipe: Recipe) -> Iterator[Remedy]:
    """The recipe is not to blame: the same once more, then a smaller trial that tells cheaply whether the machine
    works."""
    yield "seed", recipe.training.seed + 1, "the recipe is not to blame: the same once more"
    if recipe.visits / 2 >= FEWEST_VISITS:
        yield "rows", recipe.rows // 2, "a smaller trial tells cheaply whether the machine works again"
    yield "seed", recipe.training.seed + 2, "the same once more"


def plainer(brief: Brief, trial: Trial, recipe: Recipe) -> Iterator[Remedy]:
    """Less usual settings go first."""
    training = recipe.training
    if training.method != "lora":
        yield "method", "lora", "the plainest method"
    if training.micro_batch > 1:
        yield "micro_batch", 1, "one row at a time needs no padding"
    if training.schedule != "linear":
        yield "schedule", "linear", "the plainest schedule"
    if training.lora_dropout:
        yield "lora_dropout", 0.0, "the plainest adapter"


def slower(brief: Brief, trial: Trial, recipe: Recipe) -> Iterator[Remedy]:
    """A lower learning rate: half-way back to one that held where there is one, else a third; then a longer warm-up."""
    rate = recipe.training.learning_rate
    held = [t.plan.training.learning_rate for t in brief.scored if t.plan.training.learning_rate < rate]
    if held:
        yield "learning_rate", rounded(sqrt(rate * max(held))), f"{max(held):g} held, {rate:g} did not"
    yield "learning_rate", rounded(rate / 3), "the usual step down"
    yield "warmup_ratio", 0.2, "a longer warm-up"


REPAIRS: dict[FailureKind, Callable[[Brief, Trial, Recipe], Iterator[Remedy]]] = {
    "CONFIG": plainer,
    "DATA": other_rows,
    "CONTAMINATION": redrawn,
    "TEMPLATE": redrawn,
    "OOM": out_of_memory,
    "BUDGET": over_budget,
    "ENV": once_more,
    "DIVERGED": slower,
}


def repaired(brief: Brief, trial: Trial, recipe: Recipe) -> list[tuple[Remedy, Recipe]]:
    """The failed recipe with one factor changed, best remedy first. A method brings the learning rate of its size."""
    if trial.failure is None:
        return []
    fixes = []
    for factor in [name for name in THOUGHT if factors(recipe)[name] is not None]:
        if trial.failure.node == "data_engineer":
            remedy: Remedy = factor, None, "a step that a language model wrote does not work: the same without it"
            fixes.append((remedy, changed(recipe, **{factor: None})))
    for factor, value, why in REPAIRS[trial.failure.kind](brief, trial, recipe):
        fixed = changed(recipe, **{factor: value})
        if factor == "method" and recipe.training.method == "full":
            fixed = changed(fixed, learning_rate=rounded(recipe.training.learning_rate * 10))
        fixes.append(((factor, value, why), fixed))
    return fixes


def persistent_failure(brief: Brief) -> str | None:
    """Why there is no point in going on: the last trials all failed in one way; None where they did not."""
    last = brief.trials[-PERSISTENT:]
    kinds = {trial.failure.kind for trial in last if trial.failure}
    if len(last) < PERSISTENT or len(kinds) != 1 or any(trial.failure is None for trial in last):
        return None
    kind, failure = kinds.pop(), last[-1].failure
    message = failure.message if failure else ""
    return f"{PERSISTENT} trials in a row failed with {kind} (last: {message}). {WAYS_OUT[kind]}"
