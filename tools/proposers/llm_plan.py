"""A language model's proposal, and how it becomes a plan: open places are filled, what cannot be done is bounded.

The model fills in a flat form. What the change was is computed from the recipes, whatever the model says of it.
"""

from __future__ import annotations

from pydantic import ValidationError

from memory.records import Plan, SelfDistil, Trial
from tools.proposers.after_imitation import Objective, towards
from tools.proposers.bounds import RefusedError, bounded
from tools.proposers.brief import Brief, Stop
from tools.proposers.data_levers import NEAR_COPIES
from tools.proposers.factors import THOUGHT, Recipe, Value, change_between, changed, differing
from tools.proposers.history import dead_end, recipe_of, rows_seen, standing, twin
from tools.proposers.llm_form import SETTINGS, ProposedStructure, StructuredPlan
from tools.proposers.sizing import looks
from tools.proposers.starting_recipe import rounded, rows_at_once, size_of, starting_recipe
from tools.proposers.tuning import tuned

SYNTHESISED = 100
"""New rows where the model names no number: enough to tell whether they help, for cents."""


def plan_of(answer: ProposedStructure, brief: Brief, net: Plan | Stop) -> Plan | Stop:
    """The proposal as a plan; `net` is what the search proposer would do, and fills what is left open.

    A setting that is left open stays as in the parent. Where nothing at all is set, search's plan is taken whole.
    Raises RefusedError where the proposal names what does not exist, was tried, or does not fit the time left.
    """
    if answer.decision == "stop":
        return _stop(answer, brief)
    if isinstance(net, Plan) and not answer.sets_anything:
        return net.model_copy(update=_words(answer, net, []))
    parent, start = _grown_from(answer, brief, net)
    if answer.objective is not None:
        start = _towards(brief, parent, answer.objective)
    settings = {name: value for name in SETTINGS if (value := getattr(answer, name, None)) is not None}
    recipe = _with(brief, start, settings | _data_settings(answer, brief, parent, start))
    if answer.go_on:
        recipe = _going_on(brief, parent, recipe, "rows" in settings)
    recipe, numbers, notes = _numbers(answer, brief, start if parent else None, recipe)
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
        tuned=numbers,
        predicted_seconds=round(brief.trial_seconds(recipe.data, recipe.training), 1),
    )
    dead = dead_end(brief, parent) if parent else None
    notes += [*(f"Bounded: {bound}" for bound in bounds), *([dead.rstrip(".")] if dead else [])]
    return plan.model_copy(update=_words(answer, plan, notes))


def _stop(answer: ProposedStructure, brief: Brief) -> Stop:
    if not brief.scored:
        raise RefusedError("Nothing was trained and scored yet, so nothing can be known: propose a training.")
    return Stop(reason=f"{answer.diagnosis} {answer.hypothesis}".strip())


def _grown_from(answer: ProposedStructure, brief: Brief, net: Plan | Stop) -> tuple[Trial | None, Recipe]:
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


def _towards(brief: Brief, parent: Trial | None, objective: Objective) -> Recipe:
    """The recipe of another objective on the parent's trained weights."""
    if parent is None or parent.training is None or parent.decision == "failed":
        raise RefusedError("Only a trial that was trained has answers to learn from: name it as the parent.")
    recipe = towards(brief, parent, objective)
    if recipe is None:
        raise RefusedError(
            f"{brief.training_room:.0f} s are left for training, too few to ask and train with {objective}."
        )
    return recipe


