"""The verdict on a run: arithmetic on the sealed test, a loss said as plainly as a win."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from memory.layout import RunFolder, read_rows
from memory.records import Blame, Cause, Comparison, ConstantAnswer, Found, Outcome, Query, Research, Score, SealedTest
from tests import example_run
from tools.benchmarks.measures import Mean
from tools.causes.attribution import attributed
from tools.estimates import compared_files, written
from tools.report import RunReport, examples, judge
from tools.report_text import looked_up, markdown, table


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


def explained(folder: RunFolder) -> RunReport:
    """The report of a run of three trials, with what each change did and what is to blame in the third."""
    state = example_run.finished(folder)
    baseline = state["baseline"]
    assert baseline is not None

    def compare(ours: Sequence[Score], theirs: Sequence[Score], against: str) -> Comparison:
        left, right = (tuple(written(folder.resolve(one.outcomes)) for one in side) for side in (ours, theirs))
        return compared_files(Mean("exact"), left, right, against)

    cause = Cause(
        name="no answer", blamed="format", says="1 of 4 outputs (25%) hold no answer.", figure=0.25, threshold=0.05,
        reason="2 to 5 % is what practice bears", share=0.25, examples=("item-3",),
    )  # fmt: skip
    third = state["trials"][2].model_copy(update={"blame": Blame(to="format", says=cause.says, causes=(cause,))})
    assert third.score is not None
    outcomes = list(read_rows(folder.resolve(third.score.outcomes), Outcome))
    told = {
        "trials": (*state["trials"][:2], third),
        "attribution": attributed(state["trials"], baseline, compare),
        "examples": examples(third, outcomes),
    }
    return example_run.run_report(folder, state).model_copy(update=told)


def test_the_report_says_what_each_change_did_what_was_expected_and_what_is_still_wrong(tmp_path: Path) -> None:
    report = explained(RunFolder(tmp_path / "run"))
    text = markdown(report)
    row = next(line for line in text.splitlines() if line.startswith("| learning_rate |"))
    assert "| 0.001 → 0.003 | +0.000 |" in row
    assert "| 1 → 3 | within noise; one comparison, one seed |" in row
    assert "| trial 3 | search | +0.100 | +0.250 |" in text
    assert "| search | 2, too few to judge by | " in text
    assert "- To blame: format. 1 of 4 outputs (25%) hold no answer." in text
    assert "| trial 3 | format: no answer | 1 of 4 outputs (25%) hold no answer. | 25% of outputs | 0.05, as" in text
    assert "| item-3 | no answer | Question 3? |" in text
    assert RunReport.model_validate_json(report.model_dump_json()) == report


def test_a_run_without_anything_to_explain_has_no_such_sections(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    text = markdown(example_run.run_report(folder, example_run.finished(folder)))
    for title in ("What each change did", "What was expected", "What is still wrong"):
        assert title not in text


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
