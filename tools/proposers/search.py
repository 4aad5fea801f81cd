"""The proposer without a language model: diagnosis rules first, then a sampler around the best recipe.

The first trial takes a small share of the time, so that what it shows can be acted upon. Then each plan grows from the
trial that the strategy of the run chooses (`strategies/`), and changes the one factor that is worth most: its own
expected gain, and what the time it leaves can still bring by growth. Equal briefs get equal answers, so that a resumed
run goes on as if it had never stopped.
"""

from __future__ import annotations

from memory.lineage import rose, same_recipe
from memory.records import Plan, Trial
from tools.proposers.after_imitation import further
from tools.proposers.brief import Brief, Stop
from tools.proposers.factors import Recipe, change_between, changed
from tools.proposers.history import losing_streak, recipe_of, standing, tried
from tools.proposers.look import Diagnosis
from tools.proposers.moves import failure_line, remedies, repairs, worth_most
from tools.proposers.repairs import persistent_failure
from tools.proposers.sampler import draws
from tools.proposers.sizing import cut, looks
from tools.proposers.starting_recipe import as_remembered, starting_recipe
from tools.proposers.strategies import STRATEGIES
from tools.proposers.wishes import gone_back_to, honoured
from tools.proposers.worth import fits, gain_of

FIRST_GAIN = 1 / 3
"""Share of the headroom that a first trial closes: the median of eight reference tasks (0.04 to 0.99)."""
SAMPLED_GAIN, SAMPLED_CONFIDENCE = 0.1, 0.2
"""What a drawn recipe is expected to bring where no rule fires."""
PATIENCE = 3
"""So many scored trials without an accepted one, and no rule left to try, end the run."""
PROMISING = 0.3
"""p-value up to which a rise is worth another seed."""
MOST_SEEDS = 3
"""Seeds of one recipe: a third of them still narrows the error of a mean by a fifth, a fourth by an eighth."""
SHRINK_AT_MOST = 0.7
"""A trial cut below this share of its parent's rows cannot win and is not run."""


def propose(brief: Brief) -> Plan | Stop:
    """The next plan, with the person's wishes on it, or why there is none."""
    return honoured(brief, _own(brief))


def _own(brief: Brief) -> Plan | Stop:
    """What we would do unasked; from the trial that the person goes back to, where there is one."""
    if (stop := finished(brief)) is not None:
        return stop
    if not brief.trials:
        return _first(brief)
    if (back := gone_back_to(brief)) is not None:
        return _from(brief, back)
    if (choice := STRATEGIES[brief.task.planning.search](brief)) is not None:
        return _planned(brief, *choice)
    if (best := standing(brief)) is None:
        last = failure_line(brief.trials[-1])
        return Stop(reason=f"No trial reached a score, and nothing is left to change after: {last}")
    return _without_rules(brief, best)


def finished(brief: Brief) -> Stop | None:
    """Reasons to stop that need no look at any recipe."""
    if brief.trials_left == 0:
        return Stop(reason=f"All {len(brief.trials)} trials that were allowed are done.")
    if (why := persistent_failure(brief)) is not None:
        return Stop(reason=why)
    holder = brief.incumbent
    best = brief.baseline.better if holder is None or holder.score is None else holder.score
    if brief.ceiling is not None and brief.turned(best.value) >= brief.ceiling:
        who = "the base model" if holder is None else f"trial {holder.number}"
        return Stop(
            reason=f"Nothing is left to gain: {who} makes no error on {best.n} validation items "
            f"({brief.task.metric} {best.value:.3f}, 95 % interval {best.ci_low:.3f} to {best.ci_high:.3f})."
        )
    return None


