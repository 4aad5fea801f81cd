"""Makes the items of one of lighteval's own tasks: files of items, from the hub's data set or a folder of it."""

from __future__ import annotations

import logging
import random
import sys
from pathlib import Path

from memory.layout import sha256_of, write_rows
from tools.benchmarks.benchmark import Item
from tools.benchmarks.lighteval_tasks import DocumentsRequest
from tools.benchmarks.splits import MOST_ITEMS
from tools.engines import worker_io
from tools.engines.lighteval import builtin


def answer(folder: Path) -> None:
    """Write `evaluation.jsonl` and `train.jsonl`. A training row whose gold its own metric does not accept is left out:
    nothing right could be learnt from it."""
    random.seed(0)  # some tasks shuffle the choices of a question
    request = DocumentsRequest.model_validate(worker_io.read_request(folder))
    known, metric = request.task, builtin.metric_of(request.task)
    made = builtin.Documents(known, request.shots, request.data)
    evaluation = made.of(known.evaluation)
    ungraded = 0

    def accepted(item: Item) -> bool:
        nonlocal ungraded
        good = builtin.grade(metric, item.answer, item).score == 1
        ungraded += not good
        return good

    train = made.of((known.train,), accepted, MOST_ITEMS) if known.train else []
    paths = {name: folder / f"{name}.jsonl" for name in ("evaluation", "train")}
    write_rows(paths["evaluation"], evaluation)
    write_rows(paths["train"], train)
    hashes = {f"{name}_sha256": sha256_of(path) for name, path in paths.items()}
    worker_io.finish(folder, {**hashes, "ungraded": ungraded})


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    with worker_io.reporting(sys.argv[1]):
        answer(Path(sys.argv[1]))
