"""Splits of a person's own data: by content, balanced, in whole groups, apart from each other, and large enough."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from memory.errors import InputError
from tests.own_tasks import labelled, prompts, questions, said, splits_of, task_of, write_rows
from tools.own_task.splitting import OwnSplits

SPLITS = ("train", "validation", "test")
LONG = "the quick brown fox jumps over the lazy dog and then rests beside the river until the evening comes"


def sizes(splits: OwnSplits) -> dict[str, int]:
    return {split: len(splits.items[split]) for split in SPLITS}


def grouped(groups: int, each: int) -> list[dict[str, Any]]:
    return [
        {"question": f"Q {group}-{number}?", "answer": f"a {group} {number}", "customer": f"c{group}"}
        for group in range(groups)
        for number in range(each)
    ]


def test_a_split_depends_on_content_and_seed_not_on_the_order_of_rows(tmp_path: Path) -> None:
    rows = labelled(a=60, b=60)
    first = splits_of(tmp_path, rows)
    random.Random(0).shuffle(rows)
    again = splits_of(tmp_path, rows)
    other = splits_of(tmp_path, rows, seed=1)
    for split in SPLITS:
        assert prompts(again, split) == prompts(first, split)
        assert prompts(other, split) != prompts(first, split)


def test_a_few_new_rows_move_few_old_ones(tmp_path: Path) -> None:
    before = set(prompts(splits_of(tmp_path, questions(300)), "test"))
    after = set(prompts(splits_of(tmp_path, questions(306)), "test"))
    assert len(before & after) >= 0.9 * len(before)


def test_sizes_follow_the_file_and_what_was_asked(tmp_path: Path) -> None:
    assert sizes(splits_of(tmp_path, questions(300))) == {"train": 180, "validation": 60, "test": 60}
    assert sizes(splits_of(tmp_path, questions(1200))) == {"train": 800, "validation": 200, "test": 200}
    asked = splits_of(tmp_path, questions(300), validation=0.1, test=45)
    assert sizes(asked) == {"train": 225, "validation": 30, "test": 45}


def test_sixty_rows_are_enough_and_their_error_bar_is_said(tmp_path: Path) -> None:
    splits = splits_of(tmp_path, questions(60))
    assert sizes(splits) == {"train": 36, "validation": 12, "test": 12}
    assert said(splits, "error bar")[0].startswith("only 12 test items: a score near one half is known to 25 points up")
    assert not said(splits_of(tmp_path, questions(600)), "error bar")


def test_too_few_rows_are_refused_with_what_is_needed(tmp_path: Path) -> None:
    assert sizes(splits_of(tmp_path, questions(22))) == {"train": 10, "validation": 6, "test": 6}
    with pytest.raises(
        InputError, match=r"mine has 21 usable questions, and needs 22: 10 to train on, 6 of test, 6 of"
    ):
        task_of(tmp_path, questions(21))
    with pytest.raises(InputError, match=r"has 21 usable questions \(left out: 9 duplicate\)"):
        task_of(tmp_path, [*questions(21), *questions(9)])
    with pytest.raises(InputError, match=r"a test split of 4 items shows nothing: 6 are needed .* 100 are better"):
        task_of(tmp_path, questions(100), test=4)
    with pytest.raises(InputError, match=r"needs 130: 10 to train on, 60 of test, 60 of validation.* ask for smaller"):
        task_of(tmp_path, questions(100), test=0.6, validation=0.6)


def test_closed_answers_are_as_frequent_in_each_split_as_in_the_whole(tmp_path: Path) -> None:
    splits = splits_of(tmp_path, labelled(a=200, b=60, c=40))
    for split, size in (("test", 60), ("validation", 60), ("train", 180)):
        counts = Counter(item.answer for item in splits.items[split])  # type: ignore[index]
        assert counts == {"a": size * 2 / 3, "b": size / 5, "c": size * 2 / 15}
    loose = splits_of(tmp_path, labelled(a=200, b=60, c=40), stratify=False)
    assert sizes(loose) == sizes(splits)
    assert Counter(item.answer for item in loose.items["test"])["a"] != 40


def test_many_small_classes_still_fill_the_held_out_splits_and_keep_a_row_for_training(tmp_path: Path) -> None:
    splits = splits_of(tmp_path, labelled(**{f"class{n}": 3 for n in range(20)}))
    assert sizes(splits) == {"train": 36, "validation": 12, "test": 12}
    assert len({item.answer for item in splits.items["train"]}) == 20
    greedy = splits_of(tmp_path, labelled(**{f"class{n}": 3 for n in range(20)}), test=26, validation=18)
    assert len({item.answer for item in greedy.items["train"]}) == 20


def test_a_group_never_straddles_splits(tmp_path: Path) -> None:
    splits = splits_of(tmp_path, grouped(40, 5), group="customer")
    groups = {split: {item.columns["customer"] for item in splits.items[split]} for split in SPLITS}  # type: ignore[index]
    assert not groups["train"] & groups["test"]
    assert not groups["train"] & groups["validation"]
    assert not groups["validation"] & groups["test"]
    assert sizes(splits) == {"train": 120, "validation": 40, "test": 40}


def test_groups_and_closed_answers_together(tmp_path: Path) -> None:
    rows = grouped(60, 5)
    for place, row in enumerate(rows):
        row["answer"] = "yes" if (place // 5) % 3 == 0 or place % 5 == 0 else "no"
    splits = splits_of(tmp_path, rows, group="customer")
    share = [fmean_yes(splits, split) for split in SPLITS]
    assert max(share) - min(share) < 0.05
    assert not {i.columns["customer"] for i in splits.items["train"]} & {
        i.columns["customer"] for i in splits.items["test"]
    }


def fmean_yes(splits: OwnSplits, split: str) -> float:
    items = splits.items[split]  # type: ignore[index]
    return sum(item.answer == "yes" for item in items) / len(items)


def test_too_few_groups_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"the (test|validation|train) split has 0 .*'customer' makes 2 groups, which are not cut"
    ):
        task_of(tmp_path, grouped(2, 30), group="customer")


def test_rows_without_a_group_stand_alone(tmp_path: Path) -> None:
    rows = [row | {"customer": ""} for row in questions(60)]
    assert sizes(splits_of(tmp_path, rows, group="customer")) == {"train": 36, "validation": 12, "test": 12}


def test_files_that_are_given_are_the_splits(tmp_path: Path) -> None:
    write_rows(tmp_path / "valid.jsonl", questions(12, 100))
    write_rows(tmp_path / "test.jsonl", questions(14, 200))
    splits = splits_of(tmp_path, questions(30), validation="valid.jsonl", test="test.jsonl")
    assert sizes(splits) == {"train": 30, "validation": 12, "test": 14}
    assert set(prompts(splits, "test")) == {row["question"] for row in questions(14, 200)}
    assert {item.id for item in splits.items["test"]} == {f"test-row-{number}" for number in range(1, 15)}


def test_a_held_out_row_inside_train_is_left_out_of_training_and_counted(tmp_path: Path) -> None:
    held_out = [*questions(12, 100), {"question": LONG, "answer": "x"}]
    write_rows(tmp_path / "test.jsonl", held_out)
    near = {"question": LONG.replace("comes", "ends"), "answer": "x"}
    train = [*questions(60), held_out[3], {"question": "WHAT is item 101", "answer": "?"}, near]
    splits = splits_of(tmp_path, train, test="test.jsonl")
    exact, nearly = said(splits, "copy")
    assert exact == "2 train rows repeating a test row: left out of train (data.jsonl rows 61, 62)"
    assert nearly.startswith("1 train row nearly repeating a test row: left out of train")
    assert "data.jsonl row 63" in nearly
    assert sizes(splits) == {"train": 48, "validation": 12, "test": 13}
    assert splits.repeats == {"train": 2, "validation": 0, "test": 0}
    templated = splits_of(tmp_path, train, test="test.jsonl", templated=True)
    assert templated.findings.usable == splits.findings.usable + 1


def test_given_splits_that_share_rows_or_groups_make_way_for_the_test(tmp_path: Path) -> None:
    rows = grouped(30, 4)
    write_rows(tmp_path / "test.jsonl", [row for place, row in enumerate(rows[:28]) if place % 4 < 2])
    write_rows(tmp_path / "valid.jsonl", [row for place, row in enumerate(rows[24:52]) if place % 4 >= 2])
    splits = splits_of(tmp_path, rows[48:], validation="valid.jsonl", test="test.jsonl", group="customer")
    assert sizes(splits) == {"train": 68, "validation": 12, "test": 14}
    assert [line.split(":")[0] for line in said(splits, "group")] == [
        "2 validation rows whose customer is held out in test",
        "4 train rows whose customer is held out in test or validation",
    ]


def test_a_training_file_that_is_all_test_is_refused(tmp_path: Path) -> None:
    write_rows(tmp_path / "test.jsonl", questions(40))
    with pytest.raises(InputError, match=r"has 2 usable questions \(left out: 40 copy\), and needs 16"):
        task_of(tmp_path, questions(42), test="test.jsonl")
    write_rows(tmp_path / "small.jsonl", questions(3, 500))
    with pytest.raises(InputError, match=r"the test split has 3 usable rows, and needs 6. Add rows"):
        task_of(tmp_path, questions(60), test="small.jsonl")
