"""lighteval's own tasks as benchmarks: what can be named, what is refused, and gsm8k with its real metric."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from memory.errors import InputError
from memory.layout import write_rows
from memory.records import Outcome, Score
from tests import raw_data
from tests.score_engines import fake, fake_model, real
from tools.benchmarks import get, lighteval_tasks
from tools.benchmarks.__main__ import main
from tools.benchmarks.predictions import Prediction
from tools.benchmarks.splits import Sizes, split_path, write_splits
from tools.engines import environments
from tools.raw_data.store import Store
from tools.scoring import Evaluation, evaluate
from tools.serving import Server

ROOT = Path(__file__).parents[1]
QUESTIONS = [
    {"question": f"Ann has {number} pens and buys {number + 3} more at shop {number}. How many has she?",
     "answer": f"She has {number}+{number + 3}={2 * number + 3}.\n#### {2 * number + 3}"}
    for number in range(60)
]  # fmt: skip


def store(tmp_path: Path) -> Store:
    """A cache with the real score environment, and GSM8K's shape in a folder of the person's."""
    real("lighteval")
    given, cache = tmp_path / "data", tmp_path / "cache"
    for folder in (given / "gsm8k", cache):
        folder.mkdir(parents=True)
    (cache / "envs").symlink_to(environments.cache_folder(os.environ) / "envs")
    for split, rows in (("train", QUESTIONS[:40]), ("test", QUESTIONS[40:])):
        (given / f"gsm8k/{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Store(given, cache)


def test_a_task_is_named_with_its_worked_examples() -> None:
    plain, shown = get("lighteval:gsm8k"), get("lighteval:gsm8k|5")
    assert (plain.metric, plain.max_new_tokens, plain.fixed) == ("extractive_match", 256, True)
    assert shown.name == "lighteval:gsm8k|5" and "5 worked examples" in shown.title
    assert len([task for task in lighteval_tasks.table().values() if not task.refused]) > 250


@pytest.mark.parametrize(
    ("name", "says", "near"),
    [
        ("lighteval:arc:easy", "log-probabilities", "lighteval:"),
        ("lighteval:gsm9k", "no task 'gsm9k'", "lighteval:gsm8k"),
        ("lighteval:gsm8k|many", "'many' worked examples", "lighteval:gsm8k|5"),
        ("lighteval:wmt19:en-de", "all outputs at once", "lighteval:"),
        ("lighteval:lcb:codegeneration", "runs the code", "lighteval:"),
    ],
)
def test_what_cannot_be_tuned_for_is_refused_with_what_is_near(name: str, says: str, near: str) -> None:
    with pytest.raises(InputError, match=says) as refused:
        get(name)
    assert near in refused.value.way_out


def test_the_list_names_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "lighteval"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert next(line.split() for line in lines if "gsm8k" in line)[:3] == [
        "lighteval:gsm8k", "extractive_match", "openai/gsm8k",
    ]  # fmt: skip
    assert not any("arc:easy" in line for line in lines)


@pytest.mark.engine
def test_gsm8k_is_split_shown_and_scored_with_lightevals_own_metric(tmp_path: Path) -> None:
    benchmark = get("lighteval:gsm8k", store(tmp_path))
    splits = write_splits(benchmark, tmp_path / "splits", tmp_path / "sealed", Sizes(), 0)
    assert {split: entry.items for split, entry in splits.splits.items()} == {"test": 10, "validation": 10, "train": 40}
    items = list(benchmark.draw("validation", 0))
    assert items[0].prompt.startswith("Question: Ann has") and items[0].prompt.endswith("Answer:")
    for output, score, answer in ((items[0].answer, 1, True), ("It is -1.", 0, True), ("Who knows?", 0, False)):
        graded = benchmark.grade(output, items[0])
        assert (graded.score, graded.answer is not None) == (score, answer)

    server = Server(fake("vllm"), fake_model(tmp_path / "base"), tmp_path / "server")
    path = split_path("validation", tmp_path / "splits", None)
    wanted = Evaluation(name="validation", split="validation", items=str(path))
    with server:
        (score,) = evaluate(real("lighteval"), server, benchmark, tmp_path / "base", [wanted], tmp_path / "eval")
    assert (score.metric, score.n, score.value) == ("extractive_match", 10, 0.0)
    outcomes = [Outcome.model_validate_json(line) for line in Path(score.outcomes).read_text().splitlines()]
    assert (outcomes[0].answer or "").startswith("0.100"), "the stand-in server says how good its weights are"


@pytest.mark.engine
def test_worked_examples_stand_above_each_question_and_are_not_trained_on(tmp_path: Path) -> None:
    benchmark = get("lighteval:gsm8k|3", store(tmp_path))
    train, test = list(benchmark.draw("train", 0)), list(benchmark.draw("test", 0))
    above = test[0].prompt.rpartition("\n\n")[0]
    assert above.count("####") == 3 and all(each.prompt.startswith(above) for each in (*test, *train))
    assert len(train) == 37 and not any(each.prompt.rpartition("\n\n")[2] in above for each in train)


@pytest.mark.engine
def test_outputs_to_the_real_gsm8k_are_scored_from_the_command_line(tmp_path: Path) -> None:
    data, cache = raw_data.real("gsm8k").parent, store(tmp_path).cache
    items = list(get("lighteval:gsm8k", Store(data, cache)).draw("test", 0))
    assert len(items) == 200
    outputs = [
        f"So it is {item.answer.rpartition('#### ')[2]}." if n < 120 else "None." for n, item in enumerate(items)
    ]
    predictions = [Prediction(id=item.id, output=output) for item, output in zip(items, outputs, strict=True)]
    write_rows(tmp_path / "outputs.jsonl", predictions)
    argv = ["score", "lighteval:gsm8k", str(tmp_path / "outputs.jsonl"), "--data-dir", str(data), "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "tools.benchmarks", *argv],
        cwd=ROOT, env={**os.environ, "TUNEWRIGHT_CACHE": str(cache)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    score = Score.model_validate_json(done.stdout)
    assert (score.metric, score.value, score.n, score.parsed) == ("extractive_match", 0.6, 200, 120)


@pytest.mark.engine
def test_data_that_is_nowhere_is_named_with_where_it_comes_from(tmp_path: Path) -> None:
    there = store(tmp_path)
    with pytest.raises(InputError, match="the data of lighteval:jeopardy cannot be read") as refused:
        next(get("lighteval:jeopardy", there).draw("test", 0))
    assert "no folder jeopardy" in refused.value.message and "on the hub" in refused.value.way_out


@pytest.mark.engine
def test_the_table_is_what_the_pinned_lighteval_has(tmp_path: Path) -> None:
    engine = real("lighteval")
    path = tmp_path / "table.jsonl"
    script = environments.ENGINES / "lighteval" / "task_table.py"
    env = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    subprocess.run([engine.python, script, path], check=True, env=env, capture_output=True)
    assert path.read_text() == lighteval_tasks.TABLE.read_text()
