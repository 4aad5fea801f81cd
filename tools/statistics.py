"""Error bars and paired tests: what a score is worth, and whether one score beats another on the same items.

An item with several samples counts once, with the mean of its samples: samples of one item are a cluster, and
treating them as independent would shrink the error bar (Miller 2024, "Adding Error Bars to Evals", arXiv 2411.00640).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from math import comb, sqrt
from statistics import fmean, stdev
from typing import NamedTuple, TypeVar

import numpy

from memory.errors import InputError
from memory.records import Comparison, ConstantAnswer

Z95 = 1.959963984540054
"""Two-sided 95 % quantile of the normal distribution."""
RESAMPLES = 10_000
AGGREGATE_RESAMPLES = 2_000
"""Of a figure that is no mean and is computed anew on each: enough for a 95 % interval (Efron and Tibshirani 1993,
section 13.3, ask for 1,000)."""
FEWEST_ITEMS = 2
"""A single item has no error bar."""

T = TypeVar("T")


class Interval(NamedTuple):
    """A 95 % interval."""

    low: float
    high: float


class Estimate(NamedTuple):
    """A mean over items with its error bar; the fields of a `Score`."""

    value: float
    n: int
    stderr: float
    low: float
    high: float


def item_means(scores: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Mean score of each item from `(item id, score of one sample)`, in the order of first appearance."""
    samples: dict[str, list[float]] = {}
    for item, score in scores:
        samples.setdefault(item, []).append(score)
    return {item: fmean(values) for item, values in samples.items()}


def estimate(values: Sequence[float], seed: int = 0) -> Estimate:
    """Mean over items, standard error and 95 % interval: Wilson where all scores are 0 or 1, else percentile bootstrap.

    Raises InputError for fewer than two items.
    """
    error = stderr(values)
    interval = wilson(round(sum(values)), len(values)) if _binary(values) else bootstrap_mean(values, seed)
    return Estimate(fmean(values), len(values), error, interval.low, interval.high)


def stderr(values: Sequence[float]) -> float:
    """Standard error of the mean over items, sd / sqrt(n) with the sample's sd (Miller 2024, section 2.1).

    Raises InputError for fewer than two items, which have none.
    """
    if len(values) < FEWEST_ITEMS:
        raise InputError(f"{len(values)} scored items have no error bar", "Score at least two.")
    return stdev(values) / sqrt(len(values))


def wilson(successes: int, n: int) -> Interval:
    """95 % score interval of a proportion (Wilson 1927, JASA 22:209). Sound for small n and for shares near 0 and 1."""
    if not 0 <= successes <= n or n == 0:
        raise ValueError(f"{successes} of {n} is no proportion")
    share = successes / n
    centre = share + Z95**2 / (2 * n)
    half = Z95 * sqrt(share * (1 - share) / n + Z95**2 / (4 * n**2))
    scale = 1 + Z95**2 / n
    low = 0.0 if successes == 0 else (centre - half) / scale
    high = 1.0 if successes == n else (centre + half) / scale
    return Interval(low, high)


def bootstrap_mean(values: Sequence[float], seed: int = 0) -> Interval:
    """95 % percentile bootstrap interval of the mean over items (Efron and Tibshirani 1993, chapter 13)."""
    low, high = numpy.quantile(_resampled_means(values, seed), [0.025, 0.975])
    return Interval(float(low), float(high))


def mcnemar(wins: int, losses: int) -> float:
    """Exact two-sided p-value that items won and lost are equally likely: twice the smaller binomial tail, at most 1
    (McNemar 1947; the exact form in Fagerland, Lydersen and Laake 2013, doi 10.1186/1471-2288-13-91)."""
    n = wins + losses
    tail = sum(comb(n, k) for k in range(min(wins, losses) + 1))
    return float(min(1.0, 2 * tail / 2**n))


def paired_proportions(wins: int, losses: int, n: int) -> Interval:
    """95 % interval of the difference of two shares on the same n items, from items won and lost: Wald with one
    imaginary win and loss added (Bonett and Price 2012, doi 10.3102/1076998611411915); it keeps a width where nothing
    changed."""
    up, down = (wins + 1) / (n + 2), (losses + 1) / (n + 2)
    half = Z95 * sqrt((up + down - (up - down) ** 2) / (n + 2))
    return Interval(max(-1.0, up - down - half), min(1.0, up - down + half))


def paired_bootstrap(differences: Sequence[float], seed: int = 0) -> tuple[Interval, float]:
    """95 % percentile interval of a mean of per-item differences, and the two-sided p-value that it is 0: the share
    of means of resamples of the centred differences that lie as far out (Efron and Tibshirani 1993, section 16.4),
    counting the sample itself."""
    mean = fmean(differences)
    means = _resampled_means(differences, seed)
    low, high = numpy.quantile(means, [0.025, 0.975])
    beyond = int((numpy.abs(means - mean) >= abs(mean) - 1e-12).sum())
    return Interval(float(low), float(high)), (beyond + 1) / (RESAMPLES + 1)


