"""The verdict on a run: arithmetic on the sealed test, a loss said as plainly as a win."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory.layout import RunFolder
from memory.records import Comparison, ConstantAnswer, Found, Query, Research, Score, SealedTest
from tests import example_run
from tools.report import judge
from tools.report_text import looked_up, table


def score(value: float, low: float, high: float) -> Score:
    return Score(
        metric="accuracy", split="test", shots=0, value=value, n=100, stderr=0.03, ci_low=low, ci_high=high,
        parsed=100, outcomes="o.jsonl", seconds=1,
    )  # fmt: skip


def against(name: str, difference: float, p_value: float) -> Comparison:
    return Comparison(
        against=name, n=100, difference=difference, ci_low=difference - 0.1, ci_high=difference + 0.1, wins=1, losses=1,
        p_value=p_value, method="mcnemar",
    )  # fmt: skip


def sealed(few: Comparison, constant: float | None = None) -> SealedTest:
    return SealedTest(
        zero_shot=score(0.1, 0.05, 0.2),
        few_shot=score(0.4, 0.3, 0.5),
        tuned=score(0.6, 0.5, 0.7),
        winner=2,
        against_zero=against("base zero-shot", 0.5, 1e-9),
        against_few=few,
        constant=None if constant is None else ConstantAnswer(answer="Yes", value=constant, n=100),
    )


@pytest.mark.parametrize(
    ("few", "outcome", "words"),
    [
        (against("base few-shot", 0.2, 0.001), "improved", "better than the base few-shot"),
        (against("base few-shot", 0.2, 0.06), "not improved", "not shown to be better than the base few-shot"),
        (against("base few-shot", -0.2, 0.001), "not improved", "not shown to be better than the base few-shot"),
    ],
)
def test_the_better_base_prompt_has_to_be_beaten_beyond_noise(few: Comparison, outcome: str, words: str) -> None:
    verdict = judge(sealed(few), "stopped")
    assert verdict.outcome == outcome
    assert words in verdict.says


def test_a_score_that_a_constant_answer_could_reach_is_said() -> None:
    few = against("base few-shot", 0.2, 0.001)
    assert "not clearly above always answering 'Yes' (0.550)" in judge(sealed(few, 0.55), "").says
    assert "always answering" not in judge(sealed(few, 0.4), "").says


def test_without_an_accepted_trial_the_base_model_stands(tmp_path: Path) -> None:
    state = example_run.finished(RunFolder(tmp_path / "run"))
    test = state["test"]
    assert test is not None
    verdict = judge(test.model_copy(update={"tuned": None}), "no time")
    assert (verdict.outcome, verdict.stopped_because) == ("nothing accepted", "no time")


def test_a_pipe_in_a_cell_does_not_break_the_table() -> None:
    assert table(["a"], [["x | y"]]).splitlines()[-1] == "| x \\| y |"


def test_what_was_looked_up_is_named_with_its_terms_and_nothing_foreign_works(tmp_path: Path) -> None:
    found = Found(shelf="dataset", id="a/b", title="[x](http://evil) | <b>", licence="mit", url="http://hub/a/b")
    query = Query(shelf="paper", words="spelling", problem="no answer came")
    folder = RunFolder(tmp_path / "run")
    report = example_run.run_report(folder, example_run.finished(folder)).model_copy(
        update={"research": Research(queries=(query,), found=(found,))}
    )
    (text,) = looked_up(report)
    assert "papers: spelling (no answer: no answer came)" in text
    assert "| R1 | dataset a/b, licence mit | \\[x\\](http://evil) \\| \\<b\\> |" in text
    assert looked_up(report.model_copy(update={"research": None})) == []
