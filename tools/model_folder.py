"""A model's folder on this machine: whether it is whole, how large the model is, and the hash of its weights.

Reads config.json and the headers of the safetensors files; torch is not needed for that.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import struct
from pathlib import Path
from typing import Any

from memory.errors import InputError
from memory.records import Record

LONGEST_HEADER = 100_000_000
"""Bytes; the format allows no longer one."""


class TensorInfo(Record):
    """One entry of a safetensors header."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


class ModelFolder(Record):
    """What the files say."""

    sha256: str
    """Over the weight files in order."""
    parameters: int
    """Number of weights as stored; tied ones count once."""
    hidden_size: int
    layers: int
    has_template: bool
    """The tokenizer brings a chat template of its own."""
    licence: str


def inspect(name: str, folder: Path, hashes: Path) -> ModelFolder:
    """Check the folder of model `name` and read its sizes; `hashes` is a folder that remembers weight hashes.

    Raises InputError that names what is missing and the way out.
    """
    if not folder.is_dir():
        raise InputError(f"base model {name} is a file, not a folder", "Give the folder that holds config.json")
    config = _json(folder / "config.json", name, "Save the model with save_pretrained")
    weights = weight_files(name, folder)
    if not any((folder / file).exists() for file in ("tokenizer.json", "tokenizer.model", "vocab.json")):
        raise InputError(f"base model {name} has no tokenizer in {folder}", "Save the tokenizer beside the weights")
    tokenizer = _json(folder / "tokenizer_config.json", name, "Save the tokenizer with save_pretrained")
    text = config.get("text_config", config)
    try:
        hidden_size, layers = int(text["hidden_size"]), int(text["num_hidden_layers"])
    except (KeyError, TypeError, ValueError):
        raise InputError(
            f"base model {name}: config.json gives no hidden_size and num_hidden_layers",
            "Choose a causal language model",
        ) from None
    return ModelFolder(
        sha256=hash_files(weights, hashes),
        parameters=sum(count_parameters(name, file) for file in weights),
        hidden_size=hidden_size,
        layers=layers,
        has_template=bool(tokenizer.get("chat_template")) or (folder / "chat_template.jinja").exists(),
        licence=licence_of(folder),
    )


def weight_files(name: str, folder: Path) -> list[Path]:
    """The model's safetensors files in order, every shard of the index present."""
    index = folder / "model.safetensors.index.json"
    if index.exists():
        shards = sorted(set(_json(index, name, "download the model again").get("weight_map", {}).values()))
        missing = [shard for shard in shards if not (folder / shard).exists()]
        if missing:
            raise InputError(
                f"base model {name} lacks {len(missing)} of {len(shards)} weight files, {missing[0]} for one",
                "Download the model again",
            )
        return [folder / shard for shard in shards]
    single = folder / "model.safetensors"
    files = [single] if single.exists() else sorted(folder.glob("*.safetensors"))
    if not files:
        old = any(folder.glob("*.bin")) or any(folder.glob("*.gguf"))
        way = "Save it with save_pretrained, which writes safetensors" if old else "Download the model again"
        raise InputError(f"base model {name} has no *.safetensors weights in {folder}", way)
    return files


def count_parameters(name: str, file: Path) -> int:
    """Number of weights from a safetensors header (https://github.com/huggingface/safetensors, format); checks that the
    file is as long as its header says."""
    try:
        with file.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            header = json.loads(stream.read(min(length, LONGEST_HEADER)))
        tensors = [TensorInfo.model_validate(value) for key, value in header.items() if key != "__metadata__"]
    except (struct.error, ValueError, AttributeError):
        raise InputError(f"base model {name}: {file.name} is no safetensors file", "Download the model again") from None
    end = 8 + length + max((tensor.data_offsets[1] for tensor in tensors), default=0)
    if file.stat().st_size < end:
        raise InputError(f"base model {name}: {file.name} is cut short", "Download the model again")
    return sum(math.prod(tensor.shape) for tensor in tensors)


def hash_files(files: list[Path], kept_in: Path) -> str:
    """SHA-256 over the files' contents in order. Kept in a folder by path, size and time, since it reads every byte."""
    identity = [[str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns] for file in files]
    kept = kept_in / hashlib.sha256(json.dumps(identity).encode()).hexdigest()
    if kept.exists():
        return kept.read_text()
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            while chunk := stream.read(1 << 22):
                digest.update(chunk)
    kept.parent.mkdir(parents=True, exist_ok=True)
    partial = kept.with_suffix(".partial")
    partial.write_text(digest.hexdigest())
    partial.replace(kept)
    return digest.hexdigest()


def licence_of(folder: Path) -> str:
    """The licence that the model's README declares, or `unknown`."""
    readme = folder / "README.md"
    if not readme.exists():
        return "unknown"
    declared = re.match(r"---\n(?:.*\n)*?licen[sc]e:\s*(\S+)", readme.read_text(errors="replace"))
    return declared.group(1).strip("'\"") if declared else "unknown"


def _json(path: Path, name: str, way_out: str) -> dict[str, Any]:
    """A JSON object from a file of the model, or InputError."""
    try:
        value = json.loads(path.read_text())
    except FileNotFoundError:
        raise InputError(f"base model {name} has no {path.name} in {path.parent}", way_out) from None
    except (ValueError, OSError) as error:
        raise InputError(f"base model {name}: {path.name} cannot be read ({error})", way_out) from None
    if not isinstance(value, dict):
        raise InputError(f"base model {name}: {path.name} is no JSON object", way_out)
    return value
