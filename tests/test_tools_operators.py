"""Operators: what each keeps, drops and says; the same rows whatever order they come in; nothing is lost unsaid."""

import random
from collections import Counter
from collections.abc import Sequence

import pytest
from pydantic import ValidationError

from memory.errors import TrialError
from memory.records import (
    Augment,
    Deduplicate,
    Filter,
    MapTemplate,
    Mix,
    NearDeduplicate,
    Operator,
    Order,
    Select,
)
from tools.benchmarks.benchmark import Item
from tools.operators import carry_out, conditions
from tools.operators.duplicates import bands, jaccard, shingles
from tools.operators.rows import Kept, Row, item_id


def lucky(n: int) -> Row:
    """A question that is answered Yes three times in four, of a length and difficulty that depend on its number."""
    prompt, answer = f"Is {'very ' * (n % 10)}{n} a lucky number?", "No" if n % 4 == 0 else "Yes"
    columns = {"n": n, "parity": "odd" if n % 2 else "even", "pass_rate": (n % 8) / 8}
    item = Item(id=f"train-{n}", prompt=prompt, answer=answer, columns=columns, reference="{}")
    return Row(item.id, prompt, answer, "lucky", columns, item)


def raw(source: str, rows: int) -> list[Row]:
    """Rows of a raw source, with a column of their own."""
    return [Row(f"{source}:{n}", f"Say {n}.", f"{n}!", source, {"length": n}) for n in range(rows)]


LUCKY = [lucky(n) for n in range(40)]
SOURCES = {"chat": raw("chat", 30), "code": raw("code", 200), "few": raw("few", 3)}


def run(*operators: Operator, rows: Sequence[Row] = LUCKY) -> Kept:
    return carry_out(operators, list(rows), SOURCES)


def failure(*operators: Operator, rows: Sequence[Row] = LUCKY) -> TrialError:
    with pytest.raises(TrialError) as caught:
        run(*operators, rows=rows)
    return caught.value


def ids(kept: Kept) -> list[str]:
    return [row.id for row in kept.rows]


def sources(kept: Kept) -> Counter[str]:
    return Counter(row.source for row in kept.rows)


def near_copies() -> list[Row]:
    """Thirty long texts, each three times with one word changed, and the answer that belongs to it."""
    words = [f"word{n}" for n in range(500)]
    rows = []
    for n in range(30):
        text = random.Random(n).choices(words, k=80)
        for copy in range(3):
            changed = [*text[:40], f"changed{copy}", *text[41:]]
            rows.append(Row(f"{n}-{copy}", " ".join(changed), f"answer number {n}", "web", {}))
    return rows


# --- every operator -------------------------------------------------------------------------------------------------

ROWS_IN: dict[str, tuple[Operator, Sequence[Row]]] = {
    "filter": (Filter(where="n % 3 = 0"), LUCKY),
    "deduplicate": (Deduplicate(), [*LUCKY[:10], *(lucky(n % 5) for n in range(10))]),
    "near_deduplicate": (NearDeduplicate(), near_copies()),
    "select": (Select(rows=11, skip=3), LUCKY),
    "select by answer": (Select(rows=11, balance="answer"), LUCKY),
    "select by length": (Select(rows=11, balance="length"), LUCKY),
    "select by difficulty": (Select(rows=11, balance="difficulty"), [*LUCKY, *raw("lucky", 4)]),
}


@pytest.mark.parametrize("name", ROWS_IN)
def test_what_does_not_stay_is_counted_with_reason_and_operator(name: str) -> None:
    operator, rows = ROWS_IN[name]
    kept = run(operator, rows=rows)
    assert 0 < len(kept.rows) < len(rows)
    assert len(kept.rows) + sum(dropped.rows for dropped in kept.dropped) == len(rows)
    for dropped in kept.dropped:
        assert dropped.reason and dropped.examples
        assert dropped.step == kept.rows[0].steps[-1]


