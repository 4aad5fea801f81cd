"""What a trial teaches, and what the lessons of a run come to: those on one change are one, and one that later evidence
contradicts is retired.

A run keeps what each trial taught as it was found; what holds now is derived from that wherever it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memory.records import Change, Comparison, Effect, Lesson, Trial
from tools.judgement import ALPHA

VERDICTS: dict[Effect, str] = {
    "helped": "helped",
    "hurt": "hurt",
    "unclear": "made no difference that can be told from noise",
}


def taught(trial: Trial, comparison: Comparison) -> Lesson:
    """What a judged trial taught, from its comparison with the trial that it grew from (`measurement.of_change`)."""
    plan, change = trial.plan, trial.plan.change
    what = f"{change.factor} {change.before} -> {change.after}" if change else "the starting recipe"
    found = effect(comparison)
    lesson = Lesson(
        text=f"{what} {VERDICTS[found]}",
        trials=(trial.number,) if plan.parent is None else (plan.parent, trial.number),
        evidence=f"{comparison.difference:+.3f} [{comparison.ci_low:+.3f}, {comparison.ci_high:+.3f}] against "
        f"{comparison.against}, n={comparison.n}, p={comparison.p_value:.2g}",
        effect=found,
    )
    single = change is not None and change.factor != "several" and plan.repeats is None
    if change is None or not single or comparison.against != f"trial {plan.parent}":
        return lesson
    step = f"{change.before} -> {change.after}"
    return lesson.model_copy(update={"factor": change.factor, "way": way(change), "steps": (step,)})


def effect(comparison: Comparison) -> Effect:
    """Whether the change helped or hurt, beyond noise."""
    if comparison.p_value >= ALPHA or comparison.difference == 0:
        return "unclear"
    return "helped" if comparison.difference > 0 else "hurt"


def way(change: Change) -> str:
    """`up`, `down`, or the new value where the factor is no number; going on from trained weights is one way."""
    if change.factor == "continue_from":
        return "on"
    try:
        return "up" if float(change.after) > float(change.before) else "down"
    except ValueError:
        return change.after


def holding(lessons: Iterable[Lesson]) -> tuple[Lesson, ...]:
    """The lessons of `distilled` that hold."""
    return tuple(lesson for lesson in distilled(lessons) if not lesson.retired)


def distilled(lessons: Iterable[Lesson]) -> tuple[Lesson, ...]:
    """Lessons on one factor that was changed one way, as one with the evidence of all. Where it helped, and a later
    trial hurt, both beyond noise, the earlier lesson is retired, and the other way round; retired ones come last."""
    open_ones: list[list[Lesson]] = []
    retired: list[Lesson] = []
    for lesson in lessons:
        alike = next((group for group in open_ones if lesson.factor and _same_change(group[0], lesson)), None)
        if alike is None:
            open_ones.append([lesson])
        elif {"helped", "hurt"} <= {one.effect for one in (*alike, lesson)}:
            retired.append(_merged(alike).model_copy(update={"retired": _why(lesson)}))
            open_ones[open_ones.index(alike)] = [lesson]
        else:
            alike.append(lesson)
    return (*(_merged(group) for group in open_ones), *retired)


def _same_change(one: Lesson, other: Lesson) -> bool:
    return (one.factor, one.way) == (other.factor, other.way)


def _why(lesson: Lesson) -> str:
    return f"trial {lesson.trials[-1]} shows the opposite: {lesson.text} ({lesson.evidence})"


def _merged(group: Sequence[Lesson]) -> Lesson:
    """Several lessons on one change as one. A verdict beyond noise outweighs those that showed none."""
    first, clear = group[0], [lesson for lesson in group if lesson.effect != "unclear"]
    if len(group) == 1:
        return first
    steps = tuple(dict.fromkeys(step for lesson in group for step in lesson.steps))
    verdict = VERDICTS[clear[0].effect] if clear else VERDICTS["unclear"]
    share = f" ({len(clear)} of {len(group)} times beyond noise)" if clear else f" ({len(group)} times)"
    return first.model_copy(
        update={
            "text": f"{first.factor} {', '.join(steps)} {verdict}{share}",
            "trials": tuple(sorted({number for lesson in group for number in lesson.trials})),
            "evidence": "; ".join(lesson.evidence for lesson in group),
            "effect": clear[0].effect if clear else "unclear",
            "steps": steps,
        }
    )
