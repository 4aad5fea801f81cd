"""A person's own task as a benchmark, revived from its record alone: the scorer needs no file."""

from __future__ import annotations

from collections.abc import Iterator

from memory.records import OwnTask
from tools import metrics
from tools.benchmarks.benchmark import Benchmark, Item, Split
from tools.benchmarks.measures import Mean
from tools.own_task.splitting import own_splits
from tools.own_task.survey import files_of

SHOWN_HASH = 12
"""Digits of a file's hash that identify it for a person."""
MEASURES = {
    "exact_match": "accuracy",
    "numeric": "accuracy",
    "multiple_choice": "accuracy",
    "regex": "accuracy",
    "token_f1": "token F1",
    "rouge_l": "ROUGE-L",
    "json_fields": "field accuracy",
    "python": "score",
}
"""What the mean of each metric over items is called; of all of them more is better, and 1 is the most."""


def benchmark_of(task: OwnTask) -> Benchmark:
    """The benchmark. Only drawing items reads the person's files."""

    def draw(split: Split, seed: int) -> Iterator[Item]:
        yield from own_splits(task, seed).items[split]

    return Benchmark(
        name=task.name,
        title=task.description or f"{task.name}, a task of your own",
        source=source_of(task),
        licence=task.licence,
        draw=draw,
        grade=metrics.grader(task.metric, task.answers),
        max_new_tokens=task.max_new_tokens,
        closed_answers=task.answers,
        generated=task.templated,
        measure=Mean(MEASURES[task.metric.kind]),
        own=task,
    )


def source_of(task: OwnTask) -> str:
    """The files with their hashes, in words."""
    files = files_of(task).values()
    return ", ".join(f"{file.path.rpartition('/')[2]} ({file.sha256[:SHOWN_HASH]})" for file in files)