def _data_settings(answer: ProposedStructure, brief: Brief, parent: Trial | None, start: Recipe) -> dict[str, Value]:
    """The settings of the form that are said in other words than a recipe's factors."""
    settings: dict[str, Value] = {}
    if answer.mix is not None:
        sources = brief.task.raw_data
        if answer.mix > len(sources):
            raise RefusedError(f"There are {len(sources)} further sources; there is no number {answer.mix} to mix in.")
        settings["mix"] = sources[answer.mix - 1]
    if answer.own_words:
        trial = parent.number if parent is not None and parent.training is not None else None
        distil = SelfDistil(rows=max(2, start.rows), trial=trial, unsolved="gold")
        settings["self_distil"] = distil.model_dump_json()
    if answer.drop_near_copies:
        if brief.generated:
            raise RefusedError("Its questions come from a template: near copies are different questions there.")
        settings["near_duplicates"] = NEAR_COPIES
    return settings | _thought_steps(answer, brief)


def _thought_steps(answer: ProposedStructure, brief: Brief) -> dict[str, Value]:
    """The steps that language models write. Raises RefusedError where one is none, such as code that does not parse."""
    said = {
        "synthesise": {"prompt": answer.synthesise, "rows": answer.synthesise_rows or SYNTHESISED,
                       "model": answer.data_model or "strong", "seed": brief.task.seed},
        "rewrite": {"prompt": answer.rewrite, "field": answer.rewrite_field or "answer",
                    "model": answer.data_model or "strong"},
        "judge": {"rubric": answer.judge, "model": answer.data_model or "weak"},
        "transform": {"code": answer.transform},
    }  # fmt: skip
    steps: dict[str, Value] = {}
    for name in (name for name in said if getattr(answer, name) is not None):
        try:
            steps[name] = THOUGHT[name].model_validate(said[name]).model_dump_json()
        except ValidationError as error:
            raise RefusedError(f"{name}: {error.errors()[0]['msg']}.") from error
    return steps


def _going_on(brief: Brief, parent: Trial | None, recipe: Recipe, rows_given: bool) -> Recipe:
    """The recipe on the parent's trained weights, with rows that they have not seen; as many as there are, unless the
    number is given."""
    if parent is None or parent.training is None or parent.decision == "failed":
        raise RefusedError("Only a trial that was trained has weights to go on from: name it as the parent.")
    seen = rows_seen(brief, recipe_of(brief, parent))
    fresh = brief.rows_available - seen
    if fresh < 1:
        raise RefusedError(f"Trial {parent.number} has seen all {seen} rows; there are no new ones to go on with.")
    rows = min(recipe.rows, fresh) if rows_given else fresh
    return changed(recipe, continue_from=parent.number, skip=seen, rows=rows)


def _numbers(
    answer: ProposedStructure, brief: Brief, before: Recipe | None, recipe: Recipe
) -> tuple[Recipe, tuple[str, ...], list[str]]:
    """The recipe with its number drawn where one is to be tuned, the names of what was drawn, and how in words.

    `before` is the parent's recipe, if there is one. Raises RefusedError where more than one factor would change, so
    that nobody could say which of them helped.
    """
    after, numbers = recipe, tuple[str, ...]()
    notes: list[str] = []
    if not isinstance(answer, StructuredPlan):
        return after, numbers, notes
    if answer.tune and not brief.scored:
        notes.append(f"Not tuned: {answer.tune} stays as it is, for no trial has a score yet")
    elif answer.tune:
        after, how = tuned(brief, recipe, answer.tune, answer.towards)
        notes.append(f"Tuned: {how}")
        numbers = tuple(differing(recipe, after))
    names = differing(before, after) if before else []
    if len(names) > 1 and (answer.tune != "all" or differing(before or recipe, recipe)):
        raise RefusedError(f"Change one factor, not {' and '.join(names)}: else nobody can say which of them helped.")
    return after, numbers, notes


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


def _words(answer: ProposedStructure, plan: Plan, notes: list[str]) -> dict[str, object]:
    """What the model says of a plan, and what was done to its proposal, as fields of it."""
    said = answer.diagnosis + "".join(f" {note}." for note in notes)
    gain = plan.expected_gain if answer.expected_gain is None else answer.expected_gain
    return {"diagnosis": said, "hypothesis": answer.hypothesis, "expected_gain": gain, "proposer": "llm"}
