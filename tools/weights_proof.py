"""Which weights does a server answer with? A fingerprint tells: the log-probabilities of a fixed text's tokens.

It must change when the weights change and come back when earlier weights come back. What the fingerprint cannot see is
checked on the files: that a folder holds every tensor, and whether two folders hold the same weights.
"""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

from memory.errors import ServerError

PROBE = (
    "On 17 March the clerk counted 4,096 barrels, 23 ropes and one anchor. If every barrel holds nine gallons, who "
    "owns the rest? Yes or no: the capital of France is Paris; def f(x): return x ** 2 - 1. Répondez: zwölf, twelve."
)
TOLERANCE = 1e-3
"""Nats. Repeated fingerprints of the same weights agree far better; bf16 weights that differ at all move some token by
more."""

Fingerprint = tuple[float, ...]


class Memory:
    """Fingerprints seen so far, by the identity of the weights that gave them."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Path, Fingerprint]] = {}

    def check(self, now: Fingerprint, weights: Path) -> None:
        """Check that the fingerprint that a server gives `now` is the one of `weights` where they were seen before, and
        that of no other weights seen before. Raises ServerError."""
        me = identity(weights)
        if me in self._known and not alike(now, self._known[me][1]):
            raise ServerError(f"the vLLM server does not answer with the weights in {weights} as it did before")
        for other, (folder, theirs) in self._known.items():
            if other != me and alike(now, theirs) and content_sha256(weights) != content_sha256(folder):
                raise ServerError(f"the vLLM server answers with the weights in {folder}, not {weights}")
        self._known[me] = (weights, now)

    def forget(self) -> None:
        """Forget all: another process may compute in another order."""
        self._known.clear()


def fingerprint(answer: dict[str, Any]) -> Fingerprint:
    """Log-probabilities in nats of PROBE's tokens after the first, from /v1/completions. Raises ServerError."""
    try:
        entries = answer["choices"][0]["prompt_logprobs"]
        return tuple(float(next(iter(entry.values()))["logprob"]) for entry in entries if entry)
    except (KeyError, IndexError, TypeError, AttributeError, StopIteration):
        raise ServerError(f"the vLLM server gave no log-probabilities: {str(answer)[:200]}") from None


def alike(one: Fingerprint, other: Fingerprint) -> bool:
    """Whether two fingerprints are of the same weights: every token within TOLERANCE."""
    return len(one) == len(other) and all(abs(a - b) <= TOLERANCE for a, b in zip(one, other, strict=True))


def tensors(folder: Path) -> set[str]:
    """Names of the tensors in a folder's safetensors files, from their headers; empty where there are none.

    Raises ServerError on a damaged file (https://github.com/huggingface/safetensors, format).
    """
    names: set[str] = set()
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with path.open("rb") as file:
                (length,) = struct.unpack("<Q", file.read(8))
                names |= set(json.loads(file.read(length)))
        except (OSError, struct.error, ValueError, MemoryError, OverflowError) as error:
            raise ServerError(f"{path} is no safetensors file", "Train again, or restore the file") from error
    return names - {"__metadata__"}


def content_sha256(folder: Path) -> str:
    """Hash over the weight files in order, as in `BaseModelCard.sha256`. Raises ServerError where there are none."""
    digest = hashlib.sha256()
    for path in weight_files(folder):
        with path.open("rb") as file:
            while chunk := file.read(1 << 22):
                digest.update(chunk)
    return digest.hexdigest()


def weight_files(folder: Path) -> list[Path]:
    """The files that make the weights what they are: safetensors, or JSON where a folder has only that (a stand-in).

    Raises ServerError where there are none.
    """
    found = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("*.json"))
    if not found:
        raise ServerError(f"there are no weights in {folder}", "Train again, or restore the folder")
    return found


def identity(folder: Path) -> str:
    """Tells weights apart by path, sizes and times: a folder that was written anew counts as other weights."""
    facts: list[Any] = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in weight_files(folder)]
    return json.dumps([str(folder.resolve()), facts])