RANKED: dict[str, Operator] = {
    "select": Select(rows=11, skip=2, seed=3),
    "select by answer": Select(rows=11, balance="answer"),
    "select by length": Select(rows=11, balance="length"),
    "select by difficulty": Select(rows=11, balance="difficulty"),
    "order by length": Order(by="length"),
    "order by difficulty": Order(by="difficulty", descending=True),
    "random order": Order(by="random"),
}


@pytest.mark.parametrize("name", RANKED)
def test_selection_and_order_depend_on_the_rows_and_not_on_how_they_come(name: str) -> None:
    shuffled = random.Random(1).sample(LUCKY, len(LUCKY))
    assert ids(run(RANKED[name], rows=shuffled)) == ids(run(RANKED[name])) == ids(run(RANKED[name]))


@pytest.mark.parametrize(
    "operator", [Filter(where="n > 3"), Augment(prompts=("So: {prompt}",)), Mix(source="chat", share=0.2)]
)
def test_variants_and_mixed_rows_come_to_the_same_in_any_order(operator: Operator) -> None:
    shuffled = random.Random(1).sample(LUCKY, len(LUCKY))
    assert sorted(ids(run(operator, rows=shuffled))) == sorted(ids(run(operator)))


def test_every_row_tells_its_way() -> None:
    kept = run(Filter(where="n < 20"), Augment(prompts=("{prompt} Tell me.",)), Mix(source="chat", share=0.1))
    assert Counter(row.steps for row in kept.rows) == {
        ("filter n < 20", "augment by 1 of 1 templates"): 20,
        ("filter n < 20", "augment by 1 of 1 templates: '{prompt} Tell me.'"): 20,
        ("mix 10% of chat (4 of 4 wanted rows)",): 4,
    }


def test_an_operator_that_leaves_nothing_is_named() -> None:
    error = failure(Select(rows=5), Filter(where="n > 100"), Deduplicate())
    assert error.kind == "DATA"
    assert error.message == "no row is left after: filter n > 100 (5 rows before)"


# --- conditions and templates ---------------------------------------------------------------------------------------


def test_a_filter_sees_texts_lengths_and_columns() -> None:
    kept = run(Filter(where="answer = 'Yes' AND n < 6 AND parity = 'odd' AND prompt_chars > 5"))
    assert ids(kept) == ["train-1", "train-3", "train-5"]
    (dropped,) = kept.dropped
    assert dropped.rows == 37
    assert dropped.examples[0] == "train-0: Is 0 a lucky number? -> No"


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("lenght > 3", 'Referenced column "lenght" not found'),
        ("n >", "syntax error"),
        ("n = 1); DROP TABLE training_rows; SELECT (1 = 1", 'syntax error at or near ")"'),
        ("n = 1) UNION ALL SELECT 7 WHERE (true", 'syntax error at or near ")"'),
        ("n > 3 ORDER BY n", "it holds a modifier"),
        ("EXISTS (FROM '/etc/passwd')", "does not exist"),
        ("(SELECT count(*) FROM glob('/etc/*')) > 0", "disabled by configuration"),
        ("true; ATTACH '/tmp/x.db'", "more than one statement"),
        ("COPY training_rows TO '/tmp/x.csv'", "syntax error"),
        ("getenv('HOME') = 'x'", "getenv"),
        ("EXISTS (SELECT * FROM read_text('/etc/hostname'))", "file system operations are disabled"),
        ("EXISTS (SELECT * FROM read_csv('http://localhost/x.csv'))", "disabled by configuration"),
        ("EXISTS (SELECT * FROM rows)", "Table with name rows does not exist"),
        ("parity", "Could not convert string"),
    ],
)
def test_a_bad_filter_fails_the_trial_with_duckdbs_words(where: str, says: str) -> None:
    error = failure(Filter(where=where))
    assert error.kind == "CONFIG"
    assert says in error.message
    assert "\n" not in error.message


def test_an_endless_filter_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditions, "FILTER_SECONDS", 0.2)
    error = failure(Filter(where="(SELECT count(*) FROM range(1000000000000)) > n"))
    assert "Interrupted" in error.message


def test_a_filter_over_a_column_that_only_some_rows_have_keeps_those_it_is_true_for() -> None:
    kept = run(Mix(source="chat", share=0.2), Filter(where="n < 3 OR length >= 0"))
    assert sources(kept) == {"lucky": 3, "chat": 10}


