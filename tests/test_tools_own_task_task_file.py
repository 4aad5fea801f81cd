"""Task files: every key that is wrong is named with its fix, and what is written reads back the same."""

from pathlib import Path

import pytest

from memory.errors import InputError
from memory.records import OwnTask
from memory.records.metric import Numeric, PythonFunction
from tests.own_tasks import labelled, questions, task_of, write_rows, write_task
from tools.own_task.task_file import TaskFile, read_file, read_task, toml_of

GOOD = 'train = "data.jsonl"\nprompt = "{question}"\n[metric]\nkind = "exact_match"\n'


def written(tmp_path: Path, text: str, name: str = "mine.toml") -> Path:
    if not (tmp_path / "data.jsonl").exists():
        write_rows(tmp_path / "data.jsonl", questions(40))
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_task_holds_all_that_decides_it(tmp_path: Path) -> None:
    task = task_of(tmp_path, labelled(yes=20, no=20), licence="MIT", validation=0.25, test=8)
    assert (task.name, task.licence, task.validation, task.test) == ("mine", "MIT", 0.25, 8)
    assert task.answers == ("no", "yes")
    assert Path(task.train.path).is_absolute()
    assert len(task.train.sha256) == 64
    assert OwnTask.model_validate_json(task.model_dump_json()) == task


def test_paths_are_relative_to_the_task_file_wherever_it_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tasks").mkdir()
    (tmp_path / "elsewhere").mkdir()
    write_task(tmp_path / "tasks", questions(40))
    monkeypatch.chdir(tmp_path / "elsewhere")
    task = read_task(Path("../tasks/mine.toml"))
    assert Path(task.train.path).resolve() == tmp_path / "tasks" / "data.jsonl"


def test_the_file_names_the_task_that_has_no_name(tmp_path: Path) -> None:
    assert read_task(written(tmp_path, GOOD, "Support-Tickets.toml")).name == "support-tickets"


def test_a_function_of_the_persons_is_kept_as_its_text(tmp_path: Path) -> None:
    code = "def score(output, gold, row):\n    return output.strip() == gold\n"
    (tmp_path / "metric.py").write_text(code)
    task = task_of(tmp_path, questions(40), metric={"kind": "python", "file": "metric.py"})
    assert task.metric == PythonFunction(code=code)


def test_what_is_written_reads_back_the_same(tmp_path: Path) -> None:
    file = TaskFile(
        name="mine", description='with "quotes"', train="data.jsonl", validation=0.2, test=50, prompt="{question}\n\n?",
        answers=("yes", "no"), group="customer", metric={"kind": "numeric", "absolute": 0.5},
    )  # fmt: skip
    text = toml_of(file, {"prompt": "what the model is asked", "metric": "numbers"}, ["Guessed."])
    assert read_file(written(tmp_path, text)) == file
    assert text.startswith("# Guessed.\n")
    assert "# what the model is asked\nprompt" in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD.replace("train =", "trian ="), r"mine.toml: the key train is missing. Name the file|no key trian"),
        ('promt = "x"\n' + GOOD, r"mine.toml: there is no key promt. Did you mean prompt\?"),
        ('zzz = "x"\n' + GOOD, r"mine.toml: there is no key zzz. There are: name, description"),
        ('train = "data.jsonl"\n', r"the key metric is missing. Add a table: \[metric\]"),
        (GOOD.replace('"data.jsonl"', "7"), r"the key train is wrong: should be a valid string. Name the file"),
        ('name = "My Task"\n' + GOOD, r"the key name is wrong: .* Use small letters"),
        ('name = "syllogism"\n' + GOOD, r"syllogism is a benchmark of Tunewright's. Set another name"),
        ('shape = "xml"\n' + GOOD, r"the key shape is wrong: should be 'columns', 'alpaca', 'chat' or 'sharegpt'"),
        ('turns = "cut"\n' + GOOD, r"the key turns is wrong: should be 'refuse' or 'fold'"),
        ("validation = true\n" + GOOD, r"the key validation is wrong: .* Write a file name, a number of rows"),
        ("test = 1.5\n" + GOOD, r"the key test is 1.5, and a share lies between 0 and 1. Write a file name"),
        ("test = 0\n" + GOOD, r"a test split of 0 items shows nothing"),
        ('test = "tset.jsonl"\n' + GOOD, r"test names tset.jsonl, and there is no file .*. Paths are relative to mine"),
        (GOOD.replace("data.jsonl", "dta.jsonl"), r"train names dta.jsonl, .* no file .* Did you mean data.jsonl\?"),
        ('stratify = "yes"\n' + GOOD, r"the key stratify is wrong: should be a valid boolean"),
        ("max_new_tokens = 0\n" + GOOD, r"the key max_new_tokens is wrong: should be greater than or equal to 1"),
        ('answers = ["a"]\n' + GOOD, r"the key answers is wrong: .* List at least two answers"),
        ('answers = ["a", "a"]\n' + GOOD, r"mine.toml: answers names one twice. List at least two answers, each once"),
        (GOOD.replace("exact_match", "exact"), r"metric.kind is 'exact'. Write one of: exact_match, numeric"),
        (GOOD.replace("kind", "knd"), r"metric.kind is missing. Write one of: exact_match"),
        (GOOD + "ignore_cse = true\n", r"there is no key metric.ignore_cse. Did you mean ignore_case\?"),
        (GOOD + 'ignore_case = "maybe"\n', r"the key metric.ignore_case is wrong: should be a valid boolean"),
        (GOOD.replace("exact_match", "regex") + 'pattern = "("\n', r"the key metric.* is wrong: the pattern '\('"),
        (GOOD.replace("exact_match", "python"), r"the key metric.code is missing. Name the file with the function"),
        (GOOD.replace("exact_match", "python") + 'file = "no.py"\n', r"metric.file names no.py, and there is no file"),
        ("train = data.jsonl\n", r"mine.toml is no TOML: .*line 1.* Texts stand in quotes"),
        (GOOD.replace("{question}", "{qestion}"), r"data.jsonl row 1 has no column 'qestion'"),
    ],
)  # fmt: skip
def test_a_wrong_key_is_named_with_its_fix(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_task(written(tmp_path, text))


def test_a_task_file_that_cannot_be_read_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"cannot read task file .*none.toml: No such file.* --new-task DATA writes one"
    ):
        read_task(tmp_path / "none.toml")
    path = written(tmp_path, GOOD)
    path.write_bytes(b'description = "caf\xe9"\n')
    with pytest.raises(InputError, match=r"mine.toml is not UTF-8 \(byte 19\)"):
        read_task(path)


def test_data_given_as_a_task_file_is_told_what_makes_one_of_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"mine.csv is data and no task file. .* --new-task .*mine.csv writes one"):
        read_task(tmp_path / "mine.csv")


def test_a_tolerance_reaches_the_metric(tmp_path: Path) -> None:
    rows = [{"question": f"{n} + 1?", "answer": n + 1} for n in range(40)]
    assert task_of(tmp_path, rows, metric={"kind": "numeric", "absolute": 0.5}).metric == Numeric(absolute=0.5)
