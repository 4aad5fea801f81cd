"""Splits on disk: disjoint, written once, checked by hash, and the test sealed."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from memory.errors import InputError, StorageError
from tools.benchmarks import BENCHMARKS, get
from tools.benchmarks.benchmark import Benchmark, Item, Split
from tools.benchmarks.splits import Sizes, manifest_path, read_items, split_path, verify, write_splits
from tools.decontamination import normalised

SMALL = Sizes(train=60, validation=20, test=30)
SPLITS: tuple[Split, ...] = ("train", "validation", "test")


def places(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "data", tmp_path / "sealed"


@pytest.mark.parametrize(
    "benchmark", [each for each in BENCHMARKS.values() if not each.fixed], ids=lambda each: each.name
)
def test_no_question_is_in_two_splits_or_twice_in_one(benchmark: Benchmark, tmp_path: Path) -> None:
    data, sealed = places(tmp_path)
    write_splits(benchmark, data, sealed, Sizes(train=400, validation=200, test=200), 0)
    questions = [normalised(item.prompt) for split in SPLITS for item in read_items(split_path(split, data, sealed))]
    assert len(questions) == 800
    assert len(set(questions)) == 800


def test_the_test_split_is_closed_to_others(tmp_path: Path) -> None:
    data, sealed = places(tmp_path)
    write_splits(get("syllogism"), data, sealed, SMALL, 0)
    assert sealed.stat().st_mode & 0o777 == 0o700
    assert (sealed / "test.jsonl").stat().st_mode & 0o777 == 0o600
    text = "".join(path.read_text() for path in data.iterdir())
    assert not any(item.prompt in text for item in read_items(sealed / "test.jsonl"))


def test_a_second_call_checks_and_does_not_rewrite(tmp_path: Path) -> None:
    data, sealed = places(tmp_path)
    first = write_splits(get("aiw"), data, sealed, SMALL, 7)
    times = {path: path.stat().st_mtime_ns for path in [*data.iterdir(), *sealed.iterdir()]}
    assert write_splits(get("aiw"), data, sealed, SMALL, 7) == first
    assert times == {path: path.stat().st_mtime_ns for path in [*data.iterdir(), *sealed.iterdir()]}


@pytest.mark.parametrize("name", ["data/train.jsonl", "data/test_fingerprints.json", "sealed/test.jsonl"])
def test_an_altered_file_is_named(name: str, tmp_path: Path) -> None:
    data, sealed = places(tmp_path)
    manifest = write_splits(get("aiw"), data, sealed, SMALL, 0)
    path = tmp_path / name
    path.write_text(path.read_text().replace("brothers", "bothers", 1) + " ")
    with pytest.raises(StorageError, match=f"{path.name} was altered"):
        write_splits(get("aiw"), data, sealed, SMALL, 0)
    if name.startswith("sealed"):
        verify(manifest, data, None)


def test_splits_of_another_seed_are_not_taken_for_these(tmp_path: Path) -> None:
    data, sealed = places(tmp_path)
    write_splits(get("aiw"), data, sealed, SMALL, 0)
    with pytest.raises(InputError, match="holds other splits: aiw"):
        write_splits(get("aiw"), data, sealed, SMALL, 1)


def test_splits_cut_short_by_a_crash_are_written_anew(tmp_path: Path) -> None:
    data, sealed = places(tmp_path)
    first = write_splits(get("syllogism"), data, sealed, SMALL, 0)
    manifest_path(data).unlink()
    (data / "train.jsonl").write_text("half a li")
    assert write_splits(get("syllogism"), data, sealed, SMALL, 0) == first


def test_a_benchmark_with_too_few_questions_says_how_many_it_has(tmp_path: Path) -> None:
    data, sealed = places(tmp_path)

    def draw(split: Split, seed: int) -> Iterator[Item]:
        for index in range(100):
            yield Item(id=f"{split}-{index}", prompt=f"How much is {index % 45} and 1?", answer="?", reference="{}")

    few = replace(get("syllogism"), name="few", draw=draw)
    with pytest.raises(InputError, match="only 15 distinct validation questions beside the other splits, not 20"):
        write_splits(few, data, sealed, SMALL, 0)


def fixed(rows: dict[Split, list[str]]) -> Benchmark:
    """A benchmark with splits of its own: questions of twenty words."""

    def draw(split: Split, seed: int) -> Iterator[Item]:
        for name in rows[split]:
            text = " ".join(f"{name}{word}" for word in range(20))
            yield Item(id=f"{split}-{name}", prompt=text.replace("changed", ""), answer="?", reference="{}")

    return replace(get("syllogism"), name="fixed", draw=draw, drawn_from=lambda store: draw, generated=False)


def test_a_benchmarks_own_splits_are_taken_whole_and_lose_what_is_held_out_elsewhere(tmp_path: Path) -> None:
    data, sealed = places(tmp_path)
    rows: dict[Split, list[str]] = {
        "test": ["a", "b", "c"],
        "validation": ["c", "d", "e"],
        "train": ["a", "e", "f", "f"],
    }
    manifest = write_splits(fixed(rows), data, sealed, Sizes(), 0)
    ids = {split: [item.id for item in read_items(split_path(split, data, sealed))] for split in SPLITS}
    assert ids["test"] == ["test-a", "test-b", "test-c"]
    assert ids["validation"] == ["validation-d", "validation-e"]
    assert ids["train"] == ["train-f"]
    assert manifest.splits["validation"].overlap == {"test": 1}
    assert manifest.splits["train"].overlap == {"test": 1, "validation": 1}
    assert manifest.splits["train"].duplicates == 3
    assert manifest.sizes == Sizes(train=1, validation=2, test=3)
    assert write_splits(fixed(rows), data, sealed, Sizes(), 0) == manifest


def test_training_rows_that_nearly_repeat_a_held_out_question_are_left_out(tmp_path: Path) -> None:
    data, sealed = places(tmp_path)

    def draw(split: Split, seed: int) -> Iterator[Item]:
        for number in range(4):
            words = [
                f"{'held' if split != 'train' or number == 0 else 'own'}{number * 40 + word}" for word in range(40)
            ]
            words[0] = split
            yield Item(id=f"{split}-{number}", prompt=" ".join(words), answer="?", reference="{}")

    near = replace(fixed({}), draw=draw)
    manifest = write_splits(near, data, sealed, Sizes(), 0)
    assert manifest.splits["train"].near_copies == 1
    assert [item.id for item in read_items(data / "train.jsonl")] == ["train-1", "train-2", "train-3"]


def test_a_benchmark_without_training_rows_is_refused(tmp_path: Path) -> None:
    data, sealed = places(tmp_path)
    with pytest.raises(InputError, match="fixed has only 0 distinct train questions, and needs 1"):
        write_splits(fixed({"test": ["a", "b"], "validation": ["c", "d"], "train": ["a"]}), data, sealed, Sizes(), 0)