def _first(brief: Brief) -> Plan | Stop:
    """The starting recipe as a plan."""
    start = starting_recipe(brief)
    if isinstance(start, Stop):
        return start
    recipe = as_remembered(brief, Recipe(data=start[0], training=start[1]))
    remembered = recipe.training != start[1]
    if tried(brief, recipe):
        fresh = [drawn for drawn in draws(brief, recipe) if fits(brief, drawn) and not tried(brief, drawn)]
        if not fresh:
            return Stop(reason=f"{len(brief.declined)} plans were declined, and no other recipe fits the time left.")
        recipe = fresh[0]
    recipe = looks(brief, recipe)
    data, training = recipe.data, recipe.training
    base = brief.baseline.better
    headroom = brief.headroom(brief.turned(base.value))
    return Plan(
        number=brief.number,
        parent=None,
        diagnosis=f"Nothing is trained yet. The base model scores {base.value:.3f} ({base.shots}-shot, n = {base.n})."
        + (_remembered(brief) if remembered else ""),
        hypothesis=f"{data.rows} rows x {training.epochs:g} epochs at learning rate {training.learning_rate:g} close "
        f"a third of the distance {headroom:.3f} to the ceiling, as the median of eight reference tasks did.",
        change=None,
        expected_gain=round(FIRST_GAIN * headroom, 4),
        data=data,
        training=training,
        proposer="search",
        predicted_seconds=round(brief.trial_seconds(data, training), 1),
    )


def _remembered(brief: Brief) -> str:
    """Where the settings of a first trial come from."""
    before = brief.remembered
    assert before is not None, "something is remembered"
    score = f"{before.score.value:.3f} on validation (n = {before.score.n})"
    return f" Settings are those of trial {before.trial} of run {before.run}, which won there with {score}."


def _from(brief: Brief, trial: Trial) -> Plan:
    """Grow from a trial that the person named: what its figures say, else its recipe once more under another seed."""
    recipe = recipe_of(brief, trial)
    named = [(trial, one) for one in remedies(brief, trial)]
    chosen = worth_most(brief, [*named, *repairs(brief, trial)])
    if chosen is not None:
        return _planned(brief, *chosen)
    again = changed(recipe, seed=recipe.training.seed + 1)
    while tried(brief, again, exactly=True):
        again = changed(again, seed=again.training.seed + 1)
    return _planned(brief, trial, _drawn(again, recipe, f"trial {trial.number} is gone back to"))


def _planned(brief: Brief, parent: Trial, diagnosis: Diagnosis, why: str = "") -> Plan:
    """A change of a trial as a plan, with its expectation in units of the metric and how that was derived; `why` says
    why of this trial."""
    recipe, before = looks(brief, diagnosis.recipe), recipe_of(brief, parent)
    scored = parent if parent.score is not None else standing(brief)
    start = brief.turned(brief.baseline.better.value) if scored is None else brief.value(scored)
    headroom, share = brief.headroom(start), gain_of(brief, diagnosis)
    goal = start + share * headroom
    holder = brief.incumbent
    held = brief.turned(brief.baseline.better.value) if holder is None else brief.value(holder)
    origin = f"trial {scored.number}'s" if scored else "the base model's"
    return Plan(
        number=brief.number,
        parent=parent.number,
        diagnosis=f"{diagnosis.cause[0].upper()}{diagnosis.cause[1:]}: {diagnosis.figure} (trial {parent.number})."
        + (f" {why}" if why else ""),
        hypothesis=f"{diagnosis.remedy} moves {brief.task.metric} from {origin} {abs(start):.3f} to about "
        f"{abs(goal):.3f}: {share:.1%} of the distance {headroom:.3f} to the ceiling, which is what this change brings "
        f"({diagnosis.gain:.0%}) times how sure the diagnosis is ({diagnosis.confidence:.0%}). "
        f"Grounds: {diagnosis.source}.",
        change=change_between(before, recipe),
        expected_gain=round(goal - held, 4),
        data=recipe.data,
        training=recipe.training,
        proposer="search",
        predicted_seconds=round(brief.trial_seconds(recipe.data, recipe.training), 1),
    )


