"""What is odd about a person's rows is named with counts and places; what cannot be right is refused."""

from pathlib import Path
from typing import Any

import pytest

from memory.errors import InputError
from tests.own_tasks import labelled, prompts, questions, said, splits_of, task_of, write_rows
from tools.benchmarks.benchmark import Item
from tools.lengths import room_for, row_tokens, shots_that_fit, tokens_of
from tools.own_task.survey import load, looks_misread


def everything(folder: Path, rows: list[dict[str, Any]], **keys: Any) -> dict[str, str]:
    """All usable questions with their answers."""
    splits = splits_of(folder, rows, **keys)
    return {item.prompt: item.answer for items in splits.items.values() for item in items}


def test_rows_without_question_or_answer_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = questions(40)
    rows[4]["question"], rows[5]["answer"], rows[9]["answer"] = " \n", "", None
    splits = splits_of(tmp_path, rows)
    assert said(splits, "empty") == [
        "1 row with an empty question: left out (data.jsonl row 5)",
        "2 rows with an empty answer: left out (data.jsonl rows 6, 10)",
    ]
    assert splits.findings.usable == 37
    assert splits.findings.rows == 40


def test_a_column_that_is_mostly_empty_is_the_wrong_one(tmp_path: Path) -> None:
    rows = questions(40)
    for row in rows[3:]:
        row["answer"] = ""
    with pytest.raises(InputError, match=r"the answer is empty in 37 of 40 rows .*Name another column"):
        task_of(tmp_path, rows)


def test_repeated_rows_are_kept_once(tmp_path: Path) -> None:
    rows = [*questions(40), {"question": " what  is item 3", "answer": "Thing 3."}, questions(1)[0]]
    splits = splits_of(tmp_path, rows)
    (line,) = said(splits, "duplicate")
    assert line.startswith("2 rows repeating an earlier row, question and answer: left out (data.jsonl rows ")
    assert {line[-9:-1]} <= {"s 41, 42", "s 42, 41"}
    assert splits.findings.usable == 40


def test_the_more_frequent_answer_to_a_question_wins_and_the_others_are_named(tmp_path: Path) -> None:
    rows = labelled(yes=30, no=30)
    rows += [{"question": "Which?", "answer": answer} for answer in ("no", "yes", "yes")]
    rows += [{"question": "What?", "answer": answer} for answer in ("no", "yes")]
    kept = everything(tmp_path, rows)
    assert (kept["Which?"], kept["What?"]) == ("yes", "no")
    (line,) = said(splits_of(tmp_path, rows), "conflict")
    assert "2 rows answering a question otherwise" in line
    assert "(row 61 with 'no', row 62 with 'yes')" in line
    assert "data.jsonl rows 61, 65" in line


def test_no_finding_quotes_a_question_which_may_be_in_the_sealed_test(tmp_path: Path) -> None:
    rows = [*labelled(yes=30, no=30), *({**row, "answer": "no"} for row in labelled(yes=30))]
    splits = splits_of(tmp_path, rows)
    text = splits.findings.model_dump_json()
    assert said(splits, "conflict")
    assert not any(prompt in text for prompt in prompts(splits, "test"))


def test_labels_in_two_spellings_become_one(tmp_path: Path) -> None:
    rows = labelled(spam=30, ham=30)
    for row, spelling in zip(rows, ("Spam", "spam ", "spam."), strict=False):
        row["answer"] = spelling
    splits = splits_of(tmp_path, rows)
    assert set(everything(tmp_path, rows).values()) == {"spam", "ham"}
    (line,) = said(splits, "spelling")
    assert "one answer in several spellings: 'spam' in 27 rows" in line
    assert "'spam ' in 1 row" in line
    assert "all are read as 'spam' (data.jsonl rows 1, 2, 3)" in line


def test_spellings_that_the_metric_tells_apart_stay_apart(tmp_path: Path) -> None:
    rows = [*labelled(US=20, us=20)]
    for place, row in enumerate(rows):
        row["question"] = f"Question {place}?"
    metric = {"kind": "exact_match", "ignore_case": False}
    assert set(everything(tmp_path, rows, metric=metric).values()) == {"US", "us"}
    assert set(everything(tmp_path, rows).values()) == {"US"}
    assert set(everything(tmp_path, rows, answers=("US", "us")).values()) == {"US", "us"}


def test_an_answer_that_the_task_does_not_list_is_refused(tmp_path: Path) -> None:
    rows = labelled(yes=20, no=20)
    rows[33]["answer"] = "nope"
    with pytest.raises(
        InputError, match=r"data.jsonl row 34: 'nope' is none of the answers 'yes', 'no'. Correct the row"
    ):
        task_of(tmp_path, rows, answers=("yes", "no"))


def test_a_class_with_one_row_is_named_and_stays_in_training(tmp_path: Path) -> None:
    rows = labelled(yes=30, no=30, perhaps=1)
    splits = splits_of(tmp_path, rows)
    assert said(splits, "single") == [
        "1 answer with a single row ('perhaps'): too few to be learnt and tested. Add rows, or leave these out "
        "(data.jsonl row 61)"
    ]
    assert "perhaps" in {item.answer for item in splits.items["train"]}


