"""Training files: where rows come from, what the card says, what is reused and what is built anew."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from memory.errors import TrialError
from memory.layout import write_rows
from memory.records import (
    DataRecipe,
    DatasetCard,
    Deduplicate,
    Lengths,
    Mix,
    NearDeduplicate,
    Operator,
    Outcome,
    PassRate,
    RowGroup,
    Select,
    SelfDistil,
)
from tools.benchmarks.benchmark import Item
from tools.data import TrainingRow, make_training_file, read_training_rows
from tools.decontamination import fingerprints
from tools.operators.rows import Sample


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


def build(
    train: Path, *operators: Operator, raw: Path | None = None, sample: Sample | None = None, weights: str = "base"
) -> tuple[DatasetCard, list[TrainingRow]]:
    sources = {"chat": raw} if raw else {}
    card = make_training_file(
        DataRecipe(operators=operators),
        source="lucky",
        train=train,
        raw=sources,
        cache=train.parent / "cache",
        sample=sample,
        models={None: weights, 2: "second"},
    )
    return card, read_training_rows(Path(card.path))


def failure(train: Path, *operators: Operator, raw: Path | None = None) -> TrialError:
    with pytest.raises(TrialError) as caught:
        build(train, *operators, raw=raw)
    return caught.value


class Model:
    """Knows every answer; counts how often it is asked."""

    def __init__(self) -> None:
        self.asked: list[int | None] = []

    def __call__(self, trial: int | None, items: Sequence[Item], samples: int, temperature: float) -> list[Outcome]:
        self.asked.append(trial)
        return [
            Outcome(
                id=item.id,
                sample=sample,
                prompt=item.prompt,
                output=f"{item.answer}.",
                answer=item.answer,
                gold=item.answer,
                score=1.0,
                finish="stop",
                output_tokens=2,
            )
            for item in items
            for sample in range(samples)
        ]


# --- rows and card ------------------------------------------------------------------------------------------------


def test_without_operators_every_item_becomes_a_chat(train: Path) -> None:
    card, rows = build(train)
    assert card.rows == len(rows) == 40
    assert json.loads(Path(card.path).read_text().splitlines()[1]) == {
        "id": "train-1",
        "messages": [{"role": "user", "content": "Is 1 a lucky number?"}, {"role": "assistant", "content": "Yes"}],
        "source": "lucky",
        "answered_by": "source",
        "origin": "",
    }
    assert card.mean_answer_chars == pytest.approx(2.75)


def test_a_card_says_where_rows_come_from_how_long_they_are_and_what_they_answer(train: Path, chat: Path) -> None:
    card, rows = build(train, Select(rows=20), Mix(source="chat", share=0.2), Deduplicate(), raw=chat)
    assert Counter(row.source for row in rows) == {"lucky": 20, "chat": 5}
    assert card.groups == (
        RowGroup(source="lucky", rows=20, steps=("select 20, seed 0", "deduplicate")),
        RowGroup(source="chat", rows=5, steps=("mix 20% of chat (5 of 5 wanted rows)", "deduplicate")),
    )
    assert [(dropped.step, dropped.rows) for dropped in card.dropped] == [("select 20, seed 0", 20)]
    assert card.prompt_chars is not None
    assert card.prompt_chars.longest == max(len(row.prompt) for row in rows)
    assert card.answers == {"Yes": 15, "No": 5}
    whole, _ = build(train)
    assert whole.answers == {"Yes": 30, "No": 10}
    assert whole.answer_chars == Lengths(mean=2.75, p99=3, longest=3)
    assert whole.prompt_chars == Lengths(mean=20.75, p99=21, longest=21)


def test_answers_that_hardly_repeat_are_not_counted(train: Path, chat: Path) -> None:
    card, _ = build(train, Select(rows=4), Mix(source="chat", share=0.8), raw=chat)
    assert card.answers == {}
    card, _ = build(train, Mix(source="chat", share=0.6), raw=chat)
    assert card.answers == {"Yes": 30, "No": 10}
    assert card.notes == ("chat makes up 42.9% of the rows, not 60.0%: it has only 30 rows",)


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
    assert dropped.step == "compare with held-out text"


def test_a_model_is_asked_once_and_again_only_when_it_has_changed(train: Path) -> None:
    model = Model()
    operators = SelfDistil(rows=10), Select(rows=5)
    first, rows = build(train, *operators, sample=model)
    assert {row.answered_by for row in rows} == {"model"}
    assert {row.answer for row in rows} <= {"Yes.", "No."}
    assert build(train, *operators, sample=model) == (first, rows)
    assert model.asked == [None]
    changed, _ = build(train, *operators, sample=model, weights="other")
    assert changed.path != first.path
    assert model.asked == [None, None]
    build(train, PassRate(rows=10, trial=2), sample=model)
    assert model.asked == [None, None, 2]
    assert build(train, Select(rows=5), weights="x")[0].path == build(train, Select(rows=5), weights="y")[0].path


def test_a_trial_without_weights_cannot_be_asked(train: Path) -> None:
    error = failure(train, PassRate(rows=5, trial=7))
    assert (error.kind, error.way_out) == ("CONFIG", "Trials with weights: 2.")
    assert "trial 7, which has no weights here" in error.message


def test_a_recipe_reads_back_as_it_was_written() -> None:
    operators: tuple[Operator, ...] = (NearDeduplicate(), PassRate(rows=5), SelfDistil(rows=5, trial=1))
    recipe = DataRecipe(operators=operators)
    assert DataRecipe.model_validate_json(recipe.model_dump_json()) == recipe
