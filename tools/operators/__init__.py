"""The operators of a data recipe, in one table: each takes working rows, and says which stay, which go, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memory.errors import TrialError
from memory.records import (
    Augment,
    Deduplicate,
    Dropped,
    Filter,
    Judge,
    MapTemplate,
    Mix,
    NearDeduplicate,
    Operator,
    Order,
    PassRate,
    Preferences,
    Rehearsal,
    Rewrite,
    Select,
    SelfDistil,
    Synthesise,
    Transform,
)
from tools.operators import (
    conditions,
    duplicates,
    generated,
    judging,
    mixing,
    rewriting,
    sampling,
    selection,
    synthesis,
    templates,
)  # fmt: skip
from tools.operators.rows import Kept, Row, Sample, Supplies, Workroom
from tools.operators.words import describe


def carry_out(
    operators: Sequence[Operator],
    rows: list[Row],
    sources: Mapping[str, Sequence[Row]],
    sample: Sample | None = None,
    workroom: Workroom | None = None,
) -> Kept:
    """Apply the operators in order; what comes back holds the notes of all of them.

    `sources` are the raw sources that a `mix` may name, `sample` asks the model that is tuned, and `workroom` has
    language models and the sandbox. Raises TrialError CONFIG for operators that cannot be applied, DATA where one
    leaves no row or fails its rehearsal, BUDGET where one would cost more than is left; and what `sample` raises.
    """
    supplies = Supplies(sources, mixing.shares_of(operators), sample, workroom)
    _check_order(operators)
    dropped: list[Dropped] = []
    notes: list[str] = []
    rehearsals: list[Rehearsal] = []
    for operator in operators:
        kept = _apply(operator, rows, supplies)
        rows = kept.rows
        dropped.extend(kept.dropped)
        notes.extend(kept.notes)
        rehearsals.extend(kept.rehearsals)
    missed = mixing.missed_shares(rows, supplies) if rows else ()
    return Kept(rows, tuple(dropped), (*notes, *missed), tuple(rehearsals))


def _apply(operator: Operator, rows: list[Row], supplies: Supplies) -> Kept:
    step = describe(operator)
    match operator:
        case Filter():
            kept = conditions.keep_where(operator, rows, step)
        case MapTemplate():
            kept = templates.rewrite(operator, rows, step)
        case Deduplicate():
            kept = duplicates.deduplicate(rows, step)
        case NearDeduplicate():
            kept = duplicates.near_deduplicate(operator, rows, step)
        case Mix():
            kept = mixing.mix(operator, rows, supplies, step)
        case Select():
            kept = selection.select(operator, rows, supplies, step)
        case Order():
            kept = selection.order(operator, rows, step)
        case Augment():
            kept = templates.augment(operator, rows, step)
        case PassRate():
            kept = sampling.measure_pass_rates(operator, rows, supplies, step)
        case SelfDistil():
            kept = sampling.self_distil(operator, rows, supplies, step)
        case Preferences():
            kept = sampling.pair(operator, rows, supplies, step)
        case Synthesise():
            kept = synthesis.synthesise(operator, rows, supplies, step)
        case Rewrite():
            kept = rewriting.rewrite(operator, rows, supplies, step)
        case Judge():
            kept = judging.judge(operator, rows, supplies, step)
        case Transform():
            kept = generated.transform(operator, rows, supplies, step)
    if not kept.rows:
        seen = f": {'; '.join(kept.notes)}" if kept.notes else ""
        raise TrialError(
            "DATA", f"no row is left after: {step} ({len(rows)} rows before){seen}", "Loosen this operator."
        )
    return kept._replace(dropped=tuple(each.model_copy(update={"step": step}) for each in kept.dropped))


def _check_order(operators: Sequence[Operator]) -> None:
    for place, operator in enumerate(operators):
        if isinstance(operator, Order) and any(isinstance(later, Select) for later in operators[place:]):
            raise TrialError("CONFIG", f"a select undoes: {describe(operator)}", "Put order behind the last select.")
