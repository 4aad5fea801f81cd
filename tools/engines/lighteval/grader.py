"""The process that grades outputs with a task's own metric; `tools/benchmarks/lighteval_grader.py` talks to it."""

from __future__ import annotations

import json
import logging
import socket

from tools.benchmarks.benchmark import Item
from tools.benchmarks.lighteval_tasks import KnownTask
from tools.engines.lighteval import builtin
from tools.engines.worker_io import WorkerFailure


def main() -> None:
    """The task, then an output and its item a line, until nobody asks any more. Standard input is the socket."""
    with socket.socket(fileno=0) as own, own.makefile("rwb") as lines:

        def say(**answer: object) -> None:
            lines.write(json.dumps(answer).encode() + b"\n")
            lines.flush()

        metric = builtin.metric_of(KnownTask.model_validate_json(lines.readline()))
        say()
        for line in lines:
            asked = json.loads(line)
            try:
                graded = builtin.grade(metric, asked["output"], Item.model_validate(asked["item"]))
            except WorkerFailure as error:
                say(failed=str(error))
            else:
                say(graded=graded.model_dump(mode="json"))


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    main()
