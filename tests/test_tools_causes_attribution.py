"""Hand-made trials with known outcomes give the known table: effects, what is nobody's effect, seeds pooled,
expectations scored."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from memory.layout import RunFolder
from memory.records import Attribution, Comparison, Failure, FailureKind, Score, Trial
from tests import example_run
from tools.benchmarks.measures import Mean
from tools.causes.attribution import attributed
from tools.causes.text import attribution_lines, effect_rows, foresight_rows, prediction_rows, unattributed
from tools.estimates import compared_files, written

ITEMS = 40


class Run:
    """Trials of 40 items each, of which the base model has the first ten right."""

    def __init__(self, place: Path) -> None:
        self.folder = RunFolder(place)
        self.trials: list[Trial] = []

    def score(self, place: str, right: Sequence[int]) -> Score:
        return example_run.score(self.folder, place, [int(item in right) for item in range(ITEMS)])

    def trial(
        self, right: Sequence[int], parent: int | None = None, repeats: int | None = None, **recipe: object
    ) -> Trial:
        """The next trial, with these items right."""
        number = len(self.trials) + 1
        plan = example_run.plan(number, parent, None, **recipe).model_copy(update={"repeats": repeats})
        score = self.score(f"trials/{number}/eval", right)
        made = Trial(plan=plan, decision="inconclusive", arithmetic="", score=score, seconds=1)
        self.trials.append(made)
        return made

    def failed(self, kind: FailureKind, parent: int | None, **recipe: object) -> None:
        plan = example_run.plan(len(self.trials) + 1, parent, None, **recipe)
        failure = Failure(kind=kind, node="trainer", message="no")
        self.trials.append(Trial(plan=plan, decision="failed", arithmetic="", failure=failure, seconds=1))

    def attribution(self) -> Attribution:
        def compare(ours: Sequence[Score], theirs: Sequence[Score], against: str) -> Comparison:
            left, right = (tuple(written(self.folder.resolve(one.outcomes)) for one in side) for side in (ours, theirs))
            return compared_files(Mean("exact"), left, right, against)

        baseline = example_run.baseline(self.folder)
        base = self.score("baseline/few", range(10)).model_copy(update={"shots": 5})
        baseline = baseline.model_copy(update={"zero_shot": self.score("baseline/zero", ()), "few_shot": base})
        return attributed(self.trials, baseline, compare)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_one_factor_that_changed_gets_the_paired_difference_with_its_interval_and_trials(run: Run) -> None:
    run.trial(range(20))
    run.trial(range(32), parent=1, learning_rate=0.003)
    run.trial(range(31), parent=2, learning_rate=0.003, lora_rank=64)
    found = run.attribution()
    assert [row[:1] + row[2:] for row in effect_rows(found)] == [
        ["fine-tuning", "+0.250", "[+0.093, +0.383]", "0.002", "40", "base → 1", "helped; one comparison, one seed"],
        ["learning_rate", "+0.300", "[+0.134, +0.437]", "0.00049", "40", "1 → 2", "helped; one comparison, one seed"],
        ["lora_rank", "-0.025", "[-0.104, +0.057]", "1", "40", "2 → 3", "within noise; one comparison, one seed"],
    ]
    assert effect_rows(found)[0][1] == "untouched model, few-shot → first recipe"
    assert effect_rows(found)[1][1] == "0.001 → 0.003"
    assert unattributed(found) == []


def test_several_factors_that_changed_together_are_not_attributed_and_that_is_said(run: Run) -> None:
    run.trial(range(20))
    run.trial(range(32), parent=1, learning_rate=0.003, lora_rank=64)
    found = run.attribution()
    assert [row[0] for row in effect_rows(found)] == ["fine-tuning"]
    assert unattributed(found) == [
        "trial 2 against trial 1: learning_rate 0.001 → 0.003, lora_rank 16 → 64 changed together, so +0.300 "
        "[+0.134, +0.437] (n=40, p=0.00049) is the effect of none of them alone"
    ]


def test_the_recipes_decide_what_changed_and_not_what_a_plan_claims(run: Run) -> None:
    """As after a fork whose plan was edited."""
    run.trial(range(20))
    second = run.trial(range(32), parent=1, learning_rate=0.003, epochs=3)
    run.trials[1] = second.model_copy(update={"plan": second.plan.model_copy(update={"change": example_run.CHANGE})})
    assert [len(contrast.changes) for contrast in run.attribution().contrasts] == [1, 2]


def test_seeds_of_one_recipe_are_pooled_on_either_side(run: Run) -> None:
    run.trial(range(20))
    run.trial(range(28), parent=1, learning_rate=0.003)
    run.trial(range(24), parent=2, repeats=2, learning_rate=0.003, seed=1)
    run.trial(range(22), parent=1, repeats=1, seed=5)
    first, second = run.attribution().contrasts
    assert (first.trials, first.against) == ((1, 4), ())
    assert (second.trials, second.against) == ((2, 3), (1, 4))
    assert second.attributed
    assert second.comparison.difference == pytest.approx((28 + 24) / 80 - (20 + 22) / 80)
    assert second.comparison.method == "bootstrap"
    assert second.apart == pytest.approx((28 / 40 - 21 / 40, 24 / 40 - 21 / 40))
    assert effect_rows(run.attribution())[1][-1].endswith("2 seeds against 2: +0.175, +0.075")


def test_what_grew_from_a_failed_trial_is_compared_with_the_nearest_one_that_was_scored(run: Run) -> None:
    run.trial(range(20))
    run.failed("OOM", 1, lora_rank=64)
    run.trial(range(26), parent=2, lora_rank=64, micro_batch=4)
    contrast = run.attribution().contrasts[1]
    assert contrast.against == (1,)
    assert [change.factor for change in contrast.changes] == ["lora_rank"]


def test_settings_that_must_follow_are_named_and_belong_to_what_leads(run: Run) -> None:
    run.trial(range(20))
    run.trial(range(30), parent=1, continue_from=1, epochs=1, batch_size=16)
    (change,), along = (one := run.attribution().contrasts[1]).changes, one.along
    assert (change.factor, change.before, change.after) == ("continue_from", "base model", "trial 1, 100 rows")
    assert [each.factor for each in along] == ["epochs", "batch_size"]


def expecting(trial: Trial, expected: float, difference: float, low: float, high: float, proposer: str) -> Trial:
    measured = Comparison(
        against="trial 1", n=40, difference=difference, ci_low=low, ci_high=high, wins=0, losses=0, p_value=0.5,
        method="mcnemar",
    )  # fmt: skip
    plan = trial.plan.model_copy(update={"expected_gain": expected, "proposer": proposer})
    return trial.model_copy(update={"plan": plan, "comparison": measured})


def test_expectations_are_scored_afterwards_with_n(run: Run) -> None:
    run.trial(range(20))
    for number in range(4):
        run.trial(range(20), parent=1, lora_rank=32 + number)
    run.trial(range(20), parent=2, repeats=2, lora_rank=32, seed=1)
    figures = [(0.2, 0.1, 0.05, 0.15), (0.1, 0.1, 0.0, 0.2), (0.1, -0.1, -0.2, 0.1), (0.0, 0.0, -0.1, 0.1)]
    for number, figure in enumerate(figures):
        run.trials[number] = expecting(run.trials[number], *figure, "search")
    run.trials[4] = expecting(run.trials[4], -0.05, -0.1, -0.2, 0.0, "llm")
    run.trials[5] = expecting(run.trials[5], 0.3, 0.3, 0.2, 0.4, "search")
    found = run.attribution()
    search, model = found.foresight
    assert (search.proposer, search.n, search.signs, search.signs_right, search.covered) == ("search", 4, 3, 2, 3)
    assert search.error == pytest.approx((0.1 + 0 + 0.2 + 0) / 4)
    assert search.error_of_none == pytest.approx((0.1 + 0.1 + 0.1 + 0) / 4)
    assert search.bias == pytest.approx((0.1 + 0 + 0.2 + 0) / 4)
    assert (model.n, model.signs_right, model.covered) == (1, 1, 1)
    assert [row[0] for row in prediction_rows(found.predictions)] == [f"trial {n}" for n in (1, 2, 3, 4, 5)]
    assert foresight_rows(found)[0][1] == "4, too few to judge by"


def test_a_reader_without_tables_is_told_the_same(run: Run) -> None:
    run.trial(range(20))
    run.trials[0] = expecting(run.trials[0], 0.2, 0.25, 0.1, 0.4, "llm")
    run.trial(range(32), parent=1, learning_rate=0.003)
    lines = list(attribution_lines(run.attribution()))
    assert lines[1].startswith("learning_rate 0.001 → 0.003 (1 -> 2): +0.300 [")
    assert lines[2].startswith("expectations of llm (n=1, too few to judge by): off by 0.050 on average, bias -0.050")


def test_a_run_without_a_score_says_nothing(run: Run) -> None:
    run.failed("OOM", None)
    assert run.attribution() == Attribution()
