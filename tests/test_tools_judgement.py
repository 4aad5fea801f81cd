"""Decisions from figures, and errors sorted into classes."""

import pytest

from memory.lineage import rose
from memory.records import (
    Change,
    Comparison,
    ConstantAnswer,
    DataRecipe,
    GuardScore,
    Outcome,
    Plan,
    Score,
    Select,
    TrainingRecipe,
)
from tools.judgement import classify_errors, decide, expectation_met, guarded, worth_going_on
from tools.statistics import paired


def compared(wins: int, losses: int, both: int = 60, n: int = 200) -> tuple[Score, Comparison]:
    """A trial that wins and loses so many items against a rival that has `both + losses` right."""
    ours = {f"{i}": float(i < both or both + losses <= i < both + losses + wins) for i in range(n)}
    theirs = {f"{i}": float(i < both + losses) for i in range(n)}
    value = sum(ours.values()) / n
    score = Score(
        metric="accuracy",
        split="validation",
        shots=0,
        value=value,
        n=n,
        stderr=0.03,
        ci_low=value - 0.06,
        ci_high=value + 0.06,
        parsed=n,
        outcomes="x",
        seconds=1,
    )
    return score, paired(ours, theirs, against="trial 1")


@pytest.mark.parametrize(
    ("wins", "losses", "decision"),
    [
        (60, 5, "accepted"),
        (12, 3, "accepted"),
        (12, 5, "inconclusive"),
        (5, 0, "inconclusive"),
        (10, 12, "inconclusive"),
        (0, 0, "rejected"),
        (1, 1, "rejected"),
        (8, 14, "rejected"),
        (3, 12, "rejected"),
    ],
)
def test_numbers_decide(wins: int, losses: int, decision: str) -> None:
    assert decide(*compared(wins, losses)).decision == decision


def test_the_arithmetic_is_one_line_with_the_figures_that_decided() -> None:
    line = decide(*compared(12, 3)).arithmetic
    assert line == (
        "36.0% against trial 1: +4.5 points [+0.5 points, +8.4 points], "
        "12 won, 3 lost of 200, mcnemar p = 0.035: better, p < 0.05"
    )


def test_a_score_that_a_constant_answer_reaches_is_called_that() -> None:
    score, comparison = compared(60, 0)
    judged = decide(score, comparison, ConstantAnswer(answer="Yes", value=0.7, n=200))
    assert judged.decision == "accepted"
    assert judged.arithmetic.endswith("not clearly above always answering 'Yes' (70.0%)")


def plan(expected_gain: float = 0.05) -> Plan:
    return Plan(
        number=2,
        parent=1,
        diagnosis="the loss still falls",
        hypothesis="more rows help",
        change=Change(factor="rows", before="400", after="800"),
        expected_gain=expected_gain,
        data=DataRecipe(operators=(Select(rows=800),)),
        training=TrainingRecipe(learning_rate=1e-3, epochs=1),
        proposer="search",
        predicted_seconds=60,
    )


def test_a_rise_that_is_not_significant_may_be_grown_from() -> None:
    for wins, losses, grows in ((60, 5, True), (12, 5, True), (10, 12, False), (3, 12, False)):
        score, comparison = compared(wins, losses)
        decision, _ = decide(score, comparison)
        assert rose(decision, comparison) is grows


def test_an_expectation_is_met_by_the_measured_gain() -> None:
    _, comparison = compared(12, 3)
    assert expectation_met(plan(0.045), comparison)
    assert not expectation_met(plan(0.05), comparison)


def outcome(
    output: str, gold: str = "Yes", answer: str | None = None, finish: str = "stop", score: float = 0
) -> Outcome:
    return Outcome(
        id=output[:12], prompt="?", output=output, answer=answer, gold=gold, score=score, finish=finish, output_tokens=4
    )


