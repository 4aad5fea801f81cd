"""Row checks: what is wrong with the rows of a training file is found and named; what is right passes."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import pytest

from memory.errors import TrialError
from memory.layout import write_rows
from memory.records import Augment, Check, DataRecipe, Operator, Record
from tools.benchmarks.benchmark import Benchmark, Graded, Item, Split
from tools.data import TrainingRow, make_training_file, read_training_rows
from tools.row_checks import check_rows

OTHER = {"Yes": "No", "No": "Yes"}


def draw(split: Split, seed: int) -> Iterator[Item]:
    """Questions, one of four answered No."""
    for n in range(1000):
        answer = "Yes" if n % 4 else "No"
        yield Item(id=f"{split}-{n}", prompt=f"Is {n} a lucky number?", answer=answer, reference="{}")


def grade(output: str, item: Item) -> Graded:
    """The last word is the answer, if it is one, in any case."""
    answer = output.split()[-1].strip(".").capitalize() if output.split() else ""
    return Graded(score=float(answer == item.answer), answer=answer if answer in OTHER else None)


LUCKY = Benchmark(
    name="lucky",
    title="Which numbers are lucky?",
    source="made up",
    licence="Apache-2.0",
    draw=draw,
    grade=grade,
    max_new_tokens=4,
    closed_answers=("Yes", "No"),
)


class Broken(Record):
    """A row without an answer."""

    id: str


def training_file(folder: Path, *operators: Operator) -> tuple[Path, dict[str, Item], list[TrainingRow]]:
    items = list(islice(draw("train", 0), 40))
    write_rows(folder / "train.jsonl", items)
    recipe = DataRecipe(operators=operators)
    card = make_training_file(recipe, source="lucky", train=folder / "train.jsonl", raw={}, cache=folder / "cache")
    return Path(card.path), {item.id: item for item in items}, read_training_rows(Path(card.path))


def with_answer(row: TrainingRow, answer: str) -> TrainingRow:
    reply = row.messages[1].model_copy(update={"content": answer})
    return row.model_copy(update={"messages": (row.messages[0], reply)})


def by_model(row: TrainingRow, answer: str, sample: int) -> TrainingRow:
    """The row as self-distillation leaves it."""
    return with_answer(row, answer).model_copy(update={"id": f"{row.id}~s{sample}", "answered_by": "model"})


def found(folder: Path, rows: Sequence[Record], items: dict[str, Item]) -> dict[str, Check]:
    path = folder / "changed.jsonl"
    write_rows(path, rows)
    return {check.name: check for check in check_rows(path, LUCKY, items)}


def test_sound_rows_pass_every_check(tmp_path: Path) -> None:
    path, items, _ = training_file(tmp_path)
    checks = check_rows(path, LUCKY, items)
    assert all(check.passed for check in checks)
    assert {check.name: check.figure for check in checks} == {
        "schema": 40,
        "empty texts": 0,
        "golds": 40,
        "duplicates": 0,
        "conflicts": 0,
        "spellings": 0,
    }


def test_a_malformed_row_is_named_by_its_number(tmp_path: Path) -> None:
    _, items, rows = training_file(tmp_path)
    with pytest.raises(TrialError, match="line 3 is no TrainingRow: Field required") as caught:
        found(tmp_path, [*rows[:2], Broken(id="x"), *rows[3:]], items)
    assert caught.value.kind == "DATA"


def test_the_row_checks_find_what_is_wrong(tmp_path: Path) -> None:
    _, items, rows = training_file(tmp_path)
    wrong = found(tmp_path, [rows[0], with_answer(rows[1], OTHER[rows[1].answer]), *rows[2:]], items)["golds"]
    assert not wrong.passed
    assert wrong.figure == 39
    assert "row 2 (train-1)" in wrong.says

    chatty = found(tmp_path, [with_answer(rows[0], "It follows."), *rows[1:]], items)["golds"]
    assert "row 1 (train-0): the answer 'It follows.' holds no answer" in chatty.says

    stranger = found(tmp_path, [rows[0].model_copy(update={"id": "train-999999"}), *rows[1:]], items)["golds"]
    assert "row 1 (train-999999) is no training item" in stranger.says

    empty = found(tmp_path, [*rows[:4], with_answer(rows[4], "  ")], items)["empty texts"]
    assert (empty.passed, empty.figure) == (False, 1)
    assert "row 5" in empty.says

    assert not found(tmp_path, [*rows[:20], *rows[:2]], items)["duplicates"].passed

    raw = [row.model_copy(update={"source": "chat"}) for row in rows]
    assert not found(tmp_path, [*raw, with_answer(raw[0], OTHER[raw[0].answer])], items)["conflicts"].passed

    spelt = found(tmp_path, [*raw[:-1], with_answer(raw[-1], raw[-1].answer.lower() + " ")], items)["spellings"]
    assert not spelt.passed
    assert "stands for" in spelt.says


def test_both_halves_of_a_pair_are_graded(tmp_path: Path) -> None:
    plain, items, rows = training_file(tmp_path)
    assert "rejected" not in plain.read_text(), "a file that holds no pairs says nothing of them"
    pairs = [row.model_copy(update={"rejected": OTHER[row.answer]}) for row in rows]

    def rejected(last: TrainingRow) -> Check:
        path = tmp_path / "pairs.jsonl"
        write_rows(path, [*pairs[:-1], last])
        checks = {check.name: check for check in check_rows(path, LUCKY, items, pairs=True)}
        assert checks["golds"].passed
        return checks["rejected"]

    assert rejected(pairs[-1]).passed
    right = rejected(pairs[-1].model_copy(update={"rejected": rows[-1].answer}))
    assert not right.passed
    assert f"row 40 (train-39): the rejected answer {rows[-1].answer!r} scores 1" in right.says
    assert "row 40 (train-39) has no answer to reject" in rejected(rows[-1]).says


def test_variants_are_graded_by_the_item_they_were_made_from(tmp_path: Path) -> None:
    path, items, rows = training_file(tmp_path, Augment(prompts=("{prompt} Say Yes or No.",)))
    assert len(rows) == 80
    assert all(check.passed for check in check_rows(path, LUCKY, items))
    wrong = found(tmp_path, [*rows[:3], with_answer(rows[3], OTHER[rows[3].answer]), *rows[4:]], items)["golds"]
    assert "row 4 (train-1~1): the answer 'No' scores 0" in wrong.says


def test_variants_that_all_ask_the_same_are_conflicts(tmp_path: Path) -> None:
    path, items, _ = training_file(tmp_path, Augment(prompts=("Lucky?",)))
    checks = {check.name: check for check in check_rows(path, LUCKY, items)}
    assert not checks["conflicts"].passed
    assert not checks["duplicates"].passed


def test_a_models_own_answers_may_differ_and_be_spelt_as_they_are_but_must_be_right(tmp_path: Path) -> None:
    _, items, rows = training_file(tmp_path)
    own = [
        made
        for row in rows
        for made in (
            by_model(row, row.answer, 0),
            by_model(row, row.answer.lower(), 1),
            by_model(row, f"So {row.answer}.", 2),
        )
    ]
    checks = found(tmp_path, [row for row in own if not row.id.endswith("~s0")], items)
    assert all(check.passed for check in checks.values())
    assert checks["golds"].says == "the scorer gives 1 to all 80 answers of lucky, 80 of them a model's own"
    wrong = found(tmp_path, [*own[:2], by_model(rows[0], "So Yes.", 2), *own[3:]], items)["golds"]
    assert "row 3 (train-0~s2): the model's own answer 'So Yes.' scores 0" in wrong.says
    assert not found(tmp_path, own, items)["duplicates"].passed