def test_a_template_rewrites_prompt_and_answer() -> None:
    (row,) = run(
        Filter(where="n = 7"), MapTemplate(prompt="{n} ({parity})\nAnswer {{Yes}} or {{No}}.", answer="{answer}, {n}")
    ).rows
    assert (row.prompt, row.answer) == ("7 (odd)\nAnswer {Yes} or {No}.", "Yes, 7")


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{promt}", "names 'promt', which row train-0 of lucky lacks"),
        ("{prompt.__class__}", "names 'prompt.__class__'"),
        ("{prompt!r}", "formats 'prompt'"),
        ("{n:>99999999}", "formats 'n'"),
        ("{}", "names ''"),
        ("{prompt", "expected '}'"),
    ],
)
def test_a_template_names_columns_and_nothing_else(template: str, says: str) -> None:
    for operator in (MapTemplate(prompt=template), Augment(prompts=(template,))):
        error = failure(operator)
        assert error.kind == "CONFIG"
        assert says in error.message


def test_variants_stand_behind_their_row_with_its_answer_and_a_traceable_id() -> None:
    operator = Augment(prompts=("{prompt} Think.", "Number {n}: {prompt}", "{prompt} Yes or no?"), copies=2)
    kept = run(operator)
    assert len(kept.rows) == 3 * len(LUCKY)
    for place, row in enumerate(LUCKY):
        own, first, second = kept.rows[3 * place : 3 * place + 3]
        assert (own.id, own.prompt) == (row.id, row.prompt)
        assert (first.id, second.id) == (f"{row.id}~1", f"{row.id}~2")
        assert {item_id(first.id), item_id(second.id)} == {row.id}
        assert len({own.prompt, first.prompt, second.prompt}) == 3
        assert row.prompt in first.prompt and row.prompt in second.prompt
        assert first.answer == second.answer == row.answer
    used = Counter(row.steps[-1] for row in kept.rows if "~" in row.id)
    assert len(used) == 3
    assert min(used.values()) > 15


def test_a_variant_that_changes_nothing_is_dropped_and_raw_rows_have_none() -> None:
    kept = run(Mix(source="chat", share=0.2), Augment(prompts=("{prompt}", " {prompt}  "), copies=2))
    assert sources(kept) == {"lucky": 40, "chat": 10}
    (dropped,) = kept.dropped
    assert (dropped.rows, dropped.reason) == (80, "a variant that asks what an earlier one asks")


def test_more_copies_than_templates_are_refused() -> None:
    with pytest.raises(ValidationError, match="2 copies need as many prompts, not 1"):
        Augment(prompts=("{prompt}",), copies=2)


# --- duplicates -----------------------------------------------------------------------------------------------------


def test_duplicates_fold_case_and_white_space() -> None:
    same = Filter(where="n IN (1, 2, 3, 4)"), MapTemplate(prompt="Lucky?", answer="{answer}")
    kept = run(*same, Deduplicate())
    assert [(row.id, row.answer) for row in kept.rows] == [("train-1", "Yes"), ("train-4", "No")]
    assert kept.dropped[-1].rows == 2


def test_of_near_copies_the_first_stays() -> None:
    kept = run(NearDeduplicate())
    rows = near_copies()
    assert jaccard(shingles(rows[0].prompt), shingles(rows[1].prompt)) == pytest.approx(71 / 81)
    assert ids(run(NearDeduplicate(), rows=rows)) == [f"{n}-0" for n in range(30)]
    assert len(run(NearDeduplicate(threshold=0.9), rows=rows).rows) == 90
    other_answers = [Row(row.id, row.prompt, row.id, row.source, {}) for row in rows]
    assert len(run(NearDeduplicate(), rows=other_answers).rows) == 90
    assert kept.rows