@pytest.mark.parametrize(
    ("output", "gold", "answer", "finish", "name"),
    [
        ("", "Yes", None, "stop", "unparsable"),
        ("Maybe so.", "Yes", None, "stop", "unparsable"),
        ("No", "Yes", "No", "stop", "wrong answer"),
        ("yes.", "Yes", None, "stop", "right answer, wrong format"),
        ("Yes, since all ants are bees and", "Yes", None, "length", "right answer, wrong format"),
        ("The answer is: Yes.", "Yes", None, "stop", "right answer, wrong format"),
        ("Yes or No? I think", "Yes", None, "length", "truncated"),
        ("No. It does not follow that", "Yes", None, "length", "truncated"),
        ("Sarah has 4 female friends and", "4", None, "length", "truncated"),
        ("mother-in-law", "mother", "mother-in-law", "stop", "wrong answer"),
        ("nonononononononono", "Yes", None, "length", "repetition"),
        ("it is so it is so it is so it is so", "Yes", None, "length", "repetition"),
    ],
)
def test_every_wrong_output_has_one_class(output: str, gold: str, answer: str | None, finish: str, name: str) -> None:
    closed = ("Yes", "No") if gold == "Yes" else None
    (found,) = classify_errors([outcome(output, gold, answer, finish)], closed)
    assert (found.name, found.count) == (name, 1)


def test_classes_come_by_frequency_with_a_few_examples_and_without_the_right() -> None:
    outcomes = [outcome("Yes", answer="Yes", score=1)] * 5 + [outcome("")] + [outcome("No", answer="No")] * 9
    outcomes += [outcome(f"{i} maybe") for i in range(9)]
    found = classify_errors(outcomes, ("Yes", "No"), examples=3)
    assert [(one.name, one.count) for one in found] == [("unparsable", 10), ("wrong answer", 9)]
    assert found[0].examples == ("", "0 maybe", "1 maybe")
    assert classify_errors([outcome("Yes", score=1)]) == ()


def guard(difference: float, name: str = "aiw") -> GuardScore:
    score, _ = compared(0, 0)
    comparison = Comparison(
        against="the base model",
        n=200,
        difference=difference,
        ci_low=difference - 0.03,
        ci_high=difference + 0.03,
        wins=0,
        losses=0,
        p_value=0.5,
        method="mcnemar",
    )
    return GuardScore(benchmark=name, score=score, comparison=comparison)


@pytest.mark.parametrize(
    ("differences", "decision"),
    [([], "accepted"), ([0.1], "accepted"), ([-0.05], "accepted"), ([-0.055], "rejected"), ([0.2, -0.06], "rejected")],
)
def test_a_guard_that_loses_more_than_the_margin_blocks_acceptance(differences: list[float], decision: str) -> None:
    accepted = decide(*compared(60, 5))
    names = [f"guard-{number}" for number in range(len(differences))]
    judged = guarded(accepted, map(guard, differences, names), margin=0.05)
    assert judged.decision == decision
    assert judged.arithmetic.startswith(accepted.arithmetic)
    assert all(name in judged.arithmetic for name in names)
    assert ("more than 5.0 points lost" in judged.arithmetic) == (decision == "rejected")


@pytest.mark.parametrize(
    ("values", "goes_on"),
    [
        ([0.5], True),
        ([0.5, 0.4], True),
        ([0.5, 0.4, 0.6], True),
        ([0.5, 0.4, 0.5], False),
        ([0.5, 0.4, 0.45], False),
        ([0.3, 0.5, 0.6, 0.4], True),
        ([0.3, 0.6, 0.5, 0.4], False),
    ],
)
def test_a_training_ends_when_its_score_falls_twice(values: list[float], goes_on: bool) -> None:
    score, _ = compared(0, 0)
    assert worth_going_on([score.model_copy(update={"value": value}) for value in values]) == goes_on
    errors = [score.model_copy(update={"value": 1 - value, "higher_is_better": False}) for value in values]
    assert worth_going_on(errors) == goes_on
