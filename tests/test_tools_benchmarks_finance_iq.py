"""FinanceIQ: letters in outputs as they are read here and as published, and the published splits."""

# ruff: noqa: RUF001  Chinese has commas and colons of its own

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from memory.errors import InputError
from tests import raw_data
from tools.benchmarks import finance_iq
from tools.benchmarks.benchmark import Item
from tools.benchmarks.finance_iq import FINANCE_IQ, SUBJECTS, last_capital, letter
from tools.benchmarks.measures import value_of
from tools.benchmarks.splits import Sizes, write_splits
from tools.raw_data.store import Store

HEADER = ",Question,A,B,C,D,Answer\n"


@pytest.mark.parametrize(
    ("output", "read", "published"),
    [
        ("B", "B", "B"),
        ("答案是: B", "B", "B"),
        ("答案是: B。CPA", "B", "A"),  # the last capital is the A of CPA
        ("A选项错误，B正确。因此答案为Ｂ，与NPV无关", "B", "V"),
        ("正确答案：C。Σ", "C", "Σ"),  # a capital of any alphabet counts there
        ("The answer is D.", "D", "D"),
        ("我不选A，选C", "C", "C"),
        ("ABCD", None, "D"),
        ("答案是: b", None, ""),
        ("", None, ""),
        ("<think>A? B?</think>C", "C", "C"),
    ],
)
def test_letters_in_outputs(output: str, read: str | None, published: str) -> None:
    assert letter(output) == read
    assert last_capital(output) == published


def test_an_output_without_a_letter_is_wrong_and_counts() -> None:
    outcomes = [FINANCE_IQ.outcome(asked(subject), output) for subject, output in (("税务师", "B"), ("经济师", "?"))]
    assert value_of(FINANCE_IQ.measure, outcomes) == 0.5


def test_each_subject_weighs_the_same() -> None:
    outcomes = [FINANCE_IQ.outcome(asked("税务师"), output) for output in "BBB"]
    assert value_of(FINANCE_IQ.measure, [*outcomes, FINANCE_IQ.outcome(asked("经济师"), "C")]) == 0.5


def test_an_odd_row_is_named(tmp_path: Path) -> None:
    file = tmp_path / "经济师.csv"
    file.write_text(HEADER + "0,问?,一,二,三,四,B\n1,问?,一,二,三,四,E\n")
    with pytest.raises(InputError, match=r"row 2 of 经济师\.csv is no question of FinanceIQ"):
        finance_iq.items_of(file)


def test_a_subject_is_cut_at_its_end(tmp_path: Path) -> None:
    def sizes(rows: int) -> tuple[int, ...]:
        items = [asked("税务师")] * rows
        return tuple(len(part) for part in finance_iq.cut(items).values())

    assert sizes(696) == (596, 50, 50)
    assert sizes(88) == (44, 22, 22)
    assert sizes(7) == (3, 2, 2)


def test_the_published_splits_of_the_real_files(tmp_path: Path) -> None:
    store = Store(raw_data.real("financeiq").parent, tmp_path)
    benchmark = FINANCE_IQ.located(store)
    drawn = {split: list(benchmark.draw(split, 0)) for split in ("train", "validation", "test")}
    assert {split: len(items) for split, items in drawn.items()} == {"train": 6179, "validation": 472, "test": 472}
    assert {item.subset for item in drawn["test"]} == set(SUBJECTS)


@pytest.mark.slow
def test_no_training_question_nearly_repeats_a_held_out_one(tmp_path: Path) -> None:
    benchmark = FINANCE_IQ.located(Store(raw_data.real("financeiq").parent, tmp_path))
    manifest = write_splits(benchmark, tmp_path / "data", tmp_path / "sealed", Sizes(), 0)
    assert (manifest.splits["train"].items, manifest.splits["train"].near_copies) == (6177, 2)
    assert manifest.licence == "CC-BY-NC-SA-4.0, non-commercial"


@pytest.mark.slow
def test_preparing_shows_no_question_of_a_file_that_holds_test_questions(tmp_path: Path) -> None:
    said = command(tmp_path, "tools.benchmarks", "prepare", "FinanceIQ_gen", "--data-dir", small(tmp_path))
    assert said.returncode == 0, said.stderr
    assert "columns: index, Question, A, B, C, D, Answer" in said.stderr
    assert "题是什么" not in said.stderr + said.stdout


@pytest.mark.slow
def test_a_run_on_a_folder_of_files_in_the_authors_layout(tmp_path: Path) -> None:
    asked_for = ("--benchmark", "FinanceIQ_gen", "--data-dir", small(tmp_path), "--budget", "20m", "--max-trials", "1")
    done = command(tmp_path, "tests.fake_run", *asked_for, "--plain", "--run-dir", tmp_path / "runs")
    assert done.returncode in (0, 3), done.stderr
    report = json.loads(next((tmp_path / "runs").glob("*/report.json")).read_text())
    assert "non-commercial" in next((tmp_path / "runs").glob("*/data/manifest.json")).read_text()
    assert report["test"]["zero_shot"]["n"] == 30
    assert report["test"]["zero_shot"]["others"]["accuracy_ftdojo"]["n"] == 30


def asked(subject: str) -> Item:
    row: dict[str, object] = {"Question": "问?", "A": "一", "B": "二", "C": "三", "D": "四"}
    return Item(id=subject, prompt=finance_iq.prompt(subject, row), answer="B", subset=subject, reference="{}")


def small(folder: Path) -> Path:
    """Twelve questions of each subject, in the authors' layout."""
    files = folder / "data" / "financeiq" / "test"
    files.mkdir(parents=True)
    for subject in SUBJECTS:
        rows = [f"{n},{subject}的第{n}题是什么？,一{n},二{n},三{n},四{n},{'ABCD'[n % 4]}" for n in range(12)]
        (files / f"{subject}.csv").write_text(HEADER + "\n".join(rows) + "\n")
    return folder / "data"


def command(folder: Path, module: str, *argv: str | Path) -> subprocess.CompletedProcess[str]:
    """A command line of ours, with nothing cached."""
    return subprocess.run(
        [sys.executable, "-m", module, *argv],
        cwd=raw_data.ROOT,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "TUNEWRIGHT_CACHE": str(folder / "cache")},
        capture_output=True,
        text=True,
        timeout=280,
    )
