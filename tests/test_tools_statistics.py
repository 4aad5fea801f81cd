"""Error bars and paired tests against scipy, against published figures, and against simulation."""

import numpy
import pytest
from scipy import stats

from memory.errors import InputError
from tools.statistics import (
    bootstrap_mean,
    constant_answer,
    estimate,
    item_means,
    mcnemar,
    paired,
    paired_bootstrap,
    paired_proportions,
    stderr,
    wilson,
)


@pytest.mark.parametrize(("successes", "n"), [(0, 10), (10, 10), (1, 3), (88, 100), (176, 200)])
def test_wilson_is_scipys(successes: int, n: int) -> None:
    expected = stats.binomtest(successes, n).proportion_ci(method="wilson")
    assert wilson(successes, n) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize(("wins", "losses"), [(0, 0), (5, 0), (6, 0), (12, 3), (3, 12), (40, 41)])
def test_mcnemar_is_the_exact_binomial_test(wins: int, losses: int) -> None:
    expected = stats.binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
    assert mcnemar(wins, losses) == pytest.approx(expected)


def test_mcnemar_needs_six_changes_of_one_kind() -> None:
    assert mcnemar(5, 0) > 0.05 > mcnemar(6, 0)


def test_stderr_is_the_standard_error_of_the_mean() -> None:
    values = [0.0, 1.0, 1.0, 0.5, 0.25]
    assert stderr(values) == pytest.approx(float(stats.sem(values)))
    with pytest.raises(InputError, match="1 scored items have no error bar"):
        stderr([1.0])


def test_bootstrap_agrees_with_scipy_and_repeats_itself() -> None:
    values = numpy.random.default_rng(1).beta(2, 5, 300).tolist()
    low, high = bootstrap_mean(values, seed=1)
    expected = stats.bootstrap((values,), numpy.mean, method="percentile", rng=2).confidence_interval
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=0.003)
    assert bootstrap_mean(values, seed=1) == (low, high)


def test_the_paired_interval_covers_the_truth_as_often_as_it_says() -> None:
    random, truth, inside = numpy.random.default_rng(0), 0.05, 0
    for wins, losses, _ in random.multinomial(200, [0.10, 0.05, 0.85], 2000).tolist():
        low, high = paired_proportions(wins, losses, 200)
        inside += low <= truth <= high
    assert 0.94 < inside / 2000 < 0.97


def test_the_paired_interval_keeps_a_width_where_nothing_changed() -> None:
    assert paired_proportions(0, 0, 200) == pytest.approx((-0.01372, 0.01372), abs=1e-5)


def test_the_paired_bootstrap_agrees_with_the_t_test() -> None:
    differences = numpy.random.default_rng(3).normal(0.03, 0.2, 200)
    interval, p_value = paired_bootstrap(differences.tolist())
    expected = stats.ttest_1samp(differences, 0)
    assert p_value == pytest.approx(expected.pvalue, abs=0.01)
    assert interval == pytest.approx(tuple(expected.confidence_interval()), abs=0.005)
    assert paired_bootstrap([0.0] * 50) == ((0.0, 0.0), 1.0)


def test_samples_of_an_item_are_one_cluster() -> None:
    means = item_means([("a", 1.0), ("b", 0.0), ("a", 0.0), ("b", 0.0)])
    assert means == {"a": 0.5, "b": 0.0}
    ten_times = item_means((f"{i}", float(i % 2)) for i in range(40) for _ in range(10))
    assert estimate(list(ten_times.values())).n == 40


def test_right_or_wrong_gets_wilson_and_all_else_the_bootstrap() -> None:
    binary = estimate([1.0] * 30 + [0.0] * 10)
    assert (binary.low, binary.high) == wilson(30, 40)
    shares = [0.5] * 20 + [1.0] * 20
    assert (estimate(shares).low, estimate(shares).high) == bootstrap_mean(shares)


def test_a_comparison_counts_items_won_and_lost() -> None:
    theirs = {f"{i}": float(i < 20) for i in range(60)}
    ours = {f"{i}": float(3 <= i < 35) for i in range(60)}
    result = paired(ours, theirs, against="base zero-shot")
    assert (result.wins, result.losses, result.n, result.method) == (15, 3, 60, "mcnemar")
    assert result.difference == pytest.approx(12 / 60)
    assert result.p_value == pytest.approx(stats.binomtest(3, 18).pvalue)
    assert result.ci_low < result.difference < result.ci_high


def test_where_lower_is_better_a_fall_is_a_win() -> None:
    worse = {"a": 2.0, "b": 3.5, "c": 1.25}
    better = {item: value - 0.5 for item, value in worse.items()}
    result = paired(better, worse, against="trial 1", higher_is_better=False)
    assert (result.wins, result.losses, result.method) == (3, 0, "bootstrap")
    assert result.difference == pytest.approx(0.5)


def test_scores_on_other_items_are_not_compared() -> None:
    with pytest.raises(InputError, match="not on the same items: 2 of 3 differ"):
        paired({"a": 1.0, "b": 0.0}, {"a": 1.0, "c": 0.0}, against="trial 1")
    with pytest.raises(InputError, match="not on the same items"):
        paired({}, {}, against="trial 1")


def test_the_best_constant_answer_is_found_by_the_scorer() -> None:
    golds = ["Yes"] * 7 + ["No"] * 3
    best = constant_answer(("No", "Yes"), len(golds), lambda answer: golds.count(answer) / len(golds))
    assert (best.answer, best.value, best.n) == ("Yes", 0.7, 10)
    worst = constant_answer(("No", "Yes"), len(golds), lambda answer: golds.count(answer) / len(golds), sign=-1.0)
    assert worst.answer == "No"
