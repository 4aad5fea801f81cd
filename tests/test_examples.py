"""The worked examples: their data is what the generator makes, and each goes from its file to a tuned model."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.own_tasks import said
from tests.test_whole_run import Runs
from tools import benchmarks
from tools.benchmarks.splits import read_findings
from tools.own_task.splitting import own_splits
from tools.own_task.task_file import read_task

EXAMPLES = Path(__file__).parents[1] / "examples"
NAMES = ("tickets", "orders", "shopping")
SIZES = {"tickets": (138, 51, 60), "orders": (180, 60, 60), "shopping": (180, 66, 81)}
"""Rows of training, validation and test."""


def test_the_data_is_what_the_generator_makes(tmp_path: Path) -> None:
    program = "import sys, pathlib, generator; generator.write(pathlib.Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], cwd=EXAMPLES, check=True)
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (EXAMPLES / path.name).read_bytes(), path.name
    assert len(list(tmp_path.iterdir())) == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_read_split_and_scored(name: str) -> None:
    task = read_task(EXAMPLES / f"{name}.toml")
    splits = own_splits(task, 0)
    assert tuple(len(splits.items[split]) for split in ("train", "validation", "test")) == SIZES[name]  # type: ignore[index]
    benchmark = benchmarks.named(task.name, task)
    items = [item for part in splits.items.values() for item in part]
    for item, other in zip(items, [*items[1:], items[0]], strict=True):
        assert benchmark.grade(f"{item.answer}\n", item).score == 1
        assert benchmark.grade(other.answer, item).score == 1 or other.answer != item.answer
        assert benchmark.grade("", item).answer is None
        assert "{" not in item.prompt


def test_the_oddities_of_the_tickets_are_found() -> None:
    splits = own_splits(read_task(EXAMPLES / "tickets.toml"), 0)
    assert said(splits, "empty") == ["1 row with an empty question: left out (tickets.csv row 71)"]
    assert said(splits, "duplicate")[0].endswith("left out (tickets.csv row 41)")
    assert ["'Billing' in 4 rows" in line for line in said(splits, "spelling")] == [True, False]
    answers = [item.answer for item in splits.items["test"]]
    assert {answers.count(label) for label in set(answers)} == {12}, "the labels are equally frequent"


def test_a_story_stays_in_one_split() -> None:
    splits = own_splits(read_task(EXAMPLES / "shopping.toml"), 0)
    stories = [{item.columns["story"] for item in items} for items in splits.items.values()]
    assert sum(map(len, stories)) == len(set().union(*stories))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_an_example_becomes_a_tuned_model(name: str, tmp_path: Path) -> None:
    runs = Runs(tmp_path / "runs", tmp_path / "cache")
    command = ("--task", str(EXAMPLES / f"{name}.toml"), "--budget", "20m", "--max-trials", "1", "--plain")
    out, _ = runs.call(*command)
    (folder,) = runs.folders()
    found = read_findings(folder.data)
    assert found is not None
    assert all(one.says in out for one in found.found), "what was found is said before anything trains"
    report = json.loads((folder.root / "report.json").read_text())
    assert report["task"]["benchmark"] == report["task"]["own"]["name"] == name
    assert report["test"]["tuned"]["n"] == SIZES[name][2]
    assert report["decision"]["outcome"] == "improved"
