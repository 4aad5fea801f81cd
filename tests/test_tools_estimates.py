"""Measures with error bars: means, F1, means over parts, errors of which less is better; and two models compared."""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import fmean

import pytest

from memory.errors import InputError
from memory.records import Outcome
from tools.benchmarks.measures import Aggregate, Mean, f1, macro_f1, micro_f1, over_subsets, pass_at, value_of
from tools.estimates import compared, estimated, reported
from tools.statistics import bootstrap_mean

AS_AGGREGATE = Aggregate("accuracy", lambda outcomes: fmean(outcome.score for outcome in outcomes))
ERROR = Mean("MAE", "error", higher_is_better=False)


def outcome(name: str, score: float, subset: str = "", sample: int = 0, **values: float) -> Outcome:
    return Outcome(
        id=name, sample=sample, prompt="", output="", answer="", gold="", score=score, values=values, subset=subset,
        finish="stop", output_tokens=1,
    )  # fmt: skip


def scored(scores: Sequence[float]) -> list[Outcome]:
    return [outcome(str(place), score) for place, score in enumerate(scores)]


def test_a_mean_computed_on_resamples_has_the_error_bar_of_a_mean() -> None:
    scores = [random.Random(1).random() for _ in range(150)]
    mean, aggregate = estimated(Mean("accuracy"), scored(scores)), estimated(AS_AGGREGATE, scored(scores))
    assert aggregate.value == pytest.approx(mean.value)
    assert aggregate.stderr == pytest.approx(mean.stderr, rel=0.06)
    assert (aggregate.low, aggregate.high) == pytest.approx(bootstrap_mean(scores), abs=0.006)


def test_samples_of_one_item_are_drawn_together() -> None:
    twice = [one.model_copy(update={"sample": sample}) for one in scored([0, 1] * 20) for sample in (0, 1)]
    assert estimated(AS_AGGREGATE, twice).n == 40
    assert estimated(AS_AGGREGATE, twice).stderr == pytest.approx(estimated(AS_AGGREGATE, scored([0, 1] * 20)).stderr)


def test_every_part_counts_the_same_and_is_in_every_resample() -> None:
    outcomes = [outcome(str(place), 1, "large") for place in range(100)] + [outcome("x", 0, "small")]
    estimate = estimated(over_subsets("accuracy"), outcomes)
    assert (estimate.value, estimate.stderr, estimate.low, estimate.high) == (0.5, 0, 0.5, 0.5)


def test_outcomes_without_the_figure_do_not_count() -> None:
    outcomes = [outcome("a", 1, error=2.0), outcome("b", 1, error=1.0), outcome("c", 0)]
    figures, unmeasured = reported([ERROR, Mean("METEOR", "meteor", needs="WordNet"), Mean("BLEU", "bleu")], outcomes)
    assert (figures["MAE"].value, figures["MAE"].n, figures["MAE"].higher_is_better) == (1.5, 2, False)
    assert unmeasured == {"METEOR": "it needs WordNet", "BLEU": "no output holds it"}
    with pytest.raises(InputError, match="0 scored items have no error bar"):
        estimated(Mean("BLEU", "bleu"), outcomes)


def test_less_error_is_a_gain() -> None:
    worse = [outcome(str(place), 0, error=2.0 + place % 2) for place in range(30)]
    better = [outcome(str(place), 1, error=0.0 + place % 2) for place in range(30)]
    for measure in (ERROR, over_subsets("MAE", "error", higher_is_better=False)):
        comparison = compared(measure, [better], [worse], "base")
        assert (comparison.difference, comparison.wins, comparison.losses) == (2, 30, 0)
        assert comparison.p_value < 0.01
        assert comparison.ci_low <= 2 <= comparison.ci_high


def test_two_models_are_compared_on_the_same_resamples() -> None:
    base = scored([0, 1] * 50)
    assert compared(AS_AGGREGATE, [base], [base], "base").p_value == 1
    better = scored([1, 1, *([0, 1] * 49)])
    both = compared(AS_AGGREGATE, [better, base], [base], "base")
    assert both.difference == pytest.approx(0.005)
    assert both.p_value > 0.05
    surely = compared(AS_AGGREGATE, [scored([1, 1] * 50)], [base], "base")
    assert surely.ci_low > 0.35
    assert surely.p_value < 0.01
    with pytest.raises(InputError, match="not on the same items: 1 of 100"):
        compared(AS_AGGREGATE, [base], [base[1:]], "base")


def test_pass_at_k_is_without_bias() -> None:
    right = [outcome("a", float(sample < 3), sample=sample) for sample in range(10)]
    assert value_of(pass_at(2), right) == pytest.approx(1 - (7 * 6) / (10 * 9))
    assert value_of(pass_at(8), right) == 1
    assert value_of(pass_at(11), right) is None


def test_f1_over_classes_and_over_counts() -> None:
    def labelled(gold: str, said: str | None) -> Outcome:
        return outcome(f"{gold}{said}", 0).model_copy(
            update={"labels": {"gold": gold} | ({"said": said} if said else {})}
        )

    outcomes = [labelled("a", "a"), labelled("a", None), labelled("b", "a"), labelled("c", "c")]
    assert value_of(macro_f1("", "abc", "said"), outcomes) == pytest.approx((f1(1, 1, 1) + 0 + 1) / 3)
    assert value_of(macro_f1("", "abc", "said", parsed_only=True), outcomes) == pytest.approx((f1(1, 1, 0) + 0 + 1) / 3)
    counts = [outcome("x", 0, hits=2, extras=1, misses=0), outcome("y", 0, hits=0, extras=0, misses=1)]
    assert value_of(micro_f1("", "hits", "extras", "misses"), counts) == pytest.approx(2 / 3)
    assert f1(0, 0, 0) == 0
