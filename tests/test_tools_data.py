"""Training files: what each operator keeps, where rows come from, what is reused, and what the row checks find."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from memory.errors import TrialError
from memory.layout import write_rows
from memory.records import (
    Check,
    DataRecipe,
    DatasetCard,
    Deduplicate,
    Filter,
    MapTemplate,
    Mix,
    Operator,
    Record,
    RowGroup,
    Select,
)
from tools import data_operators
from tools.benchmarks import get
from tools.benchmarks.benchmark import Item
from tools.benchmarks.splits import Sizes, read_items, write_splits
from tools.data import TrainingRow, make_training_file, read_training_rows
from tools.decontamination import fingerprints
from tools.row_checks import check_rows


@pytest.fixture
def train(tmp_path: Path) -> Path:
    """Forty questions: 30 answered Yes, 10 answered No; `n` counts them."""
    items = [
        Item(
            id=f"train-{n}",
            prompt=f"Is {n} a lucky number?",
            answer="No" if n % 4 == 0 else "Yes",
            columns={"n": n, "parity": "odd" if n % 2 else "even"},
            reference="{}",
        )
        for n in range(40)
    ]
    path = tmp_path / "train.jsonl"
    write_rows(path, items)
    return path


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    """A raw source of 30 rows with a column of its own."""
    path = tmp_path / "chat.jsonl"
    rows = ({"prompt": f"Say {n}.", "answer": f"{n}!", "length": n} for n in range(30))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def build(train: Path, *operators: Operator, raw: Path | None = None) -> tuple[DatasetCard, list[TrainingRow]]:
    sources = {"chat": raw} if raw else {}
    recipe = DataRecipe(operators=operators)
    card = make_training_file(recipe, source="lucky", train=train, raw=sources, cache=train.parent / "cache")
    return card, read_training_rows(Path(card.path))


def failure(train: Path, *operators: Operator, raw: Path | None = None) -> TrialError:
    with pytest.raises(TrialError) as caught:
        build(train, *operators, raw=raw)
    return caught.value


# --- operators ----------------------------------------------------------------------------------------------------


def test_without_operators_every_item_becomes_a_chat(train: Path) -> None:
    card, rows = build(train)
    assert card.rows == len(rows) == 40
    assert json.loads(Path(card.path).read_text().splitlines()[1]) == {
        "id": "train-1",
        "messages": [{"role": "user", "content": "Is 1 a lucky number?"}, {"role": "assistant", "content": "Yes"}],
        "source": "lucky",
    }
    assert card.mean_answer_chars == pytest.approx(2.75)


def test_a_filter_sees_texts_lengths_and_columns(train: Path) -> None:
    card, rows = build(train, Filter(where="answer = 'Yes' AND n < 6 AND parity = 'odd' AND prompt_chars > 5"))
    assert [row.id for row in rows] == ["train-1", "train-3", "train-5"]
    (dropped,) = card.dropped
    assert dropped.rows == 37
    assert dropped.examples[0] == "train-0: Is 0 a lucky number? -> No"


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("lenght > 3", 'Referenced column "lenght" not found'),
        ("n >", "syntax error"),
        ("n = 1); DROP TABLE training_rows; SELECT (1 = 1", "more than one expression"),
        ("EXISTS (SELECT * FROM read_text('/etc/hostname'))", "file system operations are disabled"),
        ("EXISTS (SELECT * FROM read_csv('http://localhost/x.csv'))", "disabled by configuration"),
        ("EXISTS (SELECT * FROM rows)", "Table with name rows does not exist"),
        ("parity", "Could not convert string"),
    ],
)
def test_a_bad_filter_fails_the_trial_with_duckdbs_words(where: str, says: str, train: Path) -> None:
    error = failure(train, Filter(where=where))
    assert error.kind == "CONFIG"
    assert says in error.message
    assert "\n" not in error.message


def test_an_endless_filter_is_stopped(train: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_operators, "FILTER_SECONDS", 0.2)
    error = failure(train, Filter(where="(SELECT count(*) FROM range(1000000000000)) > n"))
    assert "Interrupted" in error.message


def test_a_filter_over_a_column_that_only_some_rows_have_keeps_those_it_is_true_for(train: Path, chat: Path) -> None:
    _, rows = build(train, Mix(source="chat", share=0.2), Filter(where="n < 3 OR length >= 0"), raw=chat)
    assert Counter(row.source for row in rows) == {"lucky": 3, "chat": 10}


def test_a_template_rewrites_prompt_and_answer(train: Path) -> None:
    template = MapTemplate(prompt="{prompt} ({parity})\nAnswer {{Yes}} or {{No}}.", answer="{answer}, {n}")
    _, rows = build(train, Select(rows=1, seed=5), template)
    n = rows[0].id.removeprefix("train-")
    assert rows[0].prompt.startswith(f"Is {n} a lucky number? (")
    assert rows[0].prompt.endswith("Answer {Yes} or {No}.")
    assert rows[0].answer.endswith(f", {n}")


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
def test_a_template_names_columns_and_nothing_else(template: str, says: str, train: Path) -> None:
    error = failure(train, MapTemplate(prompt=template))
    assert error.kind == "CONFIG"
    assert says in error.message


def test_duplicates_fold_case_and_white_space(train: Path) -> None:
    same = Filter(where="n IN (1, 2, 3, 4)"), MapTemplate(prompt="Lucky?", answer="{answer}")
    card, rows = build(train, *same, Deduplicate())
    assert [(row.id, row.answer) for row in rows] == [("train-1", "Yes"), ("train-4", "No")]
    assert card.dropped[-1].rows == 2


def test_a_mix_makes_up_its_share(train: Path, chat: Path) -> None:
    card, rows = build(train, Select(rows=20), Mix(source="chat", share=0.2), Deduplicate(), raw=chat)
    assert Counter(row.source for row in rows) == {"lucky": 20, "chat": 5}
    assert card.groups == (
        RowGroup(source="lucky", rows=20, steps=("select 20, seed 0", "deduplicate")),
        RowGroup(source="chat", rows=5, steps=("mix 20% of chat (5 of 5 wanted rows)", "deduplicate")),
    )
    card, _ = build(train, Mix(source="chat", share=0.9), raw=chat)
    assert card.groups[1].steps == ("mix 90% of chat (30 of 360 wanted rows)",)


def test_a_mix_of_an_unknown_source_lists_the_known(train: Path, chat: Path) -> None:
    error = failure(train, Mix(source="chatt", share=0.2), raw=chat)
    assert (error.kind, error.way_out) == ("CONFIG", "Raw sources of this task: chat.")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "line 2 is not JSON"),
        ("[1]", "not a JSON object"),
        ('{"prompt": "x"}', "line 2 has no text under 'answer'"),
    ],
)
def test_a_bad_raw_line_is_named(line: str, says: str, train: Path, chat: Path) -> None:
    lines = chat.read_text().splitlines()
    chat.write_text("\n".join([lines[0], line, *lines[2:]]))
    error = failure(train, Mix(source="chat", share=0.2), raw=chat)
    assert error.kind == "DATA"
    assert says in error.message


@pytest.mark.parametrize("balance", ["none", "answer"])
def test_more_rows_contain_fewer_rows(balance: str, train: Path) -> None:
    def chosen(rows: int, seed: int = 0) -> list[str]:
        operator = Select.model_validate({"rows": rows, "balance": balance, "seed": seed})
        return [row.id for row in build(train, operator)[1]]

    assert chosen(20)[:10] == chosen(10)
    assert chosen(10, seed=1) != chosen(10)
    assert len(chosen(500)) == 40


def test_a_balanced_selection_has_equally_many_of_each_answer_as_far_as_they_last(train: Path) -> None:
    for rows, shares in ((16, {"Yes": 8, "No": 8}), (30, {"Yes": 20, "No": 10})):
        _, kept = build(train, Select(rows=rows, balance="answer"))
        assert Counter(row.answer for row in kept) == shares


def test_an_operator_that_leaves_nothing_is_named(train: Path) -> None:
    error = failure(train, Select(rows=5), Filter(where="n > 100"), Deduplicate())
    assert error.kind == "DATA"
    assert error.message == "no row is left after: filter n > 100 (5 rows before)"


# --- the file -----------------------------------------------------------------------------------------------------


def test_an_unchanged_file_is_found_and_a_changed_source_is_not_overlooked(train: Path, chat: Path) -> None:
    operators: Sequence[Operator] = (Select(rows=20), Mix(source="chat", share=0.2))
    first, _ = build(train, *operators, raw=chat)
    written = Path(first.path).stat().st_mtime_ns
    assert build(train, *operators, raw=chat)[0] == first
    assert Path(first.path).stat().st_mtime_ns == written
    chat.write_text(chat.read_text().replace("Say", "Please say"))
    assert build(train, *operators, raw=chat)[0].path != first.path
    assert build(train, Select(rows=21))[0].path != first.path


def test_a_damaged_file_is_built_anew(train: Path) -> None:
    first, rows = build(train, Select(rows=20))
    Path(first.path).write_text("half a row")
    assert build(train, Select(rows=20)) == (first, rows)


def test_rows_that_repeat_held_out_text_are_dropped_and_reported(train: Path) -> None:
    held_out = [fingerprints("test", [("test-0", "is 7 a LUCKY number"), ("test-1", "Is 99 a lucky number?")])]
    card = make_training_file(
        DataRecipe(operators=()),
        source="lucky",
        train=train,
        raw={},
        cache=train.parent / "cache",
        held_out=held_out,
    )
    assert card.rows == 39
    assert "train-7" not in {row.id for row in read_training_rows(Path(card.path))}
    (dropped,) = card.dropped
    assert (dropped.reason, dropped.examples) == ("an exact copy of a test item", ("train-7 = test-0 (100%)",))


# --- row checks ---------------------------------------------------------------------------------------------------


class Broken(Record):
    """A row without an answer."""

    id: str


def syllogisms(folder: Path) -> tuple[Path, dict[str, Item], list[TrainingRow]]:
    data = folder / "data"
    write_splits(get("syllogism"), data, folder / "sealed", Sizes(train=40, validation=10, test=10), 0)
    items = {item.id: item for item in read_items(data / "train.jsonl")}
    recipe = DataRecipe(operators=())
    card = make_training_file(recipe, source="syllogism", train=data / "train.jsonl", raw={}, cache=folder / "cache")
    return Path(card.path), items, read_training_rows(Path(card.path))


def with_answer(row: TrainingRow, answer: str) -> TrainingRow:
    reply = row.messages[1].model_copy(update={"content": answer})
    return row.model_copy(update={"messages": (row.messages[0], reply)})


def found(folder: Path, rows: Sequence[Record], items: dict[str, Item]) -> dict[str, Check]:
    path = folder / "changed.jsonl"
    write_rows(path, rows)
    return {check.name: check for check in check_rows(path, get("syllogism"), items)}


def test_sound_rows_pass_every_check(tmp_path: Path) -> None:
    path, items, _ = syllogisms(tmp_path)
    checks = check_rows(path, get("syllogism"), items)
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
    _, items, rows = syllogisms(tmp_path)
    with pytest.raises(TrialError, match="line 3 is no TrainingRow: Field required") as caught:
        found(tmp_path, [*rows[:2], Broken(id="x"), *rows[3:]], items)
    assert caught.value.kind == "DATA"


def test_the_row_checks_find_what_is_wrong(tmp_path: Path) -> None:
    _, items, rows = syllogisms(tmp_path)
    other = {"Yes": "No", "No": "Yes"}
    wrong = found(tmp_path, [rows[0], with_answer(rows[1], other[rows[1].answer]), *rows[2:]], items)["golds"]
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
    assert not found(tmp_path, [*raw, with_answer(raw[0], other[raw[0].answer])], items)["conflicts"].passed

    spelt = found(tmp_path, [*raw[:-1], with_answer(raw[-1], raw[-1].answer.lower() + " ")], items)["spellings"]
    assert not spelt.passed
    assert "stands for" in spelt.says
