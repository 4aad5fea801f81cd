"""A stand-in for the lighteval worker under the same contract: asks the server for real, quick, no lighteval.

It sends gold and wrong answers with each request, since fake_vllm has no model to think with; grading is the
benchmark's own. It needs only the app's environment.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean
from typing import Any

from memory.layout import read_rows, write_rows
from memory.records import Outcome, OwnTask
from tools import benchmarks
from tools.benchmarks.benchmark import Benchmark, Item
from tools.engines import worker_io
from tools.engines.lighteval import inbox
from tools.engines.vllm.client import Client

CONCURRENCY = 8


def answer(folder: Path) -> None:
    """Run every evaluation of the request in turn."""
    request = worker_io.read_request(folder)
    inputs = json.loads((folder / "inputs.json").read_text())
    own = OwnTask.model_validate(request["own"]) if request["own"] else None
    benchmark = benchmarks.named(request["benchmark"], own)
    work = []
    for wanted in request["evaluations"]:
        files = inputs["files"][wanted["name"]]
        items = list(read_rows(Path(files["items"]), Item))[: wanted["limit"]]
        shown = list(read_rows(Path(files["examples"]), Item))[: wanted["shots"]] if wanted["shots"] else []
        work.append((wanted["name"], items, shown))
    total = sum(len(items) for _, items, _ in work) * request["samples"]
    done, measured = 0, []
    for name, items, shown in work:
        began = time.monotonic()
        outcomes: list[Outcome] = []
        with ThreadPoolExecutor(CONCURRENCY) as pool:
            asked = [pool.submit(ask, item, items, shown, benchmark, request, inputs["socket"]) for item in items]
            for item, future in zip(items, asked, strict=True):
                outcomes += [outcome(item, choice, benchmark) for choice in future.result()]
                done += request["samples"]
                worker_io.progress(folder, done=done, total=total)
        write_rows(folder / name / "outcomes.jsonl", outcomes)
        seconds = time.monotonic() - began
        measured.append(
            {
                "name": name,
                "value": fmean(outcome.score for outcome in outcomes),
                "n": len(items),
                "outcomes_sha256": hashlib.sha256((folder / name / "outcomes.jsonl").read_bytes()).hexdigest(),
                "seconds": seconds,
                "generation_seconds": seconds,
            }
        )
    worker_io.finish(folder, {"evaluations": measured})


def ask(
    item: Item, items: list[Item], shown: list[Item], benchmark: Benchmark, request: dict[str, Any], socket: str
) -> list[dict[str, Any]]:
    """All samples of one item; they are graded in the main thread, as lighteval's are."""
    messages = [
        {"role": role, "content": content}
        for example in shown
        for role, content in (("user", example.prompt), ("assistant", example.answer))
    ]
    wrong = next((other.answer for other in items if benchmark.grade(other.answer, item).score == 0), "nonsense")
    body = {
        "model": request["served_name"],
        "messages": [*messages, {"role": "user", "content": item.prompt}],
        "max_tokens": 10_000,
        "n": request["samples"],
        "temperature": request["temperature"],
        "fake": {"gold": item.answer, "wrong": wrong},
    }
    client = Client(Path(socket))
    choices: list[dict[str, Any]] = client.post("/v1/chat/completions", body)["choices"]
    client.close()
    return choices


def outcome(item: Item, choice: dict[str, Any], benchmark: Benchmark) -> Outcome:
    """One sample, graded."""
    return benchmark.outcome(
        item,
        choice["message"]["content"],
        sample=choice["index"],
        finish=choice["finish_reason"],
        output_tokens=len(choice["token_ids"]),
    )


if __name__ == "__main__":
    for request_folder in inbox.folders(sys.argv[1:]):
        with worker_io.reporting(request_folder):
            answer(request_folder)
