"""What a person wishes of the next plan, put on top of the proposer's own; what the machine cannot do is bounded, and
said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from memory.records import Adjust, DropLong, ForPlan, GoBack, Plan, Trial
from tools.proposers.brief import CHARS_PER_TOKEN, TEMPLATE_TOKENS, Brief, Stop
from tools.proposers.factors import Recipe, Value, change_between, changed, factors, shown
from tools.proposers.history import recipe_of, rows_open, rows_seen, standing
from tools.proposers.sizing import looks
from tools.proposers.starting_recipe import FEWEST_VISITS, rounded, size_of
from tools.proposers.worth import fits

SHAPE = ("method", "lora_rank", "lora_alpha")
"""What has to stay where a training goes on from trained weights: the shape of their adapter."""
Step = Callable[[Brief, Recipe], Value]


def honoured(brief: Brief, own: Plan | Stop) -> Plan | Stop:
    """The proposer's own plan with the open wishes on top; where it would stop although a trial is allowed, the best
    recipe so far with them. Unchanged where nothing is wished."""
    asked = latest(brief)
    parent, recipe = base_of(brief, own)
    if not asked or recipe is None:
        return own
    wished = carried(brief, recipe, asked)
    if not fits(brief, wished.recipe):
        return unaffordable(brief, own)
    return planned(brief, own, parent, wished)


def gone_back_to(brief: Brief) -> Trial | None:
    """The trial that the person wishes to grow from; None where no such wish is open."""
    numbers = [one.trial for one in latest(brief) if isinstance(one, GoBack)]
    return next((trial for trial in brief.trials if numbers and trial.number == numbers[-1]), None)


def latest(brief: Brief) -> list[ForPlan]:
    """All that is wished, the method first because other settings go with it. Of two wishes about one thing the later
    counts."""
    about: dict[str, ForPlan] = {}
    for wish in brief.wishes:
        for one in wish.for_plan:
            about[one.factor if isinstance(one, Adjust) else one.kind] = one
    return sorted(about.values(), key=lambda one: not (isinstance(one, Adjust) and one.factor == "method"))


def base_of(brief: Brief, own: Plan | Stop) -> tuple[Trial | None, Recipe | None]:
    """What the wishes are put on: the trial to grow from, and a recipe. No recipe where no trial can be made."""
    back = gone_back_to(brief)
    if back is not None and any(not isinstance(one, GoBack) for one in latest(brief)):
        return back, recipe_of(brief, back)
    if isinstance(own, Plan):
        parent = next((trial for trial in brief.trials if trial.number == own.parent), None)
        return parent, Recipe(data=own.data, training=own.training)
    best = standing(brief) or (brief.trials[-1] if brief.trials else None)
    if best is None or brief.trials_left == 0:
        return None, None
    return best, recipe_of(brief, best)


@dataclass(frozen=True)
class Carried:
    """A recipe with wishes on it."""

    recipe: Recipe
    notes: tuple[str, ...] = ()
    """What could not be done as it was said."""

    def with_(self, recipe: Recipe, *notes: str) -> Carried:
        """The next state of it."""
        return Carried(recipe, (*self.notes, *notes))


def carried(brief: Brief, recipe: Recipe, asked: list[ForPlan]) -> Carried:
    """The recipe with all wishes on it, cut to the time left."""
    found = Carried(recipe)
    for one in asked:
        if isinstance(one, Adjust):
            found = adjusted(brief, found, one)
        elif isinstance(one, DropLong):
            found = shortened(brief, found, one)
    return in_time(brief, found)


def adjusted(brief: Brief, found: Carried, wish: Adjust) -> Carried:
    """One setting at another value."""
    recipe, factor = found.recipe, wish.factor
    step = {"lower": LOWERED, "higher": RAISED}.get(wish.way, {}).get(factor)
    after = changed(recipe, **{factor: step(brief, recipe) if step else wish.value})
    value, open_rows = factors(after)[factor], rows_open(brief, recipe)
    if factor == "method" and value == "qlora" and brief.device == "cpu":
        return found.with_(recipe, "qlora needs a GPU, so the method stays")
    if factor == "rows" and after.rows > open_rows:
        after, found = changed(recipe, rows=open_rows), found.with_(recipe, f"{open_rows} rows are there")
    if after == recipe:
        return found.with_(recipe, f"{factor} is {shown(value)} already")
    if factor in SHAPE and recipe.training.continue_from is not None:
        after = changed(after, continue_from=None, rows=rows_seen(brief, recipe), skip=0)
        found = found.with_(after, f"another {factor} starts from the base model: trained weights keep their shape")
    if factor == "method" and "full" in (value, recipe.training.method):
        size = size_of(brief.model.parameters)
        after = changed(after, learning_rate=size.full if value == "full" else size.lora)
    return found.with_(after)


def shortened(brief: Brief, found: Carried, wish: DropLong) -> Carried:
    """Without the longest rows."""
    half_way = (brief.row_tokens + brief.longest_row) / 2  # between the mean and the longest row: some always stay
    limit = wish.chars or max(1, int((half_way - TEMPLATE_TOKENS) * CHARS_PER_TOKEN))
    condition, before = f"prompt_chars + answer_chars <= {limit}", factors(found.recipe)["filter"]
    both = condition if before is None else f"({before}) AND ({condition})"
    return found.with_(changed(found.recipe, filter=both))


def in_time(brief: Brief, found: Carried) -> Carried:
    """With no more rows than the time left can train on."""
    recipe = found.recipe
    if fits(brief, recipe):
        return found
    rows = int(brief.row_visits(brief.training_room, recipe.training) / recipe.training.epochs)
    if rows * recipe.training.epochs < FEWEST_VISITS:
        return found
    says = f"rows are cut to {rows}: {brief.training_room:.0f} s are left for training"
    return found.with_(changed(recipe, rows=rows), says)


def unaffordable(brief: Brief, own: Plan | Stop) -> Plan | Stop:
    """What the proposer had in mind, with the reason why it is not what was wished."""
    says = f"You said: {said(brief)}. It does not fit: {brief.training_room:.0f} s are left for training."
    if isinstance(own, Stop):
        return Stop(reason=f"{own.reason} {says}")
    return own.model_copy(update={"hypothesis": f"{says} {own.hypothesis}"})


def planned(brief: Brief, own: Plan | Stop, parent: Trial | None, wished: Carried) -> Plan:
    """The plan that carries the wishes. Its change is against its parent; a first trial's against the proposer's own
    recipe, so that it can be seen what was wished."""
    recipe = looks(brief, wished.recipe)
    before = recipe_of(brief, parent) if parent else base_of(brief, own)[1]
    assert before is not None, "there is a recipe to put wishes on"
    change = change_between(before, recipe)
    what = f"{change.factor} {change.before} -> {change.after}" if change else "nothing that differs"
    notes = "".join(f" {note[0].upper()}{note[1:]}." for note in wished.notes)
    basis = own.hypothesis if isinstance(own, Plan) else f"Without it: {own.reason}"
    return Plan(
        number=brief.number,
        parent=parent.number if parent else None,
        diagnosis=own.diagnosis if isinstance(own, Plan) else own.reason,
        hypothesis=f"You said: {said(brief)}. That is {what}.{notes} The planner's own: {basis}",
        change=change,
        expected_gain=own.expected_gain if isinstance(own, Plan) else 0.0,
        data=recipe.data,
        training=recipe.training,
        proposer="search",
        predicted_seconds=round(brief.trial_seconds(recipe.data, recipe.training), 1),
    )


def said(brief: Brief) -> str:
    """The open wishes, as they were written."""
    return ", ".join(f'"{wish.text}"' for wish in brief.wishes)


def _half(factor: str, least: int = 1) -> Step:
    return lambda brief, recipe: max(least, int(factors(recipe)[factor] or 0) // 2)


def _twice(factor: str, most: int = 10**9) -> Step:
    return lambda brief, recipe: min(most, 2 * int(factors(recipe)[factor] or 1))


LOWERED: dict[str, Step] = {
    "learning_rate": lambda brief, recipe: rounded(recipe.training.learning_rate / 3),
    "epochs": lambda brief, recipe: max(0.25, recipe.training.epochs / 2),
    "batch_size": _half("batch_size"),
    "rows": _half("rows"),
    "lora_rank": _half("lora_rank", 2),
    "lora_alpha": _half("lora_alpha"),
    "lora_dropout": lambda brief, recipe: 0.0,
    "warmup_ratio": lambda brief, recipe: recipe.training.warmup_ratio / 2,
    "weight_decay": lambda brief, recipe: 0.0,
    "sequence_len": _half("sequence_len", 64),
    "seed": lambda brief, recipe: recipe.training.seed + 1,
}
RAISED: dict[str, Step] = {
    "learning_rate": lambda brief, recipe: rounded(recipe.training.learning_rate * 3),
    "epochs": lambda brief, recipe: 2 * recipe.training.epochs,
    "batch_size": _twice("batch_size", 64),
    "rows": _twice("rows"),
    "lora_rank": _twice("lora_rank", 128),
    "lora_alpha": _twice("lora_alpha"),
    "lora_dropout": lambda brief, recipe: min(0.3, recipe.training.lora_dropout + 0.05),
    "warmup_ratio": lambda brief, recipe: min(0.5, 2 * recipe.training.warmup_ratio or 0.05),
    "weight_decay": lambda brief, recipe: 10 * recipe.training.weight_decay or 0.01,
    "sequence_len": _twice("sequence_len"),
    "seed": lambda brief, recipe: recipe.training.seed + 1,
}
"""The next value down or up, where a person leaves it to us how far."""
