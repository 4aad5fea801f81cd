"""Measures: what a benchmark says of all outcomes together, one figure each. One is the score; others stand beside it.

A plain mean over items has the error bar of a mean. Anything else, an F1 or a mean over parts, is computed anew on
resamples of the items (`tools/statistics.py`). A measure counts the outcomes that have its figure and no others, so
that a benchmark can have parts of different kinds; where no outcome has it, it was not measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb
from statistics import fmean

from memory.records import Outcome

SCORE = "score"
"""The figure that every outcome has."""


@dataclass(frozen=True)
class Mean:
    """A mean over items."""

    name: str
    figure: str = SCORE
    """`score`, or a key of an outcome's `values`."""
    of: Callable[[Sequence[float]], float] = fmean
    """The item's figure, made of those of its samples."""
    higher_is_better: bool = True
    needs: str = ""
    """What must be there for it to be measured, where it may be missing."""
    samples: int = 1
    """Samples that an item needs to count."""


@dataclass(frozen=True)
class Aggregate:
    """Any other figure over all outcomes that count."""

    name: str
    of: Callable[[Sequence[Outcome]], float]
    """At least one outcome goes in. On resamples an item may come twice, so it must not look at ids."""
    figure: str = SCORE
    """`score`, or a key of an outcome's `values` or `labels`: outcomes without it do not count."""
    higher_is_better: bool = True
    needs: str = ""
    """What must be there for it to be measured, where it may be missing."""


Measure = Mean | Aggregate


def counted(measure: Measure, outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """The outcomes that count, by item, in the order of first appearance."""
    items: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        if measure.figure == SCORE or measure.figure in outcome.values or measure.figure in outcome.labels:
            items.setdefault(outcome.id, []).append(outcome)
    if isinstance(measure, Mean):
        return {item: samples for item, samples in items.items() if len(samples) >= measure.samples}
    return items


def figure_of(outcome: Outcome, figure: str) -> float:
    """One figure of an outcome that has it."""
    return outcome.score if figure == SCORE else outcome.values[figure]


def item_values(measure: Mean, items: dict[str, list[Outcome]]) -> dict[str, float]:
    """The figure of each item."""
    return {
        item: measure.of([figure_of(outcome, measure.figure) for outcome in samples]) for item, samples in items.items()
    }


def value_of(measure: Measure, outcomes: Sequence[Outcome]) -> float | None:
    """The measure without an error bar; None where no outcome counts."""
    items = counted(measure, outcomes)
    if not items:
        return None
    if isinstance(measure, Mean):
        return fmean(item_values(measure, items).values())
    return measure.of([outcome for samples in items.values() for outcome in samples])


# --- measures that several benchmarks share ---------------------------------------------------------------------------


def over_subsets(name: str, figure: str = SCORE, higher_is_better: bool = True) -> Aggregate:
    """The mean over parts of the mean in each part: every part counts the same, whatever its size."""

    def of(outcomes: Sequence[Outcome]) -> float:
        parts: dict[str, list[float]] = {}
        for outcome in outcomes:
            parts.setdefault(outcome.subset, []).append(figure_of(outcome, figure))
        return fmean(map(fmean, parts.values()))

    return Aggregate(name, of, figure, higher_is_better)


def pass_at(k: int) -> Mean:
    """pass@k: the chance that one of k samples is right, without bias from the n >= k samples of an item, 1 - C(n-c, k)
    / C(n, k) with c right ones (Chen et al. 2021, arXiv 2107.03374, equation 1)."""

    def of(scores: Sequence[float]) -> float:
        wrong = sum(score < 1 for score in scores)
        return 1 - comb(wrong, k) / comb(len(scores), k)

    return Mean(f"pass@{k}", of=of, needs=f"{k} samples of each item", samples=k)


def macro_f1(name: str, classes: Sequence[str], said: str, parsed_only: bool = False) -> Aggregate:
    """The mean of the F1 of each class, 0 for a class that is neither a gold nor said.

    An outcome's class stands in its label `gold`, what the output says in its label `said`. Where that is missing, the
    gold was missed; with `parsed_only` the outcome does not count at all.
    """

    def of(outcomes: Sequence[Outcome]) -> float:
        pairs = [(outcome.labels["gold"], outcome.labels.get(said)) for outcome in outcomes]
        right = Counter(gold for gold, answer in pairs if gold == answer)
        golds, answers = Counter(gold for gold, _ in pairs), Counter(answer for _, answer in pairs)
        return fmean(f1(right[each], answers[each] - right[each], golds[each] - right[each]) for each in classes)

    return Aggregate(name, of, said if parsed_only else "gold")


def micro_f1(name: str, hits: str, extras: str, misses: str) -> Aggregate:
    """F1 of hits, extras and misses summed over all outcomes; the arguments name figures of an outcome."""

    def of(outcomes: Sequence[Outcome]) -> float:
        return f1(*(sum(outcome.values[figure] for outcome in outcomes) for figure in (hits, extras, misses)))

    return Aggregate(name, of, hits)


def f1(hits: float, extras: float, misses: float) -> float:
    """2TP / (2TP + FP + FN); 0 where nothing was to be found and nothing was."""
    return 2 * hits / (2 * hits + extras + misses) if hits else 0.0
