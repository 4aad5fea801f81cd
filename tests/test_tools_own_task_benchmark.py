"""A person's own task is a benchmark like any other: revived from its record, split on disk once, scored by a worker
that sees nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from memory.errors import InputError
from memory.layout import write_rows as write_records
from memory.records import Budget, OwnTask, Task
from tests.own_tasks import labelled, questions, task_of, write_rows
from tests.score_engines import real, real_model
from tools import benchmarks
from tools.benchmarks.splits import Sizes, manifest_path, read_findings, read_items, split_path, verify, write_splits
from tools.scoring import Evaluation, evaluate
from tools.serving import Server
from tools.warm_engine import WarmEngine

SPLITS = ("train", "validation", "test")


def asked(own: OwnTask | None, name: str = "mine") -> Task:
    return Task(base_model="smollm2", benchmark=name, own=own, metric="accuracy", budget=Budget(seconds=900))


def test_a_task_revives_as_a_benchmark(tmp_path: Path) -> None:
    own = task_of(tmp_path, labelled(yes=30, no=30), description="yes or no", licence="MIT")
    benchmark = benchmarks.of(Task.model_validate_json(asked(own).model_dump_json()))
    assert (benchmark.name, benchmark.title, benchmark.licence) == ("mine", "yes or no", "MIT")
    assert (benchmark.metric, benchmark.closed_answers, benchmark.generated) == ("accuracy", ("no", "yes"), False)
    assert benchmarks.of(asked(own.model_copy(update={"templated": True}))).generated
    assert benchmark.source == f"data.jsonl ({own.train.sha256[:12]})"
    item = next(iter(benchmark.draw("train", 0)))
    assert benchmark.grade(f" {item.answer}\n", item).score == 1
    assert benchmark.grade("I do not know", item).answer is None


def test_a_task_of_the_table_stays_what_it_was() -> None:
    assert benchmarks.of(asked(None, "syllogism")) is benchmarks.get("syllogism")
    with pytest.raises(InputError, match="Did you mean syllogism"):
        benchmarks.of(asked(None, "sylogism"))


def test_splits_are_written_once_and_then_need_no_file_of_the_persons(tmp_path: Path) -> None:
    rows = [*labelled(yes=40, no=40), {"question": "", "answer": "yes"}]
    own = task_of(tmp_path, rows)
    data, sealed = tmp_path / "run" / "data", tmp_path / "run" / "sealed"
    manifest = write_splits(benchmarks.of(asked(own)), data, sealed, Sizes(), 0)
    assert manifest.sizes == Sizes(train=48, validation=16, test=16)
    found = read_findings(data)
    assert found is not None
    assert found.found[0].says == "1 row with an empty question: left out (data.jsonl row 81)"
    (tmp_path / "data.jsonl").unlink()
    shutil.move(tmp_path / "run", tmp_path / "moved")
    data, sealed = tmp_path / "moved" / "data", tmp_path / "moved" / "sealed"
    assert write_splits(benchmarks.of(asked(own)), data, sealed, Sizes(), 0) == manifest
    verify(manifest, data, sealed)
    items = read_items(split_path("test", data, sealed))
    text = "".join(path.read_text() for path in data.iterdir())
    assert not any(item.prompt in text for item in items), "the test is sealed"
    assert (sealed / "test.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_file_that_changed_before_the_splits_were_written_is_refused(tmp_path: Path) -> None:
    own = task_of(tmp_path, questions(40))
    write_rows(tmp_path / "data.jsonl", questions(50))
    with pytest.raises(InputError, match=r"data.jsonl has changed since the task was read"):
        write_splits(benchmarks.of(asked(own)), tmp_path / "a", tmp_path / "b", Sizes(), 1)


def test_a_folder_of_other_data_is_refused(tmp_path: Path) -> None:
    own = task_of(tmp_path, questions(40))
    write_splits(benchmarks.of(asked(own)), tmp_path / "a", tmp_path / "b", Sizes(), 0)
    other = task_of(tmp_path, questions(41))
    with pytest.raises(InputError, match=r"holds other splits: mine from data.jsonl"):
        write_splits(benchmarks.of(asked(other)), tmp_path / "a", tmp_path / "b", Sizes(), 0)
    assert read_findings(tmp_path / "b") is None
    assert manifest_path(tmp_path / "a").exists()


@pytest.mark.engine
def test_the_real_scorer_revives_a_task_from_its_request(tmp_path: Path) -> None:
    """An answer in a few words, a function of the person's and a metric of overlap: one server and one lighteval."""
    (tmp_path / "metric.py").write_text("def score(output, gold, row):\n    return gold in output or len(output) > 0\n")
    own = task_of(tmp_path, labelled(yes=30, no=30))
    items = tmp_path / "items.jsonl"
    write_records(items, list(benchmarks.named("mine", own).draw("validation", 0)))
    model = real_model()
    metrics = ({"kind": "exact_match"}, {"kind": "python", "file": "metric.py"}, {"kind": "token_f1"})
    values = []
    with (
        Server(real("vllm"), model, tmp_path / "server") as server,
        WarmEngine(real("lighteval"), tmp_path / "warm") as warm,
    ):
        for number, metric in enumerate(metrics):
            benchmark = benchmarks.named("mine", task_of(tmp_path, labelled(yes=30, no=30), metric=metric))
            asked = Evaluation(name="validation", split="validation", items=str(items))
            (score,) = evaluate(warm, server, benchmark, Path(model.path), [asked], tmp_path / f"{number}")
            assert (score.n, score.metric) == (12, benchmark.metric)
            values.append(score.value)
    assert values[1] == 1, "the function gives every output its mark"
    assert values[0] < 1
