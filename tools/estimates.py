"""A benchmark's measures with their error bars, and two models compared by one of them, item by item.

A mean has the error bar and the paired test of a mean. Any other measure is computed anew on resamples of the items,
within each part of the benchmark, and of the same items for both models.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from memory.layout import disk, read_rows
from memory.records import Comparison, Figure, Outcome
from tools import statistics
from tools.benchmarks.measures import Aggregate, Mean, Measure, counted, item_values
from tools.statistics import FEWEST_ITEMS, Estimate

Outcomes = Sequence[Outcome]
ITEM_SCORE = Mean("item score")


def estimated(measure: Measure, outcomes: Outcomes) -> Estimate:
    """The measure with its error bar. Raises InputError where fewer than two items count."""
    items = counted(measure, outcomes)
    if isinstance(measure, Mean):
        return statistics.estimate(list(item_values(measure, items).values()))
    return statistics.estimate_aggregate(items, measure.of, _parts(items))


def reported(measures: Iterable[Measure], outcomes: Outcomes) -> tuple[dict[str, Figure], dict[str, str]]:
    """Further measures by name, and those that could not be taken with the reason."""
    figures: dict[str, Figure] = {}
    unmeasured: dict[str, str] = {}
    for measure in measures:
        items = counted(measure, outcomes)
        if len(items) < FEWEST_ITEMS:
            few = "only one item counts" if items else "no output holds it"
            unmeasured[measure.name] = f"it needs {measure.needs}" if measure.needs else few
            continue
        value, n, stderr, low, high = estimated(measure, outcomes)
        better = measure.higher_is_better
        figures[measure.name] = Figure(
            value=value, stderr=stderr, ci_low=low, ci_high=high, n=n, higher_is_better=better
        )
    return figures, unmeasured


def compared(measure: Measure, ours: Sequence[Outcomes], theirs: Sequence[Outcomes], against: str) -> Comparison:
    """Two models on the same items; each side may have several sets of outcomes (seeds of one recipe), whose mean
    counts. Raises InputError where the items differ."""
    better = measure.higher_is_better
    if isinstance(measure, Mean):
        return statistics.paired(
            _mean_values(measure, ours), _mean_values(measure, theirs), against=against, higher_is_better=better
        )
    return _compared_aggregates(measure, ours, theirs, against)


Written = tuple[Path, int]
"""A file of outcomes, and when it was written, in nanoseconds."""


def written(path: Path) -> Written:
    """The file as it is now. Raises StorageError where it is not there."""
    with disk(path):
        return path, path.stat().st_mtime_ns


@lru_cache(maxsize=512)
def compared_files(
    measure: Measure, ours: tuple[Written, ...], theirs: tuple[Written, ...], against: str
) -> Comparison:
    """`compared` over files of outcomes; what was compared once is not computed again, for a figure that is no mean
    takes seconds."""
    left, right = ([list(read_rows(path, Outcome)) for path, _ in side] for side in (ours, theirs))
    return compared(measure, left, right, against)


def _compared_aggregates(
    measure: Aggregate, ours: Sequence[Outcomes], theirs: Sequence[Outcomes], against: str
) -> Comparison:
    """The paired bootstrap; an item is won where its own score rose."""
    left, right = ([counted(measure, outcomes) for outcomes in side] for side in (ours, theirs))
    for one in (*left, *right):
        statistics.refuse_other_items(left[0].keys(), one.keys(), against)
    sign = 1.0 if measure.higher_is_better else -1.0
    difference, interval, p_value = statistics.paired_aggregate(left, right, measure.of, _parts(left[0]))
    low, high = sorted((sign * interval.low, sign * interval.high))
    wins, losses = statistics.changes(_mean_values(ITEM_SCORE, ours), _mean_values(ITEM_SCORE, theirs), 1.0)
    return Comparison(
        against=against,
        n=len(left[0]),
        difference=sign * difference,
        ci_low=low,
        ci_high=high,
        wins=wins,
        losses=losses,
        p_value=p_value,
        method="bootstrap",
    )


def _mean_values(measure: Mean, side: Sequence[Outcomes]) -> dict[str, float]:
    """Each item's figure, the mean over the sets of outcomes."""
    values = [item_values(measure, counted(measure, outcomes)) for outcomes in side]
    return statistics.item_means(pair for one in values for pair in one.items())


def _parts(items: dict[str, list[Outcome]]) -> dict[str, str]:
    return {item: samples[0].subset for item, samples in items.items()}