def test_short_texts_are_compared_by_characters() -> None:
    def rows(*prompts: str) -> list[Row]:
        return [Row(str(n), prompt, "Blue", "web", {}) for n, prompt in enumerate(prompts)]

    pair = rows(
        "What is the colour of the sky on a clear day in June?", "What is the color of the sky on a clear day in June?"
    )
    assert ids(run(NearDeduplicate(), rows=pair)) == ["0"]
    assert len(run(NearDeduplicate(), rows=rows("Spell cat.", "Spell dog.")).rows) == 2
    assert len(run(NearDeduplicate(), rows=rows("17", "71", "日本の首都はどこですか", "")).rows) == 4


def test_a_pair_at_the_threshold_is_found_with_the_promised_chance() -> None:
    for threshold in (0.5, 0.7, 0.8, 0.9, 1.0):
        count, length = bands(threshold)
        assert 1 - (1 - threshold**length) ** count >= 0.999
        assert count >= 2


def test_questions_of_one_template_bring_a_warning() -> None:
    template = "A farmer has {} cows on the large green meadow behind the old house. How many does the farmer have?"
    rows = [Row(str(n), template.format(n), "Many", "farm", {}) for n in range(150)]
    kept = run(NearDeduplicate(), rows=rows)
    assert len(kept.rows) < 75
    assert "questions made from one template look alike" in kept.notes[0]
    assert run(NearDeduplicate(), rows=near_copies()[:2]).notes == ()


# --- mixing ---------------------------------------------------------------------------------------------------------


def test_a_mix_makes_up_its_share() -> None:
    kept = run(Select(rows=20), Mix(source="chat", share=0.2))
    assert sources(kept) == {"lucky": 20, "chat": 5}
    assert kept.notes == ()
    assert kept.rows[-1].steps == ("mix 20% of chat (5 of 5 wanted rows)",)
    assert set(ids(kept)) < set(ids(run(Select(rows=20), Mix(source="chat", share=0.4))))


@pytest.mark.parametrize(
    "operators",
    [
        (Mix(source="chat", share=0.2), Mix(source="code", share=0.3)),
        (Mix(source="chat", share=0.2), Deduplicate(), Mix(source="code", share=0.3)),
        (Mix(source="code", share=0.3), Select(rows=40), Mix(source="chat", share=0.2)),
        (Mix(source="chat", share=0.2), Mix(source="code", share=0.3), Select(rows=20)),
        (Mix(source="chat", share=0.2), Mix(source="code", share=0.3), Select(rows=20, skip=20, balance="answer")),
        (Select(rows=20), Mix(source="code", share=0.3), Mix(source="chat", share=0.2), Order(by="random")),
    ],
)
def test_several_mixes_each_make_up_their_share_of_the_result(operators: tuple[Operator, ...]) -> None:
    kept = run(*operators)
    total = len(kept.rows)
    for source, share in (("lucky", 0.5), ("chat", 0.2), ("code", 0.3)):
        assert sources(kept)[source] == pytest.approx(share * total, abs=1)
    assert kept.notes == ()


def test_any_number_of_selected_rows_holds_the_shares() -> None:
    mixes = Mix(source="chat", share=0.2), Mix(source="code", share=0.3)
    longest = ids(run(*mixes, Select(rows=70)))
    for rows in range(1, 70):
        kept = run(*mixes, Select(rows=rows))
        assert ids(kept) == longest[:rows]
        assert sources(kept)["code"] == pytest.approx(0.3 * rows, abs=1)


def test_a_selection_has_its_share_of_a_source_that_is_too_small_for_all_rows() -> None:
    kept = run(Mix(source="few", share=0.3), Select(rows=10))
    assert sources(kept) == {"lucky": 7, "few": 3}
    assert kept.notes == ()


def test_a_source_with_too_few_rows_and_a_share_that_was_changed_later_are_told() -> None:
    assert run(Mix(source="few", share=0.5)).notes == ("few makes up 7.0% of the rows, not 50.0%: it has only 3 rows",)
    later = run(Mix(source="chat", share=0.2), Filter(where="source = 'chat' OR n < 10"))
    assert later.notes == ("chat makes up 50.0% of the rows, not 20.0%: later operators dropped or added rows",)


