"""A file of outputs to a benchmark's items, graded without any model, so that anybody can check us."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from memory.errors import InputError
from memory.layout import read_rows
from memory.records import Record, Score
from tools.benchmarks.benchmark import Benchmark, Item
from tools.scoring import score_of

SHOWN = 3
"""Ids that an error names."""


class Prediction(Record):
    """A line of the file. Several lines with one id are samples of one item."""

    id: str
    output: str


def score_file(benchmark: Benchmark, path: Path, items: Sequence[Item]) -> Score:
    """The score of the outputs in a file, with all that is reported beside it.

    Raises InputError for ids that are no items, for items without an output and for an uneven number of samples;
    StorageError with the number of a line that is no prediction.
    """
    known = {item.id: item for item in items}
    predictions = list(read_rows(path, Prediction))
    counts = Counter(prediction.id for prediction in predictions)
    _refuse(path, "are no items of the benchmark", counts.keys() - known.keys())
    _refuse(path, "have no output", known.keys() - counts.keys())
    samples = max(counts.values(), default=0)
    _refuse(path, f"have fewer outputs than others, which have {samples}", {i for i in counts if counts[i] < samples})
    seen: Counter[str] = Counter()
    outcomes = []
    for prediction in predictions:
        outcomes.append(benchmark.outcome(known[prediction.id], prediction.output, sample=seen[prediction.id]))
        seen[prediction.id] += 1
    return score_of(replace(benchmark, samples=samples), outcomes, "test", 0)


def _refuse(path: Path, what: str, ids: set[str]) -> None:
    if ids:
        some = ", ".join(sorted(ids)[:SHOWN])
        raise InputError(
            f"{path}: {len(ids)} ids {what}: {some}", "Give each item of the benchmark one output, by its id."
        )
