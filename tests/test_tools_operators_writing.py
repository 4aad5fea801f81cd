"""Rows that language models write, rewrite and judge: what stays, what it costs, and that a few rows go first."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memory.errors import TrialError
from memory.records import Filter, Judge, Operator, Rewrite, Synthesise
from tests.data_steps import SPELLING, Heard, asked, items, part, rows, says, workroom
from tests.scripted_llm import Answer, playing
from tools.decontamination import fingerprints
from tools.operators import carry_out
from tools.operators.rows import Kept, Row, Workroom

ROWS = rows(30)
GOLD = {row.prompt: row.answer for row in ROWS}


def run(work: Workroom | None, *operators: Operator, given: list[Row] = ROWS) -> Kept:
    return carry_out(operators, list(given), {}, None, work)


def failure(work: Workroom | None, *operators: Operator, given: list[Row] = ROWS) -> TrialError:
    with pytest.raises(TrialError) as caught:
        run(work, *operators, given=given)
    return caught.value


def reasons(kept: Kept) -> dict[str, int]:
    return {each.reason: each.rows for each in kept.dropped}


def shown(body: dict[str, Any]) -> Row:
    """The training row that a request shows."""
    text = body["messages"][0]["content"]
    (found,) = [row for row in ROWS if f"\n{row.prompt}\n" in text or f"prompt: {row.prompt}\n" in text]
    return found


# --- synthesise -------------------------------------------------------------------------------------------------------


def new_rows(body: dict[str, Any]) -> Answer:
    """Five rows: three new ones, a training question, and one that every part repeats."""
    mine = [{"prompt": f"Spell the word number {part(body)}-{n} backward", "answer": f"n{n}"} for n in range(3)]
    again = [{"prompt": ROWS[0].prompt.upper(), "answer": "x"}, {"prompt": "the same in each part", "answer": "y"}]
    return says({"rows": [*mine, *again]})


def test_new_rows_stand_behind_the_old_with_model_prompt_and_what_it_was_shown(tmp_path: Path) -> None:
    with playing(new_rows) as (url, script):
        kept = run(workroom(tmp_path, url), Synthesise(prompt="longer words", rows=20, shots=3))
    assert kept.rows[:30] == ROWS
    new = kept.rows[30:]
    assert len(new) == 4 * 3 + 1
    assert reasons(kept) == {"asks what another row asks": 4 + 3}
    assert {row.source for row in new} == {"synthesised"}
    assert {row.answered_by for row in new} == {"writer"}
    assert len({row.id for row in new}) == len(new)
    match = re.fullmatch(r"written by clever, prompt [0-9a-f]{12}, shown (train-\d+, ){2}train-\d+", new[0].origin)
    assert match, new[0].origin
    told = {row.id: row for row in ROWS}
    for name in re.findall(r"train-\d+", new[0].origin):
        assert f"prompt: {told[name].prompt}\nanswer: {told[name].answer}" in asked(script)[0]
    assert new[0].steps[0].startswith("synthesise 20 rows by the strong model, each 3 shown, seed 0 (clever, prompt ")
    assert all("longer words" in text for text in asked(script))
    assert len(set(asked(script))) == 4


def test_a_model_that_copies_its_examples_is_found_out_in_the_rehearsal(tmp_path: Path) -> None:
    copied = says({"rows": [{"prompt": ROWS[0].prompt, "answer": ROWS[0].answer}]})
    with playing(copied) as (url, script):
        error = failure(workroom(tmp_path, url), Synthesise(prompt="more", rows=500))
    assert error.kind == "DATA"
    assert "no row came out of it: rehearsal of synthesise 500 rows" in error.message
    assert "20 rows in, 0 out" in error.message
    assert len(script.asked) == 4


def test_what_a_model_writes_of_held_out_text_is_dropped_before_anybody_reads_it(tmp_path: Path) -> None:
    held = items(60)[45]

    def leak(body: dict[str, Any]) -> Answer:
        if "rubric" in body["messages"][0]["content"].casefold():
            return says({"reason": "good", "score": 5})
        return says({"rows": [{"prompt": held.prompt, "answer": held.answer}, {"prompt": "fine", "answer": "enif"}]})

    prints = fingerprints("test", [(held.id, held.prompt)])
    with playing(leak) as (url, script):
        work = replace(workroom(tmp_path, url), held_out=[prints])
        kept = run(work, Synthesise(prompt="more", rows=5), Judge(rubric="good?"))
    assert [row.prompt for row in kept.rows[30:]] == ["fine"]
    assert any("test" in reason for reason in reasons(kept))
    assert not [text for text in asked(script) if held.prompt in text]


def test_examples_are_rows_of_the_training_split_alone(tmp_path: Path) -> None:
    other = Row("web:1", "a raw row", "of another source", "web", {})
    with playing(new_rows) as (url, script):
        run(workroom(tmp_path, url), Synthesise(prompt="more", rows=40, shots=20), given=[other, *ROWS])
        assert not [text for text in asked(script) if "a raw row" in text]
        error = failure(workroom(tmp_path, url), Synthesise(prompt="more", rows=5), given=[other])
    assert error.kind == "DATA"
    assert "no row of the benchmark is there to be shown" in error.message


def test_fewer_examples_where_they_do_not_fit_the_window(tmp_path: Path) -> None:
    with playing(new_rows) as (url, script):
        work = workroom(tmp_path, url)
        assert work.writers is not None
        small = replace(work.writers.pools["strong"], prompt_tokens=900)
        writers = replace(work.writers, pools={"strong": small, "weak": small})
        kept = run(replace(work, writers=writers), Synthesise(prompt="more", rows=5, shots=20))
    assert len(asked(script)[0]) <= small.prompt_chars
    assert 1 < len(re.findall(r"train-\d+", kept.rows[-1].origin)) < 20


# --- judge ------------------------------------------------------------------------------------------------------------


def by_length(body: dict[str, Any]) -> Answer:
    """Long words are better."""
    return says({"reason": "its length", "score": min(5, max(1, len(shown(body).answer) - 2))})


def test_rows_under_the_threshold_go_and_each_score_is_counted(tmp_path: Path) -> None:
    with playing(by_length) as (url, script):
        kept = run(workroom(tmp_path, url), Judge(rubric="a long word", least=3))
    scores = Counter(min(5, max(1, len(row.answer) - 2)) for row in ROWS)
    assert [row.id for row in kept.rows] == [row.id for row in ROWS if len(row.answer) >= 5]
    assert reasons(kept) == {f"scored {n} of 5": scores[n] for n in (1, 2) if scores[n]}
    assert f"{scores[3]} rows scored 3" in kept.notes[0]
    assert {body["model"] for body in script.asked} == {"quick"}
    with playing(by_length) as (url, _):
        again = run(workroom(tmp_path / "b", url), Judge(rubric="a long word", least=2), Filter(where="judged >= 4"))
    assert len(again.rows) == sum(scores[n] for n in (4, 5))


def test_a_row_that_was_judged_is_not_paid_for_again_in_whatever_company(tmp_path: Path) -> None:
    heard = Heard()
    with playing(by_length) as (url, script):
        run(workroom(tmp_path, url), Judge(rubric="a long word", least=2), given=ROWS[:25])
        assert len(script.asked) == 25
        kept = run(workroom(tmp_path, url, heard=heard), Judge(rubric="a long word", least=2))
        assert len(script.asked) == 30
        assert (heard.rehearsals[0].rows, heard.rehearsals[0].whole_rows) == (5, 5)
        last = run(workroom(tmp_path, url), Judge(rubric="a long word", least=2))
    assert last.rehearsals == ()
    assert last.rows == kept.rows
    assert len(script.asked) == 30
    assert 1 < script.most_at_once <= 8


# --- rewrite ----------------------------------------------------------------------------------------------------------


def reasoned(body: dict[str, Any]) -> Answer:
    """The letters, then the answer; a wrong one for every third row."""
    row = shown(body)
    wrong = int(row.id.removeprefix("train-")) % 3 == 0
    return says({"answer": "xyz" if wrong else f" {row.answer} "})


def test_a_rewritten_answer_stays_only_where_the_scorer_accepts_it(tmp_path: Path) -> None:
    raw = Row("web:1", "hello", "there", "web", {})
    with playing(reasoned) as (url, script):
        kept = run(workroom(tmp_path, url), Rewrite(prompt="letter by letter"), given=[raw, *ROWS])
    assert kept.rows[0] == raw
    assert [row.id for row in kept.rows[1:]] == [row.id for n, row in enumerate(ROWS) if n % 3]
    assert reasons(kept) == {"the scorer does not accept the answer to the row": 10}
    for row in kept.rows[1:]:
        assert row.item is not None
        assert SPELLING.grade(row.answer, row.item).score == 1
        assert (row.answered_by, row.origin) == ("model", "answer rewritten by clever")
    assert all(str(SPELLING.max_new_tokens) in text for text in asked(script))


def test_a_rewritten_question_stays_only_where_the_model_answers_it_like_the_gold_it_has_not_seen(
    tmp_path: Path,
) -> None:
    def reworded(body: dict[str, Any]) -> Answer:
        row = shown(body)
        assert f"{row.answer}\n" not in body["messages"][0]["content"].replace(row.prompt, "")
        right = int(row.id.removeprefix("train-")) % 2
        return says({"question": f"Please. {row.prompt}", "answer": row.answer if right else "xyz"})

    with playing(reworded) as (url, _):
        kept = run(workroom(tmp_path, url), Rewrite(prompt="politely", field="prompt"))
    assert len(kept.rows) == 15
    for row in kept.rows:
        assert row.prompt.startswith("Please. ")
        assert row.answer == GOLD[row.prompt.removeprefix("Please. ")]
    assert reasons(kept) == {"the scorer does not accept the answer to the new question": 15}


# --- a few rows first -------------------------------------------------------------------------------------------------


def test_the_rehearsal_says_what_the_whole_would_cost(tmp_path: Path) -> None:
    heard = Heard()
    with playing(by_length) as (url, _):
        kept = run(workroom(tmp_path, url, heard=heard), Judge(rubric="a long word", least=2, model="strong"))
    (rehearsal,) = heard.rehearsals
    assert kept.rehearsals == (rehearsal,)
    assert (rehearsal.rows, rehearsal.calls, rehearsal.failed, rehearsal.whole_rows) == (20, 20, 0, 30)
    assert rehearsal.dollars == pytest.approx(20 * (1000 * 1 + 100 * 10) / 1e6)
    assert rehearsal.whole_dollars == pytest.approx(30 * 0.002)
    assert rehearsal.whole_seconds >= rehearsal.seconds
    assert "20 rows in" in rehearsal.says
    assert "all 30 take" in rehearsal.says
    assert "$0.0600 at that rate" in rehearsal.says
    assert heard.progress[-1][1:] == (30, 30)


def test_a_whole_that_would_break_the_cap_is_not_begun(tmp_path: Path) -> None:
    heard = Heard()
    with playing(by_length) as (url, script):
        work = workroom(tmp_path, url, budget_usd=0.055, heard=heard)
        error = failure(work, Judge(rubric="a long word", model="strong"))
    assert error.kind == "BUDGET"
    assert "$0.0150 are left, and a call has to be able to cost" in error.message
    assert len(script.asked) == 20
    assert len(heard.rehearsals) == 1


def test_a_whole_that_would_take_too_long_is_not_begun(tmp_path: Path) -> None:
    def slow(body: dict[str, Any]) -> Answer:
        return {**by_length(body), "delay_s": 0.2}

    with playing(slow) as (url, script):
        error = failure(workroom(tmp_path, url, seconds=0.01), Judge(rubric="a long word"))
    assert error.kind == "BUDGET"
    assert "0 s are left for data" in error.message
    assert len(script.asked) == 20


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"text": "I would rather not."}, "too many calls failed: .* 20 of 20 calls failed .*train-0: quick gave no"),
        (says({"reason": "bad", "score": 1}), "no row came out of it: rehearsal of judge"),
    ],
)
def test_a_rehearsal_that_fails_ends_the_step(tmp_path: Path, answer: Answer, why: str) -> None:
    with playing(answer) as (url, script):
        error = failure(workroom(tmp_path, url), Judge(rubric="a long word"))
    assert error.kind == "DATA"
    assert re.search(why, error.message), error.message
    assert len(script.asked) in (20, 40)


def test_a_few_answers_of_no_use_are_rows_dropped_with_their_names(tmp_path: Path) -> None:
    def mumbling(body: dict[str, Any]) -> Answer:
        return {"text": "hm"} if shown(body).id in ("train-3", "train-7") else says({"reason": "good", "score": 5})

    with playing(mumbling) as (url, _):
        kept = run(workroom(tmp_path, url), Judge(rubric="a long word"))
    assert len(kept.rows) == 28
    (dropped,) = kept.dropped
    assert (dropped.reason, dropped.rows) == ("quick gave no usable answer", 2)
    assert dropped.examples[0].startswith("train-3: quick gave no usable answer twice")
    assert dropped.step.startswith("judge by the weak model, at least 4 of 5")


def test_a_server_that_refuses_is_a_failure_of_the_machine_and_a_run_without_models_says_so(tmp_path: Path) -> None:
    with playing({"status": 401, "error": "no such key"}) as (url, _):
        assert failure(workroom(tmp_path, url), Judge(rubric="good")).kind == "ENV"
    for operator in (Judge(rubric="good"), Rewrite(prompt="better"), Synthesise(prompt="more", rows=5)):
        error = failure(workroom(tmp_path), operator)
        assert (error.kind, "this run has no language model" in error.message) == ("CONFIG", True)
        assert failure(None, operator).kind == "CONFIG"


def test_where_money_is_short_fewer_calls_are_on_their_way(tmp_path: Path) -> None:
    with playing(by_length) as (url, script):
        # A call can cost about $0.011 and costs $0.002: all fit one after the other, and eight at once do not.
        run(workroom(tmp_path, url, budget_usd=0.08), Judge(rubric="a long word", least=2, model="strong"))
    assert len(script.asked) == 30
    assert script.most_at_once < 8
