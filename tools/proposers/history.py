"""What the trials so far mean for the next one: which to grow from, what was tried, what lost."""

from __future__ import annotations

from collections.abc import Iterator

from memory.lineage import went_on_from
from memory.records import Record, Trial
from tools.proposers.brief import Brief
from tools.proposers.curves import curve_of
from tools.proposers.factors import Recipe, Value, factors, near, recipe_of_plan

AMOUNTS = ("rows", "epochs")
"""Factors that may be tried again at twice the size."""
BLAMELESS = ("ENV", "BUDGET")
"""Failures that say nothing against the factor that was changed."""
DEAD_AFTER = 3
"""So many children in a row that scored no higher make a trial a dead end. A change that truly helps by one standard
error of a difference looks no better one time in six, three of them in a row once in 250 times."""
GRID = 1.3
"""Learning rates within this factor count as the same."""


class Attempt(Record):
    """One factor that one trial changed against its parent, and whether that was worse than leaving it."""

    parent: int
    trial: int
    before: Value
    after: Value
    worse: bool


def recipe_of(brief: Brief, trial: Trial) -> Recipe:
    """A trial's recipe; where it takes all rows, the number that it took is written into it."""
    return recipe_of_plan(trial.plan, trial.dataset.rows if trial.dataset else max(1, brief.rows_available))


def chain(brief: Brief, recipe: Recipe) -> list[Recipe]:
    """All trainings that the recipe's weights see: those that it goes on from, oldest first, and its own."""
    earlier = went_on_from(recipe.training.continue_from, brief.trials)
    return [*(recipe_of(brief, trial) for trial in earlier), recipe]


def rows_seen(brief: Brief, recipe: Recipe) -> int:
    """Unique rows that the recipe's weights have seen; a training that skips none sees rows of the earlier ones
    again."""
    seen = 0
    for link in chain(brief, recipe):
        skipped = int(factors(link)["skip"] or 0)
        seen = max(seen, skipped + link.rows)
    return min(seen, brief.rows_available)


def rows_open(brief: Brief, recipe: Recipe) -> int:
    """Rows that the recipe may select: all but those that it skips."""
    return max(1, brief.rows_available - int(factors(recipe)["skip"] or 0))


def visits_seen(brief: Brief, recipe: Recipe) -> float:
    """Rows that the recipe's weights have seen, each epoch of each training counted."""
    return sum(link.visits for link in chain(brief, recipe))


def standing(brief: Brief) -> Trial | None:
    """The trial to grow from, whatever was decided: the best validation score. Among trials within its standard
    error, the one that saw most rows, then on the same new rows the one with a clearly lower loss (seen once, rows
    are as good as held out), then the score. None where nothing was scored."""
    if not brief.scored:
        return None
    best = max(brief.scored, key=lambda trial: (brief.value(trial), trial.number))
    error = best.score.stderr if best.score else 0.0
    tied = [trial for trial in brief.scored if brief.value(trial) >= brief.value(best) - error]
    visits = {trial.number: visits_seen(brief, recipe_of(brief, trial)) for trial in tied}
    tied = [trial for trial in tied if visits[trial.number] >= max(visits.values()) / 1.15]
    best = max(tied, key=lambda trial: (brief.value(trial), trial.number))
    lower = [trial for trial in tied if _same_new_rows(trial, best) and _end_loss(trial) <= 0.9 * _end_loss(best)]
    return min(lower, key=lambda trial: (_end_loss(trial), -trial.number), default=best)


def _same_new_rows(one: Trial, other: Trial) -> bool:
    return one.plan.data == other.plan.data and one.plan.training.epochs == other.plan.training.epochs <= 1


def _end_loss(trial: Trial) -> float:
    curve = curve_of(trial.training.losses) if trial.training else None
    return curve.end if curve else float("inf")


def losing_streak(brief: Brief) -> int:
    """Scored trials since the last accepted one."""
    streak = 0
    for trial in reversed(brief.scored):
        if trial.decision == "accepted":
            break
        streak += 1
    return streak


def dead_end(brief: Brief, trial: Trial) -> str | None:
    """Why nothing more should be grown from a trial, as a sentence: the last DEAD_AFTER changes of it all lost. None
    where they did not. The same recipe under another seed is no change, and what only the machine broke does not
    count."""
    grown = [
        child
        for child in brief.trials
        if child.plan.parent == trial.number
        and child.plan.repeats is None
        and (child.failure is None or child.failure.kind not in BLAMELESS)
    ]
    last = grown[-DEAD_AFTER:]
    if len(last) < DEAD_AFTER or any(brief.value(child) > brief.value(trial) for child in last):
        return None
    figures = (f"{child.score.value:.3f}" if child.score else "failed" for child in last)
    came = ", ".join(f"{child.number} ({figure})" for child, figure in zip(last, figures, strict=True))
    return (
        f"Trial {trial.number} ({abs(brief.value(trial)):.3f}) is a dead end: the last {DEAD_AFTER} trials grown from "
        f"it, {came}, scored no higher."
    )


def attempts(brief: Brief, factor: str) -> Iterator[Attempt]:
    """Every trial that changed `factor` alone, oldest first; failures count as worse, but for blameless ones, left
    out."""
    by_number = {trial.number: trial for trial in brief.trials}
    for trial in brief.trials:
        parent = by_number.get(trial.plan.parent or 0)
        if parent is None or trial.plan.change is None or trial.plan.change.factor != factor:
            continue
        if trial.failure is not None and trial.failure.kind in BLAMELESS:
            continue
        before, after = (factors(recipe_of(brief, one)).get(factor) for one in (parent, trial))
        worse = brief.value(trial) <= brief.value(parent)
        yield Attempt(parent=parent.number, trial=trial.number, before=before, after=after, worse=worse)


def lost(brief: Brief, from_trial: Trial, factor: str, before: Value, after: Value) -> bool:
    """Whether setting `factor` from `before` to `after` was tried from this trial in this direction, or was worse
    anywhere.

    An amount may be tried again at twice the size. A value that was worse rules out those beyond it.
    """
    for attempt in attempts(brief, factor):
        here = attempt.parent == from_trial.number
        if factor == "continue_from" or isinstance(before, str | None) or isinstance(after, str | None):
            if after == attempt.after and (here or attempt.worse):
                return True
        elif not isinstance(attempt.before, str | None) and not isinstance(attempt.after, str | None):
            upwards = after > before
            if upwards != (attempt.after > attempt.before):
                continue
            beyond = after >= attempt.after / GRID if upwards else after <= attempt.after * GRID
            if factor in AMOUNTS:
                if here and (after < 2 * attempt.after if upwards else beyond):
                    return True
            elif here or (attempt.worse and beyond):
                return True
    return False


def twin(brief: Brief, recipe: Recipe, *, exactly: bool = False) -> Trial | None:
    """The first trial, failed or not, that had this recipe or, unless `exactly`, one too near to tell apart."""
    for trial in brief.trials:
        other = recipe_of(brief, trial)
        if recipe == other if exactly else near(recipe, other):
            return trial
    return None


def tried(brief: Brief, recipe: Recipe, *, exactly: bool = False) -> bool:
    """Whether a former trial had this recipe, or one too near to it; see `twin`. A plan that the person declined counts
    as well."""
    if twin(brief, recipe, exactly=exactly) is not None:
        return True
    declined = [Recipe(data=plan.data, training=plan.training) for plan in brief.declined]
    return any(recipe == other if exactly else near(recipe, other) for other in declined)
