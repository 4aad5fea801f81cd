"""Answers evaluation requests with lighteval: per-sample outcomes and what lighteval made of them.

`request.json` says what is measured; `inputs.json` beside it says where the server and the files are, which may differ
from one process to the next without making another evaluation of it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Any

from lighteval.logging.evaluation_tracker import EvaluationTracker
from lighteval.pipeline import ParallelismManager, PipelineParameters

from memory.layout import read_rows, write_rows
from memory.records import Outcome, OwnTask
from tools import benchmarks
from tools.benchmarks.benchmark import Benchmark, Item
from tools.benchmarks.lighteval_tasks import PREFIX
from tools.benchmarks.measures import SCORE
from tools.engines import worker_io
from tools.engines.lighteval import builtin, inbox
from tools.engines.lighteval.served_model import ServedModel, ServedModelConfig, ServedResponse
from tools.engines.lighteval.task import ItemsPipeline, ItemsTask, item_of

PROGRESS_SECONDS = 0.25


class Progress:
    """Counts finished samples and says so, not too often."""

    def __init__(self, folder: Path, total: int) -> None:
        self.folder, self.total = folder, total
        self.done = 0
        self.said = 0.0
        self.lock = threading.Lock()

    def add(self, samples: int) -> None:
        """Told by several threads at once."""
        with self.lock:
            self.done += samples
            if self.done == self.total or time.monotonic() - self.said > PROGRESS_SECONDS:
                self.said = time.monotonic()
                worker_io.progress(self.folder, done=self.done, total=self.total)


def answer(folder: Path) -> None:
    """Run every evaluation of the request in turn; the result is written when all are done."""
    request = worker_io.read_request(folder)
    inputs = json.loads((folder / "inputs.json").read_text())
    own = OwnTask.model_validate(request["own"]) if request["own"] else None
    lightevals = request["benchmark"].startswith(PREFIX)
    benchmark = (
        builtin.benchmark_of(request["benchmark"]) if lightevals else benchmarks.named(request["benchmark"], own)
    )
    work = [(wanted, *rows_of(wanted, inputs["files"][wanted["name"]])) for wanted in request["evaluations"]]
    progress = Progress(folder, sum(len(items) for _, items, _ in work) * request["samples"])
    measured = []
    for wanted, items, shown in work:
        task = ItemsTask(wanted["name"], benchmark, request, items, shown)
        measured.append(evaluate(folder / wanted["name"], task, benchmark, request, inputs["socket"], progress))
    worker_io.finish(folder, {"evaluations": measured})


def rows_of(wanted: dict[str, Any], files: dict[str, Any]) -> tuple[list[Item], list[Item]]:
    """Items to score and examples to show, the first of each file; both files must be the ones that were asked for."""
    items = read(files["items"], wanted["items_sha256"])[: wanted["limit"]]
    shown = read(files["examples"], wanted["examples_sha256"])[: wanted["shots"]] if wanted["shots"] else []
    if len(shown) < wanted["shots"]:
        raise worker_io.WorkerFailure("DATA", f"{len(shown)} examples where {wanted['shots']} are to be shown")
    return items, shown


def read(path: str, sha256: str) -> list[Item]:
    """The items of a file."""
    if hashlib.sha256(Path(path).read_bytes()).hexdigest() != sha256:
        raise worker_io.WorkerFailure("DATA", f"{path} was changed since it was asked for")
    return list(read_rows(Path(path), Item))


def evaluate(
    folder: Path, task: ItemsTask, benchmark: Benchmark, request: dict[str, Any], socket: str, progress: Progress
) -> dict[str, Any]:
    """Run lighteval on one task; its own details become the outcomes."""
    began = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    config = ServedModelConfig(
        model_name=request["served_name"],
        socket=socket,
        temperature=request["temperature"],
        seed=request["seed"],
        cache_dir=str(folder / "cache"),
    )
    model = ServedModel(config, progress.add)
    pipeline = ItemsPipeline(
        task,
        # lighteval's own standard error is not used, and not computed: it is far too small.
        pipeline_parameters=PipelineParameters(
            launcher_type=ParallelismManager.CUSTOM, bootstrap_iters=0, remove_reasoning_tags=False
        ),
        evaluation_tracker=EvaluationTracker(output_dir=str(folder / "lighteval"), save_details=True),
        model=model,
    )
    pipeline.evaluate()
    pipeline.save_and_push_results()
    shutil.rmtree(folder / "cache")
    outcomes = outcomes_of(pipeline, task, benchmark)
    path = folder / "outcomes.jsonl"
    write_rows(path, outcomes)
    return {
        "name": task.name,
        "value": float(pipeline.evaluation_tracker.metrics_logger.metric_aggregated[task.full_name][SCORE]),
        "n": len(task.rows["items"]),
        "outcomes_sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "seconds": time.monotonic() - began,
        "generation_seconds": model.generation_seconds,
    }


def outcomes_of(pipeline: ItemsPipeline, task: ItemsTask, benchmark: Benchmark) -> list[Outcome]:
    """lighteval's details as outcomes, in the order of the items (lighteval shuffles). Each document's score must be
    the one that lighteval used."""
    details = sorted(pipeline.get_details()[task.full_name], key=lambda detail: int(detail.doc.id))
    outcomes = []
    for detail in details:
        made = outcomes_of_doc(item_of(detail.doc), detail.model_response, benchmark)
        mean = sum(outcome.score for outcome in made) / len(made)
        if abs(mean - detail.metric[SCORE]) > 1e-9:
            raise worker_io.WorkerFailure("ENV", f"{made[0].id}: {mean} here, {detail.metric} in lighteval's details")
        outcomes += made
    return outcomes


def outcomes_of_doc(item: Item, response: ServedResponse, benchmark: Benchmark) -> list[Outcome]:
    """One outcome for each sample of an item."""
    samples = zip(response.text, response.finish, response.output_tokens, strict=True)
    return [
        benchmark.outcome(item, text, sample=sample, finish=finish, output_tokens=len(tokens))
        for sample, (text, finish, tokens) in enumerate(samples)
    ]


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    for request_folder in inbox.folders(sys.argv[1:]):
        with worker_io.reporting(request_folder):
            answer(request_folder)
