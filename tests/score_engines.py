"""The engines of the serving and scoring tests: quick stand-ins, and the real ones where they are set up."""

from __future__ import annotations

import json
import os
import shutil
import struct
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from memory.records import BaseModelCard
from tools import base_models
from tools.engines import environments
from tools.engines.contract import Engine

TESTS = Path(__file__).parent


def fake(name: str, env: Mapping[str, str] | None = None) -> Engine:
    """The stand-in `vllm` or `lighteval`; `env` asks for faults."""
    return Engine(name, Path(sys.executable), TESTS / f"fake_{name}.py", env or {})


def fake_weights(folder: Path, quality: float) -> Path:
    """Weights for the stand-in server."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "quality.json").write_text(json.dumps({"quality": quality}))
    return folder


def fake_model(folder: Path) -> BaseModelCard:
    """A base model for the stand-in server."""
    return card(fake_weights(folder, 0.1))


def card(folder: Path) -> BaseModelCard:
    """A model's card, as far as a server reads it."""
    return BaseModelCard(
        name="small", path=str(folder), chat_template="own", sha256="", parameters=1, hidden_size=1, layers=1
    )


def real(name: str) -> Engine:
    """The real `vllm` or `lighteval`; skips the test where the score environment is not set up."""
    cache = environments.cache_folder(os.environ)
    ready = environments.installed(environments.specs(environments.detect_hardware())["score"], cache)
    if ready is None:
        pytest.skip("the score environment is not set up: make setup")
    return Engine(name, ready.python, environments.ENGINES / name / "worker.py")


def real_model() -> BaseModelCard:
    """The embedded model, which the set-up has converted."""
    cache = environments.cache_folder(os.environ)
    ready = environments.installed(environments.specs(environments.detect_hardware())["train"], cache)
    if ready is None:
        pytest.skip("the train environment is not set up: make setup")
    return base_models.resolve("smollm2", cache=cache, train_python=ready.python, say=lambda _: None)


def other_weights(folder: Path, base: Path) -> Path:
    """A copy of a model in which some numbers of one tensor are changed."""
    shutil.copytree(base, folder)
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    (length,) = struct.unpack("<Q", data[:8])
    start, end = json.loads(data[8 : 8 + length])["model.layers.5.mlp.down_proj.weight"]["data_offsets"]
    for place in range(8 + length + start, 8 + length + end, 14):
        data[place] ^= 0x10
    path.write_bytes(data)
    return folder
