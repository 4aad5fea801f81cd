"""What can be changed next: every untried change that a trial's figures name, repairs of a failed one, and which of
them is worth most. From which trial to grow is another question (`strategies/`)."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2

from memory.records import Trial
from tools.proposers.brief import Brief
from tools.proposers.diagnosis import ROWS_GAIN, diagnose
from tools.proposers.factors import factors, shown
from tools.proposers.history import lost, recipe_of, tried
from tools.proposers.look import WORTHWHILE, Diagnosis
from tools.proposers.repairs import repaired
from tools.proposers.sizing import all_rows_and_epochs, stretched
from tools.proposers.worth import fits, gain_of, leaves_room, worth

REPAIR_CONFIDENCE = 0.8
MINOR = 0.02
"""Share of the headroom below which a remedy waits until nothing better is left."""

Candidate = tuple[Trial, Diagnosis]
"""The trial to grow from, and the change."""


def moves_of(brief: Brief, trial: Trial) -> list[Candidate]:
    """Every untried change of a scored trial, at the size that the rules give it and fitted to the time left."""
    named = remedies(brief, trial)
    fitted = [*stretched(brief, named), *all_rows_and_epochs(brief, recipe_of(brief, trial))]
    return [(trial, one) for one in (*named, *fitted)]


def remedies(brief: Brief, trial: Trial) -> list[Diagnosis]:
    """What the rules say about a trial, without what was tried from it or lost elsewhere."""
    recipe = recipe_of(brief, trial)
    table = factors(recipe)
    return [
        one
        for one in diagnose(brief, trial, recipe)
        if not lost(brief, trial, one.factor, table[one.factor], factors(one.recipe)[one.factor])
        and not tried(brief, one.recipe)
    ]


def repairs(brief: Brief, failed: Trial) -> list[Candidate]:
    """A failed trial with one thing mended; worth what the failed plan hoped for, less where rows go. Empty if it
    did not fail."""
    if failed.failure is None:
        return []
    recipe = recipe_of(brief, failed)
    parent = next((trial for trial in brief.scored if trial.number == failed.plan.parent), None)
    start = brief.turned(brief.baseline.better.value) if parent is None else brief.value(parent)
    hoped = min(1.0, max(0.0, failed.plan.expected_gain) / max(1e-6, brief.headroom(start)))
    found = []
    for (factor, value, why), mended in repaired(brief, failed, recipe):
        growth = 1.0 if parent is None else mended.rows / recipe_of(brief, parent).rows
        if tried(brief, mended, exactly=True) or (factor == "rows" and parent and growth < WORTHWHILE):
            continue
        gain = ROWS_GAIN * log2(growth) if factor == "rows" and parent else hoped
        remedy = f"{factor} {shown(factors(recipe)[factor])} -> {shown(value)} ({why})"
        mending = Diagnosis(
            cause=f"trial {failed.number} failed",
            figure=failure_line(failed),
            remedy=remedy,
            factor=factor,
            recipe=mended,
            gain=gain,
            confidence=REPAIR_CONFIDENCE,
            source=f"repairs for {failed.failure.kind}",
        )
        found.append((failed, mending))
    return found


def failure_line(trial: Trial) -> str:
    """Why a trial failed, in words."""
    return f"{trial.failure.kind}: {trial.failure.message}" if trial.failure else "no failure"


def worth_most(brief: Brief, candidates: Sequence[Candidate]) -> Candidate | None:
    """The candidate that is worth most among those that fit; where nothing was scored yet, the first that fits. What is
    hardly expected to move the metric waits until nothing better is left."""
    fitting = [one for one in candidates if fits(brief, one[1].recipe) and gain_of(brief, one[1]) > 0]
    roomy = [one for one in fitting if leaves_room(brief, one[1].recipe)] or fitting
    if not roomy:
        return None
    if not brief.scored:
        return roomy[0]
    major = [one for one in roomy if gain_of(brief, one[1]) >= MINOR] or roomy
    return max(major, key=lambda one: worth(brief, one[1], recipe_of(brief, one[0])))
