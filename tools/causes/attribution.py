"""What each change did over a run: every recipe against the one that it grew from, on the same validation items; and
what the plans expected, scored afterwards.

A recipe is compared with its nearest ancestor that was scored, by the benchmark's own paired test
(`tools/estimates.py`). Trainings that differ in nothing but their seed are one recipe and count by their mean: with k
of them on either side the difference holds sqrt(2 / k) of a seed's standard deviation (that one is not enough:
Bouthillier et al. 2021, arXiv 2103.03098). Where exactly one factor differs, the difference is its effect; where
several do, it is nobody's. A parent was chosen for its score on the same items, so what grows from it looks a little
worse than it is, until the parent gets a further seed. Recipes stand apart even where they made the same change: what a
change does depends on where it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Literal

from memory.records import (
    Attribution,
    Baseline,
    Change,
    Comparison,
    Contrast,
    Foresight,
    Prediction,
    Score,
    Trial,
)
from tools.judgement import ALPHA
from tools.proposers.factors import Recipe, changed, changes_between, following, recipe_of_plan

Compare = Callable[[Sequence[Score], Sequence[Score], str], Comparison]
"""Compares two recipes on the same items by the run's measure, each over its seeds, and names the second."""
Reads = Literal["helped", "hurt", "within noise"]
ASIDE: dict[str, int] = {"seed": 0, "micro_batch": 1, "sequence_len": 16}
"""Settings that are no factor, each with the value that hides it: a seed is a draw, rows in memory at once and room for
rows that all fit change what a training costs and not what it learns."""
FEWEST_PREDICTIONS = 5
"""A coin gets the signs of five predictions right in 3 % of all cases, those of four in 6 %."""


def attributed(trials: Sequence[Trial], baseline: Baseline, compare: Compare) -> Attribution:
    """All of it. Raises what `compare` raises."""
    predictions = tuple(predicted(trials))
    return Attribution(
        contrasts=tuple(contrasts(trials, baseline, compare)),
        predictions=predictions,
        foresight=tuple(foresight(predictions)),
    )


# --- effects ----------------------------------------------------------------------------------------------------------


def contrasts(trials: Sequence[Trial], baseline: Baseline, compare: Compare) -> Iterator[Contrast]:
    """Every recipe that was scored against what it grew from, in the order of its first trial."""
    for ours, theirs in pairs(trials):
        yield contrast(ours, theirs, baseline, compare)


Pair = tuple[list[Trial], list[Trial]]
"""The trainings of a recipe, and those of the one that it is compared with; empty for the untouched model."""


def pairs(trials: Sequence[Trial]) -> list[Pair]:
    """What is compared with what, in the order of each recipe's first trial that was scored."""
    recipes = {trial.number: plain(trial).model_dump_json() for trial in trials}
    families: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.score is not None:
            families.setdefault(recipes[trial.number], []).append(trial)
    parents = ((ours, ancestor(ours[0], trials, recipes)) for ours in families.values())
    return [(ours, families[recipes[parent.number]] if parent else []) for ours, parent in parents]


def contrast(ours: Sequence[Trial], theirs: Sequence[Trial], baseline: Baseline, compare: Compare) -> Contrast:
    """One recipe, over its seeds, against another one, or against the untouched model where there is none."""
    left = [score for trial in ours if (score := trial.score)]
    right = [score for trial in theirs if (score := trial.score)] or [baseline.better]
    prompt = "few-shot" if baseline.better.shots else "zero-shot"
    changes, along = [Change(factor="fine-tuning", before=f"untouched model, {prompt}", after="first recipe")], []
    if theirs:
        before, after = plain(theirs[0]), plain(ours[0])
        changes, along = changes_between(before, after), following(before, after)
    against = " and ".join(f"trial {trial.number}" for trial in theirs) or f"base {prompt}"
    level = fmean(score.oriented for score in right)
    return Contrast(
        trials=tuple(trial.number for trial in ours),
        against=tuple(trial.number for trial in theirs),
        changes=tuple(changes),
        along=tuple(along),
        comparison=compare(left, right, against),
        apart=tuple(score.oriented - level for score in left),
    )


def plain(trial: Trial) -> Recipe:
    """The recipe as it was run, without what is no factor."""
    recipe = recipe_of_plan(trial.plan, trial.dataset.rows if trial.dataset else 1)
    return changed(recipe, **ASIDE)


def ancestor(trial: Trial, trials: Sequence[Trial], recipes: Mapping[int, str]) -> Trial | None:
    """The nearest ancestor that was scored and ran another recipe; None where that is the untouched model."""
    by_number = {each.number: each for each in trials}
    number: int | None = trial.plan.parent
    child = trial.number
    while number is not None and number in by_number and number < child:
        parent = by_number[number]
        if parent.score is not None and recipes[number] != recipes[trial.number]:
            return parent
        child, number = number, parent.plan.parent
    return None


def reads(comparison: Comparison) -> Reads:
    """What a difference says at p < ALPHA, two-sided, not corrected for the number of comparisons."""
    if comparison.p_value >= ALPHA:
        return "within noise"
    return "helped" if comparison.difference > 0 else "hurt"


# --- expectations -----------------------------------------------------------------------------------------------------


def predicted(trials: Iterable[Trial]) -> Iterator[Prediction]:
    """What the plans expected and what came of it. A repeat under another seed is none: its expectation is what was
    measured before, and that is part of what is measured now."""
    for trial in trials:
        plan, measured = trial.plan, trial.comparison
        if measured is not None and plan.repeats is None:
            expected = plan.expected_gain
            yield Prediction(trial=trial.number, proposer=plan.proposer, expected=expected, measured=measured)


def foresight(predictions: Iterable[Prediction]) -> Iterator[Foresight]:
    """The predictions of each planner, added up."""
    planners: dict[str, list[Prediction]] = {}
    for one in predictions:
        planners.setdefault(one.proposer, []).append(one)
    for proposer, made in planners.items():
        off = [one.expected - one.measured.difference for one in made]
        signed = [one for one in made if one.expected]
        yield Foresight(
            proposer=proposer,
            n=len(made),
            error=fmean(map(abs, off)),
            error_of_none=fmean(abs(one.measured.difference) for one in made),
            bias=fmean(off),
            signs=len(signed),
            signs_right=sum(one.expected * one.measured.difference > 0 for one in signed),
            covered=sum(one.covered for one in made),
        )
