"""A task drafted on the page: uploads checked by content, guessed, tried on their own rows, saved beside the data."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path

import duckdb
import pytest

from graph.page import draft
from graph.page.draft import Form
from graph.page.uploads import Uploads, accept, columns
from memory.errors import InputError
from tests.own_tasks import labelled, questions, write_rows
from tools.own_task.splitting import HELD_OUT
from tools.own_task.task_file import read_task


@pytest.fixture
def uploads(tmp_path: Path) -> Uploads:
    """Sixty labelled questions."""
    return Uploads(write_rows(tmp_path / "Support Tickets.jsonl", labelled(bugs=30, billing=30)))


def form(uploads: Uploads, **changes: str | bool) -> Form:
    """What the page proposes for an upload, with some fields changed."""
    return draft.form_of(draft.guessed(uploads).file).model_copy(update=changes)


def write_parquet(path: Path, sql: str) -> None:
    """The result of a query as a file."""
    with duckdb.connect(":memory:") as database:
        database.execute(f"COPY ({sql}) TO '{path}' (FORMAT parquet)")


def test_an_upload_is_guessed_and_its_first_rows_become_ten_prompts(uploads: Uploads) -> None:
    proposed = form(uploads)
    assert columns(uploads.train) == ["question", "answer"]
    assert (proposed.name, proposed.answer, proposed.metric) == ("support-tickets", "answer", "exact_match")
    assert proposed.answers == "billing\nbugs"
    shown = draft.prompts(draft.look(proposed, uploads))
    assert shown.count("the gold scores 1;") == 10
    assert shown.count("the answer of another row, scores 0") == 10
    assert "Answer with one of: billing, bugs." in shown
    assert "10. row-" in shown
    assert "tokens" in shown


def test_no_row_of_validation_or_test_is_shown(uploads: Uploads) -> None:
    looked = draft.look(form(uploads), uploads)
    shown = draft.prompts(looked)
    held_out = [item.prompt for split in HELD_OUT for item in looked.splits.items[split]]
    assert held_out
    assert not [prompt for prompt in held_out if prompt in shown]


def test_duplicates_leaks_and_golds_are_said(tmp_path: Path) -> None:
    rows = [*questions(40), *questions(3)]
    uploads = Uploads(write_rows(tmp_path / "data.jsonl", rows), test=write_rows(tmp_path / "t.jsonl", questions(8)))
    told = draft.sizes(draft.look(form(uploads, metric="exact_match"), uploads))
    assert "3 rows repeating an earlier row" in told
    assert "train rows repeating a test row" in told
    assert "golds get the full mark by exact_match" in told


def test_a_metric_that_no_gold_can_pass_is_refused_with_the_row(uploads: Uploads) -> None:
    with pytest.raises(InputError, match="no output can be right for the answer"):
        draft.look(form(uploads, metric="numeric", answers=""), uploads)


def test_settings_of_the_metric_are_those_of_a_task_file(tmp_path: Path) -> None:
    rows = [{"question": f"What is {n} plus {n}?", "answer": str(2 * n)} for n in range(40)]
    uploads = Uploads(write_rows(tmp_path / "sums.jsonl", rows))
    looked = draft.look(form(uploads, metric="numeric", settings="absolute = 0.5\n"), uploads)
    assert looked.task.metric.model_dump()["absolute"] == 0.5
    with pytest.raises(InputError, match="there is no key metric"):
        draft.look(form(uploads, metric="numeric", settings="absolut = 0.5"), uploads)
    with pytest.raises(InputError, match="are no TOML"):
        draft.look(form(uploads, metric="numeric", settings="absolute 0.5"), uploads)


def test_settings_that_were_guessed_stand_in_the_form(tmp_path: Path) -> None:
    rows = [{"question": f"Which {n}?", "A": f"x{n}", "B": f"y{n}", "C": f"z{n}", "answer": "B"} for n in range(40)]
    uploads = Uploads(write_rows(tmp_path / "choices.jsonl", rows))
    proposed = form(uploads)
    assert proposed.settings == 'choices = ["A", "B", "C"]'
    assert draft.look(proposed, uploads).task.metric.kind == "multiple_choice"


def test_a_python_metric_is_never_taken(uploads: Uploads) -> None:
    for settings in ('file = "metric.py"', 'code = "def score(output, gold, row): return 1"', 'kind = "python"'):
        with pytest.raises(InputError):
            draft.look(form(uploads, metric="python", settings=settings), uploads)
    with pytest.raises(InputError):
        draft.look(form(uploads, settings='kind = "python"\ncode = "def score(o, g, r): return 1"'), uploads)


def test_what_is_typed_is_no_path(uploads: Uploads, tmp_path: Path) -> None:
    for name in ("../escape", "/etc/passwd", "a/b", ""):
        with pytest.raises(InputError, match="the key name is wrong"):
            draft.save(form(uploads, name=name), uploads, tmp_path / "runs")
    with pytest.raises(InputError, match="no size of a test split"):
        draft.look(form(uploads, test="/etc/passwd"), uploads)


def test_a_saved_task_stands_beside_a_copy_of_its_data_and_can_be_started(uploads: Uploads, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    target = draft.save(form(uploads, name="tickets", validation="12", test="0.2"), uploads, runs)
    assert target == runs / "tasks" / "tickets.toml"
    assert sorted(path.name for path in target.parent.iterdir()) == ["tickets-train.jsonl", "tickets.toml"]
    uploads.train.unlink()
    task = read_task(target)
    assert (task.name, task.validation, task.test) == ("tickets", 12, 0.2)
    assert task.train.path == str(target.with_name("tickets-train.jsonl"))
    with pytest.raises(InputError, match="there is a task tickets already"):
        draft.save(form(Uploads(target.with_name("tickets-train.jsonl")), name="tickets"), uploads, runs)


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("rows.py", b"print(1)", "no data file that is known here"),
        ("rows", b"a,b\n1,2\n", "no data file that is known here"),
        ("rows.jsonl", b"a,b\n1,2\n", "is named like JSON and holds CSV"),
        ("rows.csv", b'{"a": 1}\n', "is named like CSV and holds JSON"),
        ("rows.csv", b"PAR1....PAR1", "is named like CSV and holds Parquet"),
        ("rows.csv", gzip.compress(b"a,b\n1,2\n", mtime=0), "holds binary data"),
        ("rows.jsonl", pickle.dumps({"a": 1}), "holds binary data"),
        ("rows.parquet", b"PAR1....PAR1", "is no readable Parquet file"),
    ],
)
def test_an_upload_is_what_its_content_says(tmp_path: Path, name: str, content: bytes, why: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=why):
        accept(path)


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with path.open("wb") as file:
        file.truncate(2**30)  # a gigabyte that takes no space
    with pytest.raises(InputError, match="has 1,024 MiB, more than 100"):
        accept(path)


def test_a_small_parquet_file_that_unpacks_to_millions_of_rows_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.parquet"
    write_parquet(path, "SELECT 'x' AS question, 'y' AS answer FROM range(3_000_000)")
    assert path.stat().st_size < 100_000
    with pytest.raises(InputError, match="unpacks to 3,000,000 rows"):
        accept(path)


def test_a_parquet_file_becomes_a_task(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    write_parquet(path, "SELECT 'What is item ' || i AS question, 'thing ' || i AS answer FROM range(40) t(i)")
    uploads = Uploads(accept(path))
    assert draft.prompts(draft.look(form(uploads), uploads)).count("the gold scores 1;") == 10


def test_what_stands_in_a_file_is_shown_as_text(tmp_path: Path) -> None:
    rows = [{"question": f"<script>alert({n})</script> or {n}?", "answer": f"<img src={n}>"} for n in range(40)]
    uploads = Uploads(write_rows(tmp_path / "rows.jsonl", rows))
    looked = draft.look(form(uploads), uploads)
    shown = draft.prompts(looked) + draft.sizes(looked) + draft.reasons(draft.guessed(uploads))
    assert "<script" not in shown
    assert "<img" not in shown


def test_a_saved_task_is_started_as_the_command_line_would(uploads: Uploads, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    draft.save(form(uploads, name="tickets"), uploads, runs)
    assert list(draft.saved(runs)) == ["tickets"]
    task = draft.task_to_start(runs, "tickets", "smollm2", "20m", "3")
    assert task.own is not None
    assert (task.own.name, task.budget.seconds, task.budget.max_trials) == ("tickets", 1200, 3)


@pytest.mark.parametrize(
    ("name", "model", "budget", "trials", "why"),
    [
        ("../../etc/passwd", "smollm2", "20m", "", "there is no task"),
        ("", "smollm2", "20m", "", "no task is chosen"),
        ("tickets", "/etc", "20m", "", "is no model"),
        ("tickets", "../models/mine", "20m", "", "is no model"),
        ("tickets", "--serve", "20m", "", "is no model"),
        ("tickets", "smollm2", "5s", "", "too small for one trial"),
        ("tickets", "smollm2", "20m --list", "", "is no duration"),
        ("tickets", "smollm2", "20m", "many", "is no whole number"),
    ],
)
def test_what_cannot_be_started_is_refused(
    uploads: Uploads, tmp_path: Path, name: str, model: str, budget: str, trials: str, why: str
) -> None:
    draft.save(form(uploads, name="tickets"), uploads, tmp_path / "runs")
    with pytest.raises(InputError, match=why):
        draft.task_to_start(tmp_path / "runs", name, model, budget, trials)
