"""The training engines of the tests, a quick stand-in and the real one, with models, rows and recipes for both."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from memory.records import BaseModelCard, TrainingRecipe
from tools import base_models, benchmarks
from tools.engines import environments
from tools.engines.contract import Engine
from tools.training.start import Start

TESTS = Path(__file__).parent
RECIPE = TrainingRecipe(learning_rate=2e-3, epochs=2, sequence_len=256)
"""For the stand-in: ten steps on the rows of `write_data`."""
SMALL = TrainingRecipe(learning_rate=1e-3, epochs=2, batch_size=4, micro_batch=4, lora_rank=4, sequence_len=128)
"""For the real engine."""


def quick(**faults: str) -> Engine:
    """The stand-in; `faults` as its own docstring names them."""
    return Engine("axolotl", Path(sys.executable), TESTS / "fake_axolotl.py", faults)


def small_model(folder: Path) -> BaseModelCard:
    """A model that only the stand-in can train."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"vocab_size": 1000}))
    return BaseModelCard(
        name="small", path=str(folder), chat_template="own", sha256="b" * 64, parameters=10**8, hidden_size=64, layers=2
    )  # fmt: skip


def write_data(path: Path, rows: int = 40) -> Path:
    """Sums to learn, as a training file."""
    lines = [
        {"id": str(n), "source": "sums", "messages": [
            {"role": "user", "content": f"What is {n} and {n % 7}?"}, {"role": "assistant", "content": str(n + n % 7)},
        ]}
        for n in range(rows)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def real_axolotl() -> Engine:
    """The real Axolotl; skips the test where the train environment is not set up."""
    cache = environments.cache_folder(os.environ)
    ready = environments.installed(environments.specs(environments.detect_hardware())["train"], cache)
    if ready is None:
        pytest.skip("the train environment is not set up: make setup")
    return Engine("axolotl", ready.python, environments.ENGINES / "axolotl" / "worker.py")


def smollm2(real: Engine) -> BaseModelCard:
    """The embedded model."""
    cache = environments.cache_folder(os.environ)
    return base_models.resolve("smollm2", cache=cache, train_python=real.python, say=lambda _: None)


def tensors(weights: Path) -> dict[str, tuple[str, list[int]]]:
    """Names, types and shapes in a safetensors file."""
    with (weights / "model.safetensors").open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    return {name: (each["dtype"], each["shape"]) for name, each in header.items() if name != "__metadata__"}


def read_tensor(file: Path, name: str) -> NDArray[np.float32]:
    """One tensor of a safetensors file, as fp32."""
    content = file.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    entry = json.loads(content[8 : 8 + length])[name]
    first, last = (8 + length + offset for offset in entry["data_offsets"])
    if entry["dtype"] == "BF16":
        values = (np.frombuffer(content[first:last], np.uint16).astype(np.uint32) << 16).view(np.float32)
    else:
        values = np.frombuffer(content[first:last], np.float32)
    return values.reshape(entry["shape"])


OWNER = """
import sys, time
from pathlib import Path, PosixPath
from memory.records import BaseModelCard, TrainingRecipe
from tools.engines.contract import Engine
from tools.training.engine import train
from tools.training.start import Start
engine, model, recipe, data, folder, start = sys.argv[1:]
train(eval(engine), TrainingRecipe.model_validate_json(recipe), BaseModelCard.model_validate_json(model), Path(data),
      Path(folder), device="cpu", deadline_s=600, checkpoint_every_s=0, start=eval(start),
      on_snapshot=lambda snapshot: time.sleep(3600) or True)
"""


def kill_in_mid_training(
    engine: Engine,
    recipe: TrainingRecipe,
    model: BaseModelCard,
    data: Path,
    folder: Path,
    after: int,
    start: Start | None = None,
) -> int:
    """Kill the process that owns a training with -9 once a checkpoint at or beyond step `after` is whole; its step.

    A snapshot is never answered there: a training with one is killed while it waits.
    """
    made_of = f"Engine('axolotl', Path({str(engine.python)!r}), Path({str(engine.worker)!r}), {dict(engine.env)!r})"
    argv = [made_of, model.model_dump_json(), recipe.model_dump_json(), str(data), str(folder), repr(start)]
    owner = subprocess.Popen([sys.executable, "-c", OWNER, *argv], env={**os.environ, "PYTHONPATH": str(TESTS.parent)})
    until = time.monotonic() + 240
    while time.monotonic() < until and owner.poll() is None:
        whole = [int(path.parent.name.rpartition("-")[2]) for path in folder.glob("checkpoints/checkpoint-*/whole")]
        if whole and max(whole) >= after:
            owner.send_signal(signal.SIGKILL)
            owner.wait()
            time.sleep(1.0)
            return max(whole)
        time.sleep(0.005)
    raise AssertionError("no checkpoint, or the training ended too soon")


def write_benchmark_rows(benchmark: str, rows: int, path: Path) -> Path:
    """Rows of one of our benchmarks, as a training file."""
    items = islice(benchmarks.get(benchmark).draw("train", 11), rows)
    lines = [
        {"id": item.id, "source": benchmark, "messages": [
            {"role": "user", "content": item.prompt}, {"role": "assistant", "content": item.answer},
        ]}
        for item in items
    ]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
