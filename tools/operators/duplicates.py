"""Rows that repeat earlier rows, or held-out text: word for word, or nearly.

Near copies are found by MinHash (Broder 1997; the library is datasketch) and proven by the Jaccard similarity of the
texts' own 5-grams, so that only a copy can be missed, at odds of one in a thousand, and nothing else be dropped. Word
5-grams are what Data-Juicer (arXiv 2309.02033) and FineWeb (arXiv 2406.17557) use. In a text of under 50 words a single
changed word takes a fifth of them away, so shorter texts, and scripts without spaces, are compared by 5-grams of
characters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy
from datasketch import MinHash, MinHashLSH

from memory.records import NearDeduplicate
from tools.decontamination import Fingerprints, Text, check, normalised
from tools.operators.rows import Kept, Row, dropped, folded

N = 5
"""Words, or characters, in a gram."""
SHORT = 50
"""Words under which a text counts as short."""
PERMUTATIONS = 128
"""Hashes in a sketch; as candidates are proven, more would only find what is found anyway."""
RECALL = 0.999
"""Chance that a pair right at the threshold becomes a candidate."""
ERRORS = 4
"""Standard errors that the likeness of two sketches may be off."""
MANY = 0.5
"""Share of near copies from which on they are no accident, but questions of one template."""


def deduplicate(rows: list[Row], step: str) -> Kept:
    """The first of each prompt and answer."""
    first: dict[tuple[str, str], Row] = {}
    again: list[Row] = []
    for row in rows:
        key = (folded(row.prompt), folded(row.answer))
        if first.setdefault(key, row) is not row:
            again.append(row)
    return Kept(
        [row.passed(step) for row in first.values()], dropped("same prompt and answer as an earlier row", again)
    )


def near_deduplicate(operator: NearDeduplicate, rows: list[Row], step: str) -> Kept:
    """The first of each cluster: a row goes if its prompt and its answer are alike those of a row that stays."""
    index = _Index(operator.threshold)
    kept: list[Row] = []
    copies: list[Row] = []
    prompts = [shingles(row.prompt) for row in rows]
    sketches = MinHash.generator(map(_encoded, prompts), num_perm=PERMUTATIONS, seed=1)
    for row, prompt, sketch in zip(rows, prompts, sketches, strict=True):
        text = _Text(prompt, shingles(row.answer), sketch)
        if index.has_like(text):
            copies.append(row)
        else:
            index.add(text)
            kept.append(row.passed(step))
    notes: tuple[str, ...] = ()
    if len(copies) > MANY * len(rows):
        notes = (
            f"{step} dropped {len(copies)} of {len(rows)} rows: questions made from one template look alike "
            "and should not be compared in this way",
        )
    return Kept(kept, dropped("nearly the same prompt and answer as an earlier row", copies), notes)


def without_held_out(rows: Sequence[Row], held_out: Sequence[Fingerprints]) -> Kept:
    """The rows that repeat no held-out text, which is known by its hashes alone."""
    if not rows or not held_out:
        return Kept(list(rows))
    report = check([Text(row.id, row.prompt, row.answer) for row in rows], held_out)
    bad = {hit.row for hit in report.hits}
    return Kept([row for row in rows if row.id not in bad], report.dropped())


class _Text(NamedTuple):
    """A row as the comparison sees it."""

    prompt: frozenset[str]
    answer: frozenset[str]
    sketch: MinHash
    """Of the prompt."""


class _Index:
    """The texts that stay, found by likeness."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold
        self.least = threshold - ERRORS * math.sqrt(threshold * (1 - threshold) / PERMUTATIONS)
        """Likeness of sketches below which it is not worth comparing texts."""
        self.bands = MinHashLSH(num_perm=PERMUTATIONS, params=bands(threshold))
        self.texts: list[_Text] = []
        self.hashes = numpy.zeros((1024, PERMUTATIONS), numpy.uint32)

    def add(self, text: _Text) -> None:
        place = len(self.texts)
        if place == len(self.hashes):
            self.hashes = numpy.concatenate([self.hashes, numpy.zeros_like(self.hashes)])
        self.hashes[place] = text.sketch.hashvalues
        self.bands.insert(place, text.sketch)
        self.texts.append(text)

    def has_like(self, text: _Text) -> bool:
        places = numpy.array(self.bands.query(text.sketch), dtype=int)
        likeness = (self.hashes[places] == text.sketch.hashvalues).mean(axis=1)
        return any(
            jaccard(text.answer, self.texts[place].answer) >= self.threshold
            and jaccard(text.prompt, self.texts[place].prompt) >= self.threshold
            for place in places[likeness >= self.least]
        )


def shingles(text: str) -> frozenset[str]:
    """The distinct 5-grams of a normalised text, of words or, in a short text, of characters; a text under five
    characters is one gram."""
    words = normalised(text).split()
    if len(words) >= SHORT:
        return frozenset(" ".join(words[start : start + N]) for start in range(len(words) - N + 1))
    letters = " ".join(words)
    return frozenset(letters[start : start + N] for start in range(max(1, len(letters) - N + 1)))


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """Shared grams by all grams, 0 to 1."""
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared)


def bands(threshold: float) -> tuple[int, int]:
    """Bands of the index and hashes in a band: the longest bands with which a pair at the threshold is found with a
    chance of `RECALL`, which is 1 - (1 - t^r)^b (Leskovec, Rajaraman, Ullman: Mining of Massive Datasets, 3.4)."""
    return next(
        (PERMUTATIONS // length, length)
        for length in range(PERMUTATIONS // 2, 0, -1)
        if 1 - (1 - threshold**length) ** (PERMUTATIONS // length) >= RECALL
    )


def _encoded(grams: frozenset[str]) -> list[bytes]:
    return [gram.encode() for gram in grams]