# --- where no rule fits ---------------------------------------------------------------------------------------------


def _without_rules(brief: Brief, best: Trial) -> Plan | Stop:
    """A remedy cut to the time left, else a drawn recipe, else the reason to stop."""
    recipe = recipe_of(brief, best)
    if (again := _again(brief)) is None and (objective := further(brief)) is not None:
        return _planned(brief, *objective)
    room, needed = brief.training_room, brief.training_seconds(recipe.data, recipe.training)
    if room < SHRINK_AT_MOST * needed:
        return Stop(
            reason=f"{brief.spendable:.0f} s are left for trials, {room:.0f} s of them for training; the best so far, "
            f"trial {best.number}, trained for {needed:.0f} s, and a smaller training cannot be expected to beat it."
        )
    if room < needed and (smaller := cut(brief, remedies(brief, best))) is not None:
        return _planned(brief, best, smaller)
    if again is not None:
        return again
    if losing_streak(brief) >= PATIENCE:
        return Stop(
            reason=f"The last {losing_streak(brief)} scored trials brought no accepted gain over {_holder(brief)}, and "
            "every remedy that its figures name has been tried. More or other training data would be the next lever."
        )
    for drawn in draws(brief, recipe) if recipe.training.objective == "sft" else ():
        if fits(brief, drawn) and drawn.visits >= SHRINK_AT_MOST * recipe.visits and not tried(brief, drawn):
            figure = f"{len(brief.trials)} trials, {brief.training_room:.0f} s left for training"
            return _planned(brief, best, _drawn(drawn, recipe, figure))
    return Stop(reason=f"No recipe around trial {best.number} is both new and small enough for the time left.")


def _again(brief: Brief) -> Plan | None:
    """The best trial that rose within noise, once more under another seed; None where none did, or no time is left."""
    unsure = [trial for trial in brief.scored if trial.decision == "inconclusive"]
    open_ones = [trial for trial in unsure if rose(trial.decision, trial.comparison)]
    best = max(open_ones, key=lambda trial: (brief.value(trial), trial.number), default=None)
    if best is None or best.comparison is None or best.comparison.p_value > PROMISING:
        return None
    seeds = same_recipe(best.plan, brief.trials)
    recipe = recipe_of(brief, best)
    while tried(brief, recipe, exactly=True):
        recipe = changed(recipe, seed=recipe.training.seed + 1)
    if len(seeds) >= MOST_SEEDS or not fits(brief, recipe):
        return None
    figure = f"{best.comparison.difference:+.3f} against {best.comparison.against}, p = {best.comparison.p_value:.2g}"
    diagnosis = Diagnosis(
        cause="a gain within noise",
        figure=figure,
        remedy=f"seed {best.plan.training.seed} -> {recipe.training.seed}, judged over {len(seeds) + 1} seeds,",
        factor="seed",
        recipe=recipe,
        gain=0.0,
        confidence=1.0,
        source="the standard error of a mean over k seeds falls with the square root of k",
    )
    plan = _planned(brief, best, diagnosis)
    first = best.plan.repeats or best.number
    return plan.model_copy(update={"repeats": first, "expected_gain": round(best.comparison.difference, 4)})


def _drawn(drawn: Recipe, centre: Recipe, figure: str) -> Diagnosis:
    """A drawn recipe in the form of a diagnosis."""
    change = change_between(centre, drawn)
    remedy = f"{change.factor}: {change.before} -> {change.after}" if change else "nothing"
    return Diagnosis(
        cause="no rule fires any more",
        figure=figure,
        remedy=remedy,
        factor=change.factor if change else "none",
        recipe=drawn,
        gain=SAMPLED_GAIN,
        confidence=SAMPLED_CONFIDENCE,
        source="a draw by Optuna around the best recipe",
    )


def _holder(brief: Brief) -> str:
    return "the base model" if brief.incumbent is None else f"trial {brief.incumbent.number}"
