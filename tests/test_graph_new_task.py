"""`--new-task`: a file that nobody described becomes a task file that can be started, or is told what is wrong."""

import json
from pathlib import Path

import pytest

from graph.new_task import new_task
from graph.settings import Settings
from memory.errors import InputError
from tests.own_tasks import labelled, questions, write_rows
from tools.own_task.files import read_file
from tools.own_task.guess import Guess, guess
from tools.own_task.task_file import read_task


def settings(path: Path, **changes: object) -> Settings:
    base = {"action": "new_task", "runs": path.parent, "cache": path.parent, "new_task": path}
    return Settings.model_validate(base | changes)


def made(path: Path) -> Guess:
    """The whole guess, read back from the file that was written."""
    assert new_task(settings(path), None) == 0
    return guess(path, read_file(path))


def test_a_labelled_csv_becomes_a_task_that_can_be_started(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kinds = (("The app crashes", "bugs"), ("My bill is wrong", "billing"))
    lines = [f"{n},customer {n % 9},{kinds[n % 2][0]} {n},{kinds[n % 2][1]}" for n in range(80)]
    path = tmp_path / "Tickets 2.csv"
    path.write_text("id,customer,text,label\n" + "\n".join(lines) + "\n")
    assert new_task(settings(path), None) == 0
    shown = capsys.readouterr().out
    assert shown.count("\n=> ") == 10
    assert "Answer with one of: billing, bugs." in shown
    assert "--task" in shown.splitlines()[-1]
    task = read_task(tmp_path / "tickets-2.toml")
    assert (task.shape, task.answer, task.group) == ("columns", "label", "customer")
    assert task.prompt == "{text}\n\nAnswer with one of: billing, bugs."
    assert task.answers == ("billing", "bugs")
    assert task.metric.kind == "exact_match"


def test_no_row_of_the_sealed_test_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_rows(tmp_path / "data.jsonl", questions(40))
    assert new_task(settings(path, json_output=True), None) == 0
    told = json.loads(capsys.readouterr().out)
    from tools.own_task.splitting import own_splits

    splits = own_splits(read_task(tmp_path / "data.toml"), 0)
    (tmp_path / "data.toml").unlink()
    assert new_task(settings(path), None) == 0
    shown = capsys.readouterr().out.splitlines()
    assert not {item.prompt for item in splits.items["test"]} & set(shown)
    assert len({item.prompt for item in splits.items["train"]} & set(shown)) == 10
    assert told["splits"] == {"test": 8, "validation": 8, "train": 24}
    assert {one["prompt"] for one in told["prompts"]} <= {item.prompt for item in splits.items["train"]}
    assert told["command"].endswith(f"--task {tmp_path / 'data.toml'}")


@pytest.mark.parametrize(
    ("row", "shape", "kind", "prompt"),
    [
        ('{{"messages": [{{"role": "user", "content": "Say {n}"}}, {{"role": "assistant", "content": "word {n}"}}]}}',
         "chat", "exact_match", "{prompt}"),
        ('{{"conversations": [{{"from": "human", "value": "Say {n}"}}, {{"from": "gpt", "value": "{n}"}}]}}',
         "sharegpt", "numeric", "{prompt}"),
        ('{{"instruction": "Tell {n}", "input": "", "output": "one two three four five six seven eight nine {n}"}}',
         "alpaca", "token_f1", "{prompt}"),
        ('{{"order": "ship {n} mugs please", "target": {{"count": {n}, "goods": "mugs"}}}}',
         "columns", "json_fields", "{order}"),
        ('{{"context": "Shop {n}.", "question": "How many?", "solution": {n}}}',
         "columns", "numeric", "{context}\n\n{question}"),
        ('{{"question": "Which {n}?", "A": "x{n}", "B": "y{n}", "C": "z{n}", "answer": "B"}}',
         "columns", "multiple_choice", "{question}\nA. {A}\nB. {B}\nC. {C}\nAnswer with one letter."),
    ],
)  # fmt: skip
def test_shape_columns_and_metric_are_guessed(tmp_path: Path, row: str, shape: str, kind: str, prompt: str) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text("".join(row.format(n=n) + "\n" for n in range(40)))
    assert new_task(settings(path), None) == 0
    task = read_task(tmp_path / "data.toml")
    assert (task.shape, task.metric.kind, task.prompt) == (shape, kind, prompt)


def test_files_beside_the_training_file_are_found(tmp_path: Path) -> None:
    write_rows(tmp_path / "test.jsonl", questions(10, 100))
    write_rows(tmp_path / "valid.jsonl", questions(10, 200))
    file = made(write_rows(tmp_path / "train.jsonl", questions(40))).file
    assert (file.validation, file.test) == ("valid.jsonl", "test.jsonl")


def test_more_labels_than_are_found_by_themselves_are_listed(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "data.jsonl", labelled(**{f"intent{n}": 4 for n in range(30)}))
    assert new_task(settings(path), None) == 0
    assert len(read_task(tmp_path / "data.toml").answers or ()) == 30


def test_a_task_file_that_is_there_is_never_overwritten(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "data.jsonl", questions(40))
    (tmp_path / "data.toml").write_text("mine")
    with pytest.raises(InputError, match=r"data.toml exists already. Start it with --task data.toml, or move it away"):
        new_task(settings(path), None)
    assert (tmp_path / "data.toml").read_text() == "mine"


def test_data_that_has_to_be_put_right_first_still_gets_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_rows(tmp_path / "data.jsonl", questions(12))
    assert new_task(settings(path), None) == 2
    assert "data.toml is written, but: data has 12 usable questions, and needs 22" in capsys.readouterr().err
    assert (tmp_path / "data.toml").exists()


def test_data_of_one_column_is_refused(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "data.jsonl", [{"text": "only this"}])
    with pytest.raises(InputError, match=r"a single column. It needs one for the question and one for the answer"):
        new_task(settings(path), None)
    assert not (tmp_path / "data.toml").exists()