@pytest.mark.parametrize(
    ("operators", "says"),
    [
        (
            (Mix(source="chatt", share=0.2),),
            "mix names 'chatt', which is no raw source. Raw sources of this task: chat, ",
        ),
        ((Mix(source="chat", share=0.6), Mix(source="code", share=0.4)), "the mixes take 100% of the result"),
        ((Mix(source="chat", share=0.2), Mix(source="chat", share=0.2)), "two mixes name 'chat'"),
    ],
)
def test_mixes_that_cannot_be_had_are_refused(operators: tuple[Operator, ...], says: str) -> None:
    error = failure(*operators)
    assert error.kind == "CONFIG"
    assert says in str(error)


# --- selection and order --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("balance", ["none", "answer", "length", "difficulty"])
def test_more_rows_contain_fewer_rows_and_what_is_skipped_was_before(balance: str) -> None:
    def chosen(rows: int, seed: int = 0, skip: int = 0) -> list[str]:
        return ids(run(Select.model_validate({"rows": rows, "balance": balance, "seed": seed, "skip": skip})))

    assert chosen(20)[:10] == chosen(10)
    assert chosen(20)[10:] == chosen(10, skip=10)
    assert chosen(10, seed=1) != chosen(10)
    assert len(chosen(500)) == 40


def test_a_balanced_selection_has_equally_many_of_each_answer_as_far_as_they_last() -> None:
    for rows, shares in ((16, {"Yes": 8, "No": 8}), (30, {"Yes": 20, "No": 10})):
        assert Counter(row.answer for row in run(Select(rows=rows, balance="answer")).rows) == shares


def test_a_selection_balanced_by_length_has_as_many_long_prompts_as_short_ones() -> None:
    rows = [Row(str(n), "x" * (1 if n < 80 else 50 if n < 90 else 100), "a", "lucky", {}) for n in range(100)]
    kept = run(Select(rows=30, balance="length"), rows=rows)
    assert Counter(len(row.prompt) for row in kept.rows) == {1: 10, 50: 10, 100: 10}
    assert len(run(Select(rows=3, balance="length"), rows=rows[:5]).rows) == 3


def test_a_selection_balanced_by_difficulty_goes_by_measured_pass_rates() -> None:
    kept = run(Select(rows=30, balance="difficulty"), rows=[*LUCKY, *raw("lucky", 5)])
    rates = [row.pass_rate or 0.0 for row in kept.rows]
    assert [sum(low <= rate < high for rate in rates) for low, high in ((0, 1 / 3), (1 / 3, 0.67), (0.67, 2))] == [
        10,
        10,
        10,
    ]
    assert kept.dropped[0].reason == "without a pass rate"
    assert kept.dropped[0].rows == 5
    error = failure(Select(rows=3, balance="difficulty"), rows=raw("lucky", 5))
    assert (error.kind, error.way_out) == ("CONFIG", "Put pass_rate or self_distil before it.")


def test_a_curriculum_goes_from_short_to_long_and_from_easy_to_hard() -> None:
    lengths = [len(row.prompt) + len(row.answer) for row in run(Order(by="length")).rows]
    assert lengths == sorted(lengths)
    rows = [*LUCKY, *raw("lucky", 5)]
    easy_first = run(Order(by="difficulty"), rows=rows).rows
    hard_first = run(Order(by="difficulty", descending=True), rows=rows).rows
    assert [row.pass_rate for row in easy_first[:-5]] == sorted((row.pass_rate for row in LUCKY), reverse=True)
    assert [row.pass_rate for row in hard_first[:-5]] == sorted(row.pass_rate for row in LUCKY)
    assert {row.pass_rate for row in (*easy_first[-5:], *hard_first[-5:])} == {None}
    assert ids(run(Order(by="random"))) != ids(run(Order(by="random", seed=1)))
    assert run(Order(by="random")).dropped == ()


def test_an_order_that_a_select_would_undo_is_refused() -> None:
    error = failure(Order(by="length"), Select(rows=5))
    assert (error.kind, error.message) == ("CONFIG", "a select undoes: order by length, seed 0")
    assert failure(Order(by="difficulty"), rows=raw("lucky", 5)).kind == "CONFIG"
