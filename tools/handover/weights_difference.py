"""How far apart are two folders of weights? Read tensor by tensor, without torch.

Format: https://github.com/huggingface/safetensors, an eight-byte length, a JSON header, then the tensors.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memory.errors import StorageError

Floats = NDArray[np.float32]
PLAIN = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}
"""Types that NumPy knows; bf16 is the upper half of a float32."""


class Distance(NamedTuple):
    """How far two trainings of one model ended from each other."""

    largest: float
    """The largest absolute difference of two numbers."""
    share: float
    """Euclidean distance of the two, over the way that the second of them went from the base model: 0 for the same
    weights, about 1.4 where the two have nothing in common."""


def distance(one: Path, other: Path, base: Path) -> Distance | None:
    """Compare two folders of weights, of which `other` is the one to come to; both were trained from `base`.

    None where the folders hold no safetensors, or not the same tensors, or where `other` is the base model. Raises
    StorageError for a file that is none.
    """
    ours, theirs, start = index(one), index(other), index(base)
    if not ours or shapes(ours) != shapes(theirs) or any(name not in start for name in ours):
        return None
    largest = apart = way = 0.0
    for name in ours:
        mine, wanted = numbers(ours[name]), numbers(theirs[name])
        largest = max(largest, float(np.abs(mine - wanted).max(initial=0.0)))
        apart += squares(mine - wanted)
        way += squares(wanted - numbers(start[name]))
    return Distance(largest, math.sqrt(apart / way)) if way else None


def squares(values: Floats) -> float:
    """Their sum, added up in double precision."""
    return float(np.square(values, dtype=np.float64).sum())


class Entry:
    """Where a tensor lies."""

    def __init__(self, file: Path, start: int, dtype: str, sizes: list[int], offsets: tuple[int, int]) -> None:
        self.file, self.dtype, self.sizes = file, dtype, sizes
        self.begin, self.end = start + offsets[0], start + offsets[1]


def index(folder: Path) -> dict[str, Entry]:
    """Every tensor of a folder by name. Raises StorageError."""
    return {name: entry for file in sorted(folder.glob("*.safetensors")) for name, entry in entries(file)}


def entries(file: Path) -> Iterator[tuple[str, Entry]]:
    """The tensors of one file. Raises StorageError."""
    try:
        with file.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            header = json.loads(stream.read(length))
        for name, said in header.items():
            if name != "__metadata__":
                begin, end = said["data_offsets"]
                yield name, Entry(file, 8 + length, said["dtype"], said["shape"], (begin, end))
    except (OSError, struct.error, ValueError, KeyError, AttributeError, MemoryError, OverflowError) as error:
        raise StorageError(f"{file} is no safetensors file", "Restore it, or train again.") from error


def shapes(tensors: dict[str, Entry]) -> dict[str, list[int]]:
    """Every tensor's sizes."""
    return {name: entry.sizes for name, entry in tensors.items()}


def numbers(entry: Entry) -> Floats:
    """A tensor's numbers, flat, as float32. Raises StorageError for a type that no weights have."""
    with entry.file.open("rb") as stream:
        stream.seek(entry.begin)
        raw = stream.read(entry.end - entry.begin)
    if entry.dtype == "BF16":
        return (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
    if entry.dtype not in PLAIN:
        raise StorageError(f"{entry.file} holds numbers of type {entry.dtype}", "Compare it by hash.")
    return np.frombuffer(raw, PLAIN[entry.dtype]).astype(np.float32)
