"""AIME: boxed numbers, eight samples of each problem, the published scorer beside ours, splits by exam."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.raw_data import put, real
from tools.benchmarks import get
from tools.benchmarks.aime import PUBLISHED, TRAINING, boxed
from tools.benchmarks.benchmark import Item
from tools.benchmarks.splits import Sizes, read_items, split_path, write_splits
from tools.raw_data.store import Store
from tools.scoring import score_of

PROBLEM = Item(id="x", prompt="How many?", answer="\\boxed{25}", reference='{"answer": "025"}')


@pytest.mark.parametrize(
    ("output", "score", "published"),
    [
        ("so $\\boxed{25}$", 1, 1),
        ("it is \\boxed{025}.", 1, 1),
        ("\\boxed{24} no, \\boxed{25}", 1, 1),
        ("\\boxed{\\frac{50}{2}}", 1, 1),
        ("<think>\\boxed{3}</think> \\boxed{25}", 1, 1),
        ("<think>\\boxed{25}</think> I do not know.", 0, 0),
        ("\\boxed{24 or 25}", 0, 0),
        ("The answer is 25.", 0, 0),
        ("The answer is $25$.", 0, 1),
        ("\\boxed{25", 0, 0),
        ("", 0, 0),
    ],
)
def test_a_box_holds_the_answer(output: str, score: int, published: int) -> None:
    graded = get("aime24").grade(output, PROBLEM)
    assert (graded.score, graded.values[PUBLISHED]) == (score, published)
    assert graded.answer is not None or score == 0


def test_braces_within_a_box_belong_to_it() -> None:
    assert boxed("\\boxed{\\text{about } \\frac{1}{2}} and") == "\\text{about } \\frac{1}{2}"
    assert boxed("no box") is None


def test_pass_at_8_stands_beside_the_mean_of_eight_samples() -> None:
    benchmark = get("aime25")
    other = PROBLEM.model_copy(update={"id": "y"})
    outputs = {"x": ["\\boxed{25}"] * 2 + ["\\boxed{1}"] * 6, "y": ["\\boxed{1}"] * 8}
    outcomes = [
        benchmark.outcome(item, output, sample=number)
        for item in (PROBLEM, other)
        for number, output in enumerate(outputs[item.id])
    ]
    score = score_of(benchmark, outcomes, "test", 0)
    assert (score.metric, score.value, score.n) == ("avg@8", 0.125, 2)
    assert score.others["pass@8"].value == 0.5
    fewer = score_of(replace(benchmark, samples=2), [one for one in outcomes if one.sample < 2], "test", 0)
    assert fewer.unmeasured == {"pass@8": "it needs 8 samples of each item"}


def test_the_real_exams_are_halves_and_older_problems_train(tmp_path: Path) -> None:
    store = Store(real("aime").parent, tmp_path)
    benchmark = get("aime24", store)
    manifest = write_splits(benchmark, tmp_path / "data", tmp_path / "sealed", Sizes(), 0)
    assert (manifest.sizes.validation, manifest.sizes.test) == (15, 15)
    items = {split: read_items(split_path(split, tmp_path / "data", tmp_path / "sealed")) for split in manifest.splits}
    assert items["test"][0].answer == "\\boxed{73}"
    assert manifest.sizes.train > 900
    assert all(benchmark.grade(item.answer, item).score == 1 for item in items["train"][:40])


def test_both_layouts_of_a_source_hold_the_same_items(tmp_path: Path) -> None:
    store = Store(tmp_path, tmp_path / "cache")
    benchmark = get("aime24", store)
    put(store, benchmark.held_out[0], [{"id": n, "problem": f"What is {n}?", "answer": str(n)} for n in range(30)])
    put(store, TRAINING, [{"problem": "Half?", "answer": "1/2", "solution": ""}, {"problem": "1+1?", "answer": "2"}])
    assert [item.answer for item in benchmark.draw("validation", 0)] == [f"\\boxed{{{n}}}" for n in range(15)]
    assert [item.prompt.splitlines()[0] for item in benchmark.draw("train", 0)] == ["1+1?"]