def paired(
    ours: Mapping[str, float],
    theirs: Mapping[str, float],
    *,
    against: str,
    higher_is_better: bool = True,
    seed: int = 0,
) -> Comparison:
    """Compare two models item by item; the arguments map item ids to mean scores, and a positive difference is better.

    Exact McNemar where all scores are 0 or 1, else the paired bootstrap. Raises InputError where the items differ.
    """
    refuse_other_items(ours.keys(), theirs.keys(), against)
    sign = 1.0 if higher_is_better else -1.0
    differences = [sign * (ours[item] - theirs[item]) for item in ours]
    wins, losses = changes(ours, theirs, sign)
    binary = _binary(ours.values()) and _binary(theirs.values())
    if binary:
        interval, p_value = paired_proportions(wins, losses, len(differences)), mcnemar(wins, losses)
    else:
        interval, p_value = paired_bootstrap(differences, seed)
    return Comparison(
        against=against,
        n=len(differences),
        difference=fmean(differences),
        ci_low=interval.low,
        ci_high=interval.high,
        wins=wins,
        losses=losses,
        p_value=p_value,
        method="mcnemar" if binary else "bootstrap",
    )


def refuse_other_items(ours: Set[str], theirs: Set[str], against: str) -> None:
    """Raise InputError where two scores are not on the same items, one at least."""
    if ours != theirs or not ours:
        raise InputError(
            f"scores against {against} are not on the same items: {len(ours ^ theirs)} of {len(ours | theirs)} differ",
            "Score both on one split with one limit.",
        )


def changes(ours: Mapping[str, float], theirs: Mapping[str, float], sign: float) -> tuple[int, int]:
    """Items won and lost; `sign` is -1 where less is better."""
    differences = [sign * (ours[item] - theirs[item]) for item in ours]
    return sum(d > 0 for d in differences), sum(d < 0 for d in differences)


# --- figures that are no means ----------------------------------------------------------------------------------------


def estimate_aggregate(
    items: Mapping[str, Sequence[T]], of: Callable[[Sequence[T]], float], parts: Mapping[str, str], seed: int = 0
) -> Estimate:
    """A figure over all outcomes, its standard error and 95 % percentile interval by bootstrap over items.

    `items` maps item ids to their outcomes, `parts` to the part of the benchmark that they belong to. Items are drawn
    with replacement within each part: the parts are what they are, and only their items are a sample (Efron and
    Tibshirani 1993, chapters 6, 8 and 13). Raises InputError for fewer than two items.
    """
    if len(items) < FEWEST_ITEMS:
        raise InputError(f"{len(items)} scored items have no error bar", "Score at least two.")
    values = [_whole([items], ids, of) for ids in _resampled_items(items, parts, seed)]
    low, high = numpy.quantile(values, [0.025, 0.975])
    return Estimate(_whole([items], list(items), of), len(items), stdev(values), float(low), float(high))


def paired_aggregate(
    ours: Sequence[Mapping[str, Sequence[T]]],
    theirs: Sequence[Mapping[str, Sequence[T]]],
    of: Callable[[Sequence[T]], float],
    parts: Mapping[str, str],
    seed: int = 0,
) -> tuple[float, Interval, float]:
    """The difference of a figure between two models, its 95 % percentile interval, and the two-sided p-value that it is
    0, by bootstrap over the items that both answered: each resample takes the same items for both. The p-value is that
    of `paired_bootstrap`. Each side may have several sets of outcomes, whose mean counts."""
    ids = list(ours[0])
    difference = _whole(ours, ids, of) - _whole(theirs, ids, of)
    drawn = _resampled_items(ours[0], parts, seed)
    values = numpy.array([_whole(ours, ids, of) - _whole(theirs, ids, of) for ids in drawn])
    low, high = numpy.quantile(values, [0.025, 0.975])
    beyond = int((numpy.abs(values - difference) >= abs(difference) - 1e-12).sum())
    return difference, Interval(float(low), float(high)), (beyond + 1) / (AGGREGATE_RESAMPLES + 1)


def _whole(sets: Sequence[Mapping[str, Sequence[T]]], ids: Sequence[str], of: Callable[[Sequence[T]], float]) -> float:
    return fmean(of([outcome for item in ids for outcome in items[item]]) for items in sets)


def _resampled_items(items: Iterable[str], parts: Mapping[str, str], seed: int) -> Iterator[list[str]]:
    """AGGREGATE_RESAMPLES resamples of item ids, within each part."""
    members: dict[str, list[str]] = {}
    for item in items:
        members.setdefault(parts[item], []).append(item)
    random = numpy.random.default_rng(seed)
    for _ in range(AGGREGATE_RESAMPLES):
        yield [own[at] for own in members.values() for at in random.integers(0, len(own), len(own))]


# --- the floor --------------------------------------------------------------------------------------------------------


def constant_answer(answers: Sequence[str], n: int, score: Callable[[str], float], sign: float = 1.0) -> ConstantAnswer:
    """The answer that scores best when it is given to each of `n` items: the floor of a closed-answer task. Of equals,
    the first; `sign` is -1 where less is better.

    `score(answer)` is the benchmark's own, so that an answer is worth here what it is worth in an output.
    """
    values = {answer: score(answer) for answer in answers}
    best = max(values, key=lambda answer: sign * values[answer])
    return ConstantAnswer(answer=best, value=values[best], n=n)


def _binary(values: Iterable[float]) -> bool:
    return all(value in (0.0, 1.0) for value in values)


def _resampled_means(values: Sequence[float], seed: int) -> numpy.ndarray[tuple[int], numpy.dtype[numpy.float64]]:
    """Means of RESAMPLES resamples with replacement; in portions, so that memory stays under 100 MB for any number of
    items."""
    sample = numpy.asarray(values, dtype=numpy.float64)
    random = numpy.random.default_rng(seed)
    portion = max(1, min(RESAMPLES, 5_000_000 // len(sample)))
    starts = range(0, RESAMPLES, portion)
    return numpy.concatenate(
        [
            sample[random.integers(0, len(sample), (min(portion, RESAMPLES - start), len(sample)))].mean(axis=1)
            for start in starts
        ]
    )
