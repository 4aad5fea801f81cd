"""Tokens per second of our training beside a bare `axolotl train` of the same file: `python -m tests.bench_training`.

Both get the same rendered YAML, rows and base model, one after the other, in turns. `loop` counts the time of the
optimiser steps, `whole` all of the process: start-up, steps, and writing what was trained (ours also merges the adapter
into whole weights, which the bare command leaves to a second one).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import reasoning_gym

from memory.records import BaseModelCard, TrainingRecipe
from tools import base_models, process
from tools.engines import environments
from tools.engines.contract import OFFLINE, REPOSITORY, Engine
from tools.training.engine import train

ROWS = 160
TURNS = 2
AIM = 0.97
"""Of the bare command's tokens per second."""
RECIPE = TrainingRecipe(learning_rate=1e-3, epochs=1, batch_size=8, micro_batch=8, lora_rank=16)


def measure() -> list[dict[str, Any]]:
    """One row per figure and program: `figure`, `program`, `tokens_per_s` (median of TURNS), `share` of the bare."""
    engine, model = real_training()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        data = write_rows(folder / "data.jsonl")
        turns = [one_turn(engine, model, data, folder) for _ in range(TURNS)]
    rows = []
    for figure in ("loop", "whole"):
        speeds = {program: median(turn[program, figure] for turn in turns) for program in ("axolotl train", "ours")}
        for program, speed in speeds.items():
            share = speed / speeds["axolotl train"]
            rows.append({"figure": figure, "program": program, "tokens_per_s": round(speed), "share": round(share, 3)})
    return rows


def real_training() -> tuple[Engine, BaseModelCard]:
    """The real Axolotl and the embedded model, set up where they are missing."""
    cache = environments.cache_folder(os.environ)
    ready = environments.ensure(environments.specs("cpu")["train"], cache, print)
    model = base_models.resolve("smollm2", cache=cache, train_python=ready.python, say=print)
    return Engine("axolotl", ready.python, environments.ENGINES / "axolotl" / "worker.py"), model


def write_rows(path: Path) -> Path:
    """Syllogisms as a training file."""
    with path.open("w") as file:
        for number, item in enumerate(reasoning_gym.create_dataset("syllogism", size=ROWS, seed=11)):
            messages = [
                {"role": "user", "content": item["question"]},
                {"role": "assistant", "content": item["answer"]},
            ]
            file.write(json.dumps({"id": str(number), "messages": messages, "source": "syllogism"}) + "\n")
    return path


def one_turn(engine: Engine, model: BaseModelCard, data: Path, folder: Path) -> dict[tuple[str, str], float]:
    """Tokens per second of both programs, by program and figure."""
    target = folder / "ours"
    shutil.rmtree(target, ignore_errors=True)
    began = time.monotonic()
    run = train(engine, RECIPE, model, data, target, device="cpu", deadline_s=3600)
    whole = time.monotonic() - began
    loop, bare = bare_train(engine.python, target / "axolotl.yml", folder / "bare.log")
    return {
        ("ours", "loop"): run.tokens / run.train_seconds,
        ("ours", "whole"): run.tokens / whole,
        ("axolotl train", "loop"): run.tokens / loop,
        ("axolotl train", "whole"): run.tokens / bare,
    }


def bare_train(python: Path, config: Path, log: Path) -> tuple[float, float]:
    """Seconds of the steps, by the trainer's own summary, and of the whole command."""
    log.unlink(missing_ok=True)
    began = time.monotonic()
    argv = [python.with_name("axolotl"), "train", config, "--launcher", "python"]
    code = process.run(argv, log=log, env={**OFFLINE, "PYTHONPATH": str(REPOSITORY)}, timeout_s=3600)
    whole = time.monotonic() - began
    summary = re.search(r"'train_runtime': '?([\d.]+)", log.read_text())
    if code != 0 or summary is None:
        raise SystemExit(f"axolotl train ended with {code}; see {log}: {log.read_text()[-500:]}")
    return float(summary.group(1)), whole


def main() -> None:
    """Print the table."""
    print(f"{'figure':<8}{'program':<16}{'tokens/s':>9}{'share':>8}{'aim':>9}")
    for row in measure():
        aim = f">= {AIM}" if row["program"] == "ours" else ""
        print(f"{row['figure']:<8}{row['program']:<16}{row['tokens_per_s']:>9}{row['share']:>8.2f}{aim:>9}")


if __name__ == "__main__":
    main()