def test_rows_too_long_for_the_server_are_left_out(tmp_path: Path) -> None:
    rows = [*questions(40), {"question": "word " * 1400, "answer": "x"}, {"question": "字" * 2100, "answer": "x"}]
    rows.append({"question": "A text?", "answer": "word " * 600})
    splits = splits_of(tmp_path, rows)
    (line,) = said(splits, "long")
    assert "3 rows too long for the 2,048 tokens" in line
    assert "the longest has 6,999 signs" in line or "the longest has 7,000 signs" in line
    assert "(data.jsonl rows 41, 42, 43)" in line
    assert splits.findings.usable == 40


def test_the_room_for_answers_is_taken_from_the_room_for_prompts(tmp_path: Path) -> None:
    rows = [*questions(40), {"question": "word " * 1000, "answer": "x"}]
    assert splits_of(tmp_path, rows, max_new_tokens=20).findings.usable == 41
    assert splits_of(tmp_path, rows, max_new_tokens=800).findings.usable == 40
    assert "up to 800, see max_new_tokens" in said(splits_of(tmp_path, rows, max_new_tokens=800), "long")[0]
    assert task_of(tmp_path, [*questions(40), {"question": "Long?", "answer": "word " * 600}]).max_new_tokens < 20


def test_worked_examples_are_shown_as_far_as_they_fit() -> None:
    def item(words: int) -> Item:
        return Item(id=f"{words}", prompt="word " * words, answer="x", reference="{}")

    short, long = [item(20)] * 9, [item(400)] * 9
    assert shots_that_fit(5, short, short, 20) == 5
    assert shots_that_fit(5, short, short[:3], 20) == 3
    assert shots_that_fit(5, long, long, 20) == 2
    assert shots_that_fit(5, [*short, item(1200)], long, 20) == 0


def test_a_broken_encoding_is_named_and_kept(tmp_path: Path) -> None:
    rows = questions(40)
    rows[2]["question"], rows[3]["answer"] = "Where is the cafÃ©?", "gr\ufffdn"
    splits = splits_of(tmp_path, rows)
    (line,) = said(splits, "encoding")
    assert "2 rows with a broken encoding" in line
    assert "(data.jsonl rows 3, 4)" in line
    assert splits.findings.usable == 40


@pytest.mark.parametrize("text", ["naïve café", "SÃO PAULO", "Ångström", "“quoted”", "Â «»", "日本語", "Привет"])
def test_foreign_text_is_no_broken_encoding(text: str) -> None:
    assert not looks_misread(text)
    assert looks_misread(text.encode().decode("cp1252", errors="replace")) == (not text.isascii())


def test_a_gold_that_the_metric_cannot_read_is_refused_with_the_reason(tmp_path: Path) -> None:
    rows = [{"question": f"{n} + 1?", "answer": n + 1} for n in range(40)]
    rows[5]["answer"], rows[8]["answer"] = "n/a", "unknown"
    with pytest.raises(
        InputError, match=r"row 6: no output can be right for the answer 'n/a' by numeric: .* \(2 such rows: "
    ):
        task_of(tmp_path, rows, metric={"kind": "numeric"})


def test_a_function_that_denies_its_own_golds_is_refused(tmp_path: Path) -> None:
    (tmp_path / "metric.py").write_text("def score(output, gold, row):\n    return 1 if 'item' in output else 0.5\n")
    with pytest.raises(InputError, match=r"row 1: .*'thing 0' by python: as an output it scores 0.5 against itself"):
        task_of(tmp_path, questions(40), metric={"kind": "python", "file": "metric.py"})


def test_nothing_usable_is_refused(tmp_path: Path) -> None:
    write_rows(tmp_path / "test.jsonl", [{"question": "word " * 1400, "answer": "x"}])
    with pytest.raises(InputError, match=r"none of the 1 test rows is usable"):
        task_of(tmp_path, questions(40), test="test.jsonl")


def test_a_file_that_changed_since_is_refused(tmp_path: Path) -> None:
    task = task_of(tmp_path, questions(40))
    write_rows(tmp_path / "data.jsonl", questions(41))
    with pytest.raises(InputError, match=r"data.jsonl has changed since the task was read. Put it back"):
        load(task)
    (tmp_path / "data.jsonl").unlink()
    with pytest.raises(InputError, match=r"there is no file .*data.jsonl"):
        load(task)


def test_the_room_for_an_answer_comes_from_the_longest_gold(tmp_path: Path) -> None:
    assert task_of(tmp_path, labelled(yes=20, no=20)).max_new_tokens < 12
    assert task_of(tmp_path, [*questions(40), {"question": "?", "answer": "word " * 100}]).max_new_tokens > 200
    assert room_for("123456789") >= 9, "each digit may be a token"
    assert task_of(tmp_path, questions(40), max_new_tokens=5).max_new_tokens == 5


def test_chinese_is_estimated_by_the_letter() -> None:
    # The embedded model's tokenizer takes 10 tokens for these six letters.
    assert 10 <= tokens_of("银行不是企业") <= 12
    assert row_tokens("x" * 320, "") < row_tokens("题" * 320, "") - 500
