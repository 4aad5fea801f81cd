"""What a model makes of the training questions: pass rates, and answers of its own that the scorer accepts or refuses.

Nothing here judges an output: scores come with the samples, and they are the benchmark's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from memory.errors import TrialError
from memory.records import Outcome, PassRate, Preferences, Sampling, SelfDistil
from tools.operators.rows import Kept, Row, Supplies, dropped_by_reason, folded, rank, sample_id
from tools.operators.words import whose

FEWEST = 2
"""Rows to ask: a single one has no error bar, and the engine refuses it."""


def measure_pass_rates(operator: PassRate, rows: list[Row], supplies: Supplies, step: str) -> Kept:
    """The same rows; those that were asked have a pass rate."""
    outcomes = _outcomes(operator, rows, supplies, step)
    measured = [row.with_pass_rate(_rate(outcomes[row.id])).passed(step) if row.id in outcomes else row for row in rows]
    return Kept(measured, notes=(_distribution(operator, outcomes),))


def self_distil(operator: SelfDistil, rows: list[Row], supplies: Supplies, step: str) -> Kept:
    """Rows answered by the model itself; rows of other sources stay as they are."""
    outcomes = _outcomes(operator, rows, supplies, step)
    result: list[Row] = []
    lost: dict[str, list[Row]] = {}
    for row in rows:
        if row.item is None:
            result.append(row)
            continue
        made = outcomes.get(row.id, [])
        measured = row.with_pass_rate(_rate(made)) if made else row
        answers = _accepted(made)[: operator.keep]
        if not answers and operator.unsolved == "drop":
            lost.setdefault(_why_lost(operator, made), []).append(row)
        elif not answers:
            result.append(measured.passed(f"{step}: gold"))
        for sample, answer in answers:
            own = replace(measured, id=sample_id(row, sample), answer=answer, answered_by="model")
            result.append(own.passed(step))
    return Kept(result, dropped_by_reason(dict(sorted(lost.items()))), (_distribution(operator, outcomes),))


def pair(operator: Preferences, rows: list[Row], supplies: Supplies, step: str) -> Kept:
    """The rows with a right and a wrong answer."""
    outcomes = _outcomes(operator, rows, supplies, step)
    pairs: list[Row] = []
    lost: dict[str, list[Row]] = {}
    for row in rows:
        made = outcomes.get(row.id, [])
        wrong = _refused(made)
        if wrong is None:
            lost.setdefault(_why_unpaired(operator, row, made), []).append(row)
            continue
        accepted = _accepted(made)[:1]
        paired = replace(row.with_pass_rate(_rate(made)), rejected=wrong)
        if not accepted:
            pairs.append(paired.passed(f"{step}: gold preferred"))
        for sample, answer in accepted:
            own = replace(paired, id=sample_id(row, sample), answer=answer, answered_by="model")
            pairs.append(own.passed(step))
    return Kept(pairs, dropped_by_reason(dict(sorted(lost.items()))), (_distribution(operator, outcomes),))


def _outcomes(operator: Sampling, rows: list[Row], supplies: Supplies, step: str) -> dict[str, list[Outcome]]:
    """The outcomes of the rows that are asked, by row id, samples in order."""
    if supplies.sample is None:
        raise TrialError("CONFIG", f"{step}: no model is at hand to be asked", "Leave this operator out.")
    own = sorted((row for row in rows if row.item is not None), key=lambda row: rank(row, operator.seed))
    items = [
        row.item.model_copy(update={"id": row.id, "prompt": row.prompt})
        for row in own[: operator.rows]
        if row.item is not None
    ]
    if len(items) < FEWEST:
        raise TrialError(
            "DATA", f"{step}: {len(items)} rows of the benchmark can be asked", "Loosen what is before it."
        )
    by_row: dict[str, list[Outcome]] = {item.id: [] for item in items}
    for outcome in supplies.sample(operator.trial, items, operator.samples, operator.temperature):
        by_row[outcome.id].append(outcome)
    if short := [name for name, made in by_row.items() if len(made) != operator.samples]:
        what = f"{step}: {len(by_row[short[0]])} of {operator.samples} samples came back for row {short[0]}"
        raise TrialError("ENV", what, "Sample again.")
    return {name: sorted(made, key=lambda outcome: outcome.sample) for name, made in by_row.items()}


def _accepted(made: Sequence[Outcome]) -> list[tuple[int, str]]:
    """Sample number and text of the distinct outputs with the full mark, the shortest first."""
    distinct: dict[str, tuple[int, str]] = {}
    for outcome in made:
        text = outcome.output.strip()
        if outcome.score >= 1 and outcome.finish == "stop" and text:
            distinct.setdefault(folded(text), (outcome.sample, text))
    return sorted(distinct.values(), key=lambda answer: (len(answer[1]), answer[0]))


def _refused(made: Sequence[Outcome]) -> str | None:
    """The output that came most often among those that score 0, the earlier of equals; None where there is none."""
    wrong = [each.output.strip() for each in made if each.score == 0 and each.finish == "stop" and each.output.strip()]
    return Counter(wrong).most_common(1)[0][0] if wrong else None


def _why_unpaired(operator: Preferences, row: Row, made: Sequence[Outcome]) -> str:
    if row.item is None:
        return "of another source: no scorer can judge it"
    if not made:
        return f"not asked: {whose(operator)} was asked {operator.rows} rows"
    if all(outcome.score >= 1 for outcome in made):
        return f"the scorer accepts all {operator.samples} outputs of {whose(operator)}: nothing to reject"
    return "wrong outputs were cut by the token limit, empty, or partly right"


def _why_lost(operator: SelfDistil, made: Sequence[Outcome]) -> str:
    if not made:
        return f"not asked: {whose(operator)} was asked {operator.rows} rows"
    if any(outcome.score >= 1 for outcome in made):
        return "accepted outputs were cut by the token limit"
    return f"the scorer accepts none of {operator.samples} outputs of {whose(operator)}"


def _rate(made: Sequence[Outcome]) -> float:
    """Mean score: the share of right outputs where an output is right or wrong."""
    return fmean(outcome.score for outcome in made)


def _distribution(operator: Sampling, outcomes: Mapping[str, Sequence[Outcome]]) -> str:
    rates = [_rate(made) for made in outcomes.values()]
    always, never = sum(rate == 1 for rate in rates), sum(rate == 0 for rate in rates)
    return (
        f"{whose(operator)} scores {fmean(rates):.1%} on {len(rates)} rows, each asked {operator.samples} times: "
        f"{always} always right, {len(rates) - always - never} sometimes, {never} never"
    )
