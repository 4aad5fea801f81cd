"""What serving and scoring cost with the real engines: `python -m tests.bench_serving`.

A weight swap stands beside its alternative, a new start of the server; a scoring with a warm lighteval beside one that
pays the imports. Needs the score environment and the embedded model.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from memory.layout import read_rows, write_rows
from memory.records import Outcome, Score
from tests.score_engines import other_weights, real, real_model
from tools import benchmarks
from tools.engines.contract import Engine
from tools.scoring import Evaluation, evaluate
from tools.serving import Server
from tools.warm_engine import WarmEngine

BENCHMARK = "syllogism"
ITEMS = 100
SHOTS = 5
SWAPS = 6
AIMS = {"weight swap, proof included": 1.0}
"""Seconds."""


def measure() -> list[dict[str, Any]]:
    """One row per figure: `figure`, `value`, `unit`, `reference` (words with a value, or empty), `aim` (or None)."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = real_model()
        base, other = Path(model.path), other_weights(folder / "other", Path(model.path))
        with Server(real("vllm"), model, folder / "server") as server:
            start = _seconds(server.ensure)
            swaps = [server.load(weights) for weights in (other, base) * (SWAPS // 2)]
            cold, warm, scores = _scorings(server, base, folder)
            starts = server.starts
        outcomes = [outcome for score in scores for outcome in read_rows(Path(score.outcomes), Outcome)]
    tokens = sum(outcome.output_tokens for outcome in outcomes)
    generation = sum(score.generation_seconds for score in scores)
    swap = "weight swap, proof included"
    return [
        _row(swap, median(swaps), "s", f"a new start of the server: {start:.1f} s", AIMS[swap]),
        _row("longest of the swaps", max(swaps), "s", ""),
        _row(f"scoring {2 * ITEMS} items, warm", warm, "s", f"with a new lighteval process: {cold:.1f} s"),
        _row("of it generation", generation, "s", ""),
        _row("items a second while generating", 2 * ITEMS / generation, "1/s", ""),
        _row("output tokens a second", tokens / generation, "1/s", ""),
        _row("server starts", starts, "", "", 1),
    ]


def _scorings(server: Server, base: Path, folder: Path) -> tuple[float, float, list[Score]]:
    """Seconds of a scoring by a new process and by a warm one, and the scores of the second."""
    benchmark = benchmarks.get(BENCHMARK)
    write_rows(folder / "items.jsonl", islice(benchmark.draw("validation", 1), ITEMS))
    write_rows(folder / "examples.jsonl", islice(benchmark.draw("train", 1), SHOTS))
    items, examples = str(folder / "items.jsonl"), str(folder / "examples.jsonl")
    evaluations = [
        Evaluation(name="zero", split="validation", items=items),
        Evaluation(name="few", split="validation", items=items, shots=SHOTS, examples=examples),
    ]

    def score(engine: Engine | WarmEngine, name: str) -> list[Score]:
        return evaluate(engine, server, benchmark, base, evaluations, folder / name)

    cold = _seconds(lambda: score(real("lighteval"), "cold"))
    with WarmEngine(real("lighteval"), folder / "scorer") as warm:
        score(warm, "first")
        began = time.perf_counter()
        scores = score(warm, "second")
        return cold, time.perf_counter() - began, scores


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _row(figure: str, value: float, unit: str, reference: str, aim: float | None = None) -> dict[str, Any]:
    return {"figure": figure, "value": value, "unit": unit, "reference": reference, "aim": aim}


def main() -> None:
    """Print the table."""
    for row in measure():
        aim = f"aim <= {row['aim']:g}" if row["aim"] is not None else ""
        print(f"{row['figure']:<34}{row['value']:>9.2f} {row['unit']:<4}{aim:<10}{row['reference']}")


if __name__ == "__main__":
    main()
