"""Each rule fires beyond its threshold and is silent below it, names its figure and its items, and blames one of
four."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pytest

from memory.records import (
    Blame,
    Blamed,
    Cause,
    CauseName,
    DatasetCard,
    Lengths,
    Outcome,
    RowGroup,
    Score,
    Snapshot,
    TrainingRun,
    Trial,
    Verdict,
)
from tests import example_run
from tests.proposer_world import score, trained
from tools.causes.blame import blame
from tools.causes.signs import Case
from tools.causes.text import blame_lines, blame_rows

SETTLED = [2.0 * math.exp(-i / 5) + 0.4 for i in range(60)]
FALLING = [2.5 - 0.03 * i for i in range(60)]
FLAT = [2.0 + 0.01 * (i % 2) for i in range(60)]
SPIKY = [*SETTLED[:30], *[4.0] * 8, *SETTLED[38:]]
RIGHT = ("Yes", "Yes", "Yes", 1.0, "stop")
"""Output, answer, gold, score, how it ended."""
WRONG = ("No", "No", "Yes", 0.0, "stop")
Answered = tuple[str, str | None, str, float, str]


def outcomes(*groups: tuple[int, Answered], prompt: str = "Does it follow?") -> list[Outcome]:
    """So many outputs of each kind."""
    rows = [row for count, row in groups for _ in range(count)]
    return [
        Outcome(
            id=f"v{n}", prompt=prompt, output=said, answer=answer, gold=gold, score=mark, finish=end, output_tokens=1
        )
        for n, (said, answer, gold, mark, end) in enumerate(rows)
    ]


def trial(
    value: float = 0.5, train: float | None = 0.95, losses: Sequence[float] = SETTLED, epochs: float = 1,
    run: TrainingRun | None = None, longest: int = 500, tokens: int = 3000, n: int = 50,
) -> Trial:  # fmt: skip
    """A scored trial of 100 rows with these figures; the trained rows are known unless something else is said."""
    lengths = Lengths(mean=100, p99=longest, longest=longest)
    return Trial(
        plan=example_run.plan(1, epochs=epochs),
        decision="accepted",
        arithmetic="",
        dataset=DatasetCard(
            path="d", sha256="0", rows=100, mean_answer_chars=3, groups=(RowGroup(source="own", rows=100, steps=()),),
            prompt_chars=lengths, answer_chars=Lengths(mean=3, p99=20, longest=20),
        ),
        verdict=Verdict(
            checks=(), step_seconds=1, predicted_seconds=1, tokens=9000, supervised_tokens=tokens, longest_row=90
        ),
        training=run or trained(list(losses)),
        score=score(value),
        train_score=None if train is None else score(train, n=n, split="train"),
        seconds=1,
    )  # fmt: skip


def blamed(
    found: Sequence[Outcome], of: Trial | None = None, closed: tuple[str, ...] | None = None,
    rows: Mapping[str, int] | None = None,
) -> Blame:  # fmt: skip
    of = of or trial()
    assert of.score is not None
    told = blame(Case(of, of.score, outcomes=found, closed_answers=closed, rows=rows))
    assert all(cause.reason and cause.says.endswith(".") for cause in told.causes)
    assert [cause.share for cause in told.causes] == sorted((cause.share for cause in told.causes), reverse=True)
    return told


def names(told: Blame) -> list[CauseName]:
    return [cause.name for cause in told.causes]


def only(told: Blame) -> Cause:
    (cause,) = told.causes
    assert (told.to, told.says) == (cause.blamed, cause.says)
    return cause


def test_nothing_is_invented_where_nothing_is_wrong_beyond_noise() -> None:
    told = blamed(outcomes((90, RIGHT), (10, WRONG)), trial(0.9))
    assert (told.to, told.causes) == ("none", ())
    assert "10 of 100 outputs fall short of the full mark" in told.says
    assert told.says.endswith("capacity or noise.")
    assert blamed(outcomes((9, RIGHT)), trial(1.0)).says == "Every validation output gets the full mark."


def test_unknown_rows_whose_loss_has_settled_are_called_capacity() -> None:
    told = blamed(outcomes((50, RIGHT), (50, WRONG)), trial(0.5, train=0.55))
    assert (told.to, told.says[-9:]) == ("none", "capacity.")
    assert "0.550" in told.says


@pytest.mark.parametrize(
    ("row", "below", "beyond", "name", "to"),
    [
        (("Maybe", None, "Yes", 0.0, "stop"), 5, 6, "no answer", "format"),
        (("", None, "Yes", 0.0, "stop"), 5, 6, "no answer", "format"),
        (("The answer is: Yes", None, "Yes", 0.0, "stop"), 2, 3, "wrong form", "format"),
        (("I think that", None, "Yes", 0.0, "length"), 2, 3, "cut at the limit", "format"),
        (("nonononononononono", None, "Yes", 0.0, "length"), 2, 3, "loops", "training"),
        (("four fem", None, "four female friends", 0.0, "length"), 2, 3, "limit too low", "evaluation"),
        (("Yes", None, "Yes", 0.0, "stop"), 0, 1, "gold scored wrong", "evaluation"),
    ],
)
def test_outputs_in_a_wrong_form_are_counted_against_a_threshold(
    row: Answered, below: int, beyond: int, name: CauseName, to: Blamed
) -> None:
    assert name not in names(blamed(outcomes((100 - below, RIGHT), (below, row)), trial(0.9)))
    told = blamed(outcomes((100 - beyond, RIGHT), (beyond, row)), trial(0.9))
    cause = next(one for one in told.causes if one.name == name)
    assert (cause.blamed, cause.share) == (to, beyond / 100)
    assert cause.examples == tuple(f"v{n}" for n in range(100 - beyond, 100))[:5]
    assert cause.figure > cause.threshold


def test_empty_outputs_are_counted_among_those_without_an_answer() -> None:
    told = blamed(outcomes((90, RIGHT), (4, ("", None, "Yes", 0.0, "stop")), (6, ("?", None, "Yes", 0.0, "stop"))))
    assert told.causes[0].says == "10 of 100 outputs (10%) hold no answer, 4 of them are empty."


def test_a_loss_that_did_not_fall_is_to_blame_unless_the_rows_are_known() -> None:
    half = outcomes((50, RIGHT), (50, WRONG))
    cause = only(blamed(half, trial(train=0.5, losses=FLAT)))
    assert (cause.name, cause.blamed) == ("loss did not fall", "training")
    assert "2.00" in cause.says
    assert names(blamed(half, trial(train=0.5, losses=[2.0 - i / 200 for i in range(60)]))) == []
    assert "loss did not fall" not in names(blamed(half, trial(train=0.95, losses=FLAT)))


def test_spikes_are_to_blame_and_a_smooth_curve_is_not() -> None:
    half = outcomes((50, RIGHT), (50, WRONG))
    cause = only(blamed(half, trial(train=0.5, losses=SPIKY)))
    assert (cause.name, cause.blamed) == ("loss spikes", "training")
    assert cause.figure > cause.threshold == 1.5
    assert names(blamed(half, trial(train=0.5))) == []


def test_a_loss_that_still_fell_is_to_blame_while_the_trained_rows_are_unknown() -> None:
    half = outcomes((50, RIGHT), (50, WRONG))
    cause = only(blamed(half, trial(train=0.5, losses=FALLING)))
    assert (cause.name, cause.blamed) == ("ended too early", "training")
    assert "ended too early" not in names(blamed(half, trial(0.9, train=0.95, losses=FALLING)))


@pytest.mark.parametrize(("epochs", "name", "to"), [(2.9, "too few rows", "data"), (3, "too many passes", "training")])
def test_rows_known_by_heart_are_few_or_were_seen_too_often(epochs: float, name: CauseName, to: Blamed) -> None:
    cause = only(blamed(outcomes((50, RIGHT), (50, WRONG)), trial(0.5, train=0.95, epochs=epochs)))
    assert (cause.name, cause.blamed) == (name, to)
    assert cause.figure == pytest.approx(0.45 - 2 * math.hypot(0.03082, 0.03536), abs=1e-3)
    assert names(blamed(outcomes((80, RIGHT), (20, WRONG)), trial(0.8, train=0.93, epochs=epochs))) == []


def snapshots(*values: float) -> TrainingRun:
    """A falling loss with snapshots every 20 steps that score so."""
    run = trained(FALLING)
    kept = [
        Snapshot(
            step=20 * (n + 1), epoch=1, weights=f"s{n}", adapter=None, weights_sha256="0", seconds=1, score=score(value)
        )
        for n, value in enumerate(values)
    ]
    return run.model_copy(update={"snapshots": tuple(kept)})


def test_validation_that_falls_while_the_loss_falls_is_training_for_too_long() -> None:
    half = outcomes((50, RIGHT), (50, WRONG))
    cause = only(blamed(half, trial(train=None, run=snapshots(0.5, 0.6, 0.45))))
    assert (cause.name, cause.blamed) == ("trained too long", "training")
    assert "From step 40 to 60" in cause.says
    assert names(blamed(half, trial(train=None, run=snapshots(0.5, 0.6, 0.55)))) == []
    assert names(blamed(half, trial(train=None, run=snapshots(0.5, 0.55, 0.6)))) == []


def test_one_answer_for_all_is_training_or_data_by_what_the_rows_prefer() -> None:
    no, missed = ("No", "No", "No", 1.0, "stop"), ("Yes", "Yes", "No", 0.0, "stop")
    mixed = outcomes((50, RIGHT), (20, no), (30, missed))
    closed = ("Yes", "No")
    cause = only(blamed(mixed, trial(0.9), closed))
    assert (cause.name, cause.blamed, cause.figure, cause.share) == ("one answer for all", "training", 1.6, 0.3)
    assert cause.examples[0] == "v70"
    assert only(blamed(mixed, trial(0.9), closed, {"Yes": 55, "No": 45})).blamed == "training"
    told = blamed(mixed, trial(0.9), closed, {"Yes": 70, "No": 30})
    assert (told.causes[0].name, told.to) == ("one answer for all", "data")
    assert told.causes[0].says.endswith("So do 70% of the training rows.")
    few = outcomes((50, RIGHT), (44, no), (6, missed))
    assert names(blamed(few, trial(0.94), closed)) == []


def test_a_kind_that_fails_and_is_rare_in_the_rows_is_to_blame_on_the_data() -> None:
    no, missed = ("c", "c", "c", 1.0, "stop"), ("b", "b", "c", 0.0, "stop")
    a, b = ("a", "a", "a", 1.0, "stop"), ("b", "b", "b", 1.0, "stop")
    found, closed = outcomes((60, a), (60, b), (35, no), (5, missed)), ("a", "b", "c")
    told = blamed(found, trial(0.97), closed, {"a": 40, "b": 40, "c": 5})
    cause = only(told)
    assert (cause.name, cause.blamed) == ("rare in the rows", "data")
    assert cause.examples == tuple(f"v{n}" for n in range(155, 160))
    worst = told.rates[0]
    assert (worst.name, worst.wrong, worst.n, worst.rows) == ("c", 5, 40, 5)
    assert "'c' 5 of 40 (5 training rows)" in list(blame_lines(told))[-1]
    assert names(blamed(found, trial(0.97), closed, {"a": 40, "b": 40, "c": 20})) == []
    assert names(blamed(found, trial(0.97), closed)) == []
    less = outcomes((60, a), (60, b), (39, no), (1, missed))
    assert names(blamed(less, trial(0.97), closed, {"a": 40, "b": 40, "c": 5})) == []


def test_questions_longer_than_any_row_that_fail_are_to_blame_on_the_data() -> None:
    long = outcomes((5, RIGHT), (15, WRONG), prompt="?" * 501)
    short = [each.model_copy(update={"id": f"s{n}"}) for n, each in enumerate(outcomes((70, RIGHT), (10, WRONG)))]
    cause = only(blamed([*short, *long], trial(0.9)))
    assert (cause.name, cause.blamed, cause.figure) == ("longer than any row", "data", 0.75)
    assert cause.examples[0] == "v5"
    assert names(blamed([*short, *long], trial(0.9, longest=501))) == []
    wordy = outcomes((5, RIGHT), (15, ("No", "No", "Yes" * 7, 0.0, "stop")))
    assert names(blamed([*short, *wordy], trial(0.9))) == ["longer than any row"]
    fine = outcomes((15, RIGHT), (5, WRONG), prompt="?" * 501)
    assert names(blamed([*short, *fine], trial(0.9))) == []


def test_a_loss_that_promises_more_than_the_scoring_of_the_same_rows_blames_the_evaluation() -> None:
    """0.01 nats a token and 10 tokens a row: at least 1 - 0.1 / ln 2 = 0.856 of the rows are answered right."""
    half, low = outcomes((50, RIGHT), (50, WRONG)), [2.0 * math.exp(-i) + 0.01 for i in range(60)]
    cause = only(blamed(half, trial(train=0.5, losses=low, tokens=1000)))
    assert (cause.name, cause.blamed, cause.figure) == ("trained answers not given", "evaluation", 0.8557)
    assert names(blamed(half, trial(0.8, train=0.84, losses=low, tokens=1000))) == []
    assert names(blamed(half, trial(train=0.5, losses=low, tokens=6000))) == []
    sorted_rows = trial(train=0.5, losses=low, tokens=1000)
    sorted_rows = sorted_rows.model_copy(update={"plan": example_run.plan(1, order="file")})
    assert names(blamed(half, sorted_rows)) == []


def test_what_accounts_for_most_comes_first() -> None:
    found = outcomes((50, RIGHT), (44, WRONG), (6, ("Maybe", None, "Yes", 0.0, "stop")))
    told = blamed(found, trial(0.5, train=0.95, epochs=4))
    assert names(told) == ["too many passes", "no answer"]
    assert list(blame_lines(told))[1] == "Also format: 6 of 100 outputs (6%) hold no answer."
    rows = blame_rows([trial().model_copy(update={"blame": told}), trial()])
    assert [row[:2] for row in rows] == [
        ["trial 1", "training: too many passes"],
        ["trial 1", "format: no answer"],
    ]
    assert rows[1][3:] == ["6% of outputs", "0.05, as 2 to 5 % is what practice bears", "v94, v95, v96, v97, v98"]


def test_an_error_is_read_the_other_way_round() -> None:
    """Where less is better, trained rows far below new ones are known by heart."""

    def error(value: float, split: str) -> Score:
        return score(value, split=split).model_copy(update={"higher_is_better": False})

    of = trial().model_copy(update={"score": error(0.5, "validation"), "train_score": error(0.05, "train")})
    assert only(blamed(outcomes((50, RIGHT), (50, WRONG)), of)).name == "too few rows"
