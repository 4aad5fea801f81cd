"""Held-out text in training data: exact copies, and copies with a few words changed, found by hashes alone.

A held-out split is turned into fingerprints when it is written: a hash of each normalised text and the hashes of its
word 8-grams. The check needs only those, so that nobody opens the sealed test for it.

What counts as contaminated, and where it comes from:

- the same text after folding case, white space and punctuation around words (GPT-3, arXiv 2005.14165, appendix C);
- or at least half of the informative 8-grams of the row, or of the held-out text, lie in the other, pair by pair
  (coverage by one training row as in Tulu 3, arXiv 2411.15124; n = 8 after ConTAM, arXiv 2411.03923, where longer
  grams miss leaks);
- a gram in more than ten different training rows, or in more than ten texts of the benchmark, is template text and says
  nothing (GPT-3);
- texts under eight words, and pairs in which template text leaves fewer than eight informative grams, are compared
  exactly only: what a template leaves of a short question is a name or a number, and sharing that is no copy; and so
  are held-out texts that the benchmark's generator has near neighbours of.

Blind spots: a paraphrase or a translation, and a changed word in a short question made from a template
(`Contamination.exact_only` counts the held-out texts of which only exact copies can be found).
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

from memory.records import Dropped, Record

N = 8
"""Words in a gram."""
TEMPLATE_ROWS = 10
"""A gram in more texts than this is template text."""
TEMPLATE_SHARE = 0.05
"""In benchmarks of under 200 texts, a gram in more than this share of them, but at least in three, is template text."""
COVERAGE = 0.5
"""Share of the informative grams of either side from which on a pair counts as a near copy."""

_EDGES = ".,;:!?\"'()[]{}\u2018\u2019\u201c\u201d\u00ab\u00bb\u2026\u3001\u3002\uff0c\uff1a\uff1b\uff01\uff1f"
"""ASCII punctuation, and its typographic and full-width kin; other symbols carry meaning."""
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_TOKEN = re.compile(f"[{_UNSPACED}]|[^\\s{_UNSPACED}]+")


class Fingerprint(Record):
    """One held-out text, in hashes."""

    id: str
    exact: str
    """Hash of the normalised text."""
    grams: tuple[str, ...]
    """Hashes of its distinct informative 8-grams; empty for a text under eight words."""


class Fingerprints(Record):
    """A held-out split, in hashes."""

    split: str
    n: int = N
    items: tuple[Fingerprint, ...]


class Hit(Record):
    """A training row that repeats a held-out text."""

    row: str
    split: str
    item: str
    kind: Literal["exact", "near"]
    coverage: float
    """Share of informative grams that the pair has in common; 1 for an exact copy."""


class Contamination(Record):
    """What the check found."""

    rows: int
    """Rows that were checked."""
    hits: tuple[Hit, ...]
    """At most one per row: the strongest."""
    held_out: int
    """Held-out texts that they were compared with."""
    exact_only: int
    """Held-out texts with fewer than eight informative grams, of which only exact copies can be found."""
    template_grams: int
    """Grams that were ignored because many training rows share them."""

    @property
    def share(self) -> float:
        """Share of the rows that repeat held-out text."""
        return len(self.hits) / self.rows if self.rows else 0.0

    def dropped(self) -> tuple[Dropped, ...]:
        """The report's lines: how many rows go, and why."""
        reasons: dict[str, list[str]] = {}
        for hit in self.hits:
            kind = "an exact copy" if hit.kind == "exact" else "a near copy"
            reasons.setdefault(f"{kind} of a {hit.split} item", []).append(
                f"{hit.row} = {hit.item} ({hit.coverage:.0%})"
            )
        return tuple(
            Dropped(reason=why, rows=len(pairs), examples=tuple(pairs[:3])) for why, pairs in sorted(reasons.items())
        )


@dataclass(frozen=True)
class Text:
    """A training row as the check sees it: the question for exact copies, question and answer for grams."""

    id: str
    prompt: str
    answer: str = ""


def normalised(text: str) -> str:
    """A text for comparison: Unicode compatibility form, case folded, words without the punctuation around them,
    single spaces."""
    words = unicodedata.normalize("NFKC", text).casefold().split()
    return " ".join(stripped for word in words if (stripped := word.strip(_EDGES) or word))


def fingerprints(split: str, texts: Iterable[tuple[str, str]], background: Iterable[str] = ()) -> Fingerprints:
    """Hashes of held-out `(id, text)` pairs, without the grams that many of the texts share.

    `background` are texts of the same benchmark that are known to be no copies: the training split of a generator, in
    which two questions that differ in a word are two questions. They show the template better, and a held-out text
    that one of them comes as near to as a copy would cannot be told from its neighbours by grams: it keeps its exact
    hash only.
    """
    pairs = [(name, normalised(text)) for name, text in texts]
    grams = [_grams(text) for _, text in pairs]
    others = [_grams(normalised(text)) for text in background]
    frequency = Counter(gram for one in grams + others for gram in one)
    limit = max(2, min(TEMPLATE_ROWS, int(TEMPLATE_SHARE * (len(grams) + len(others)))))
    template = frozenset(gram for gram, count in frequency.items() if count > limit)
    known = {(split, name): one - template for (name, _), one in zip(pairs, grams, strict=True)}
    where = _index(known)
    alike = {key for other in others for key, _ in _near(other - template, known, where)}
    return Fingerprints(
        split=split,
        items=tuple(
            Fingerprint(
                id=name, exact=_hash(text), grams=() if (split, name) in alike else tuple(sorted(known[split, name]))
            )
            for name, text in pairs
        ),
    )


def check(rows: Iterable[Text], held_out: Sequence[Fingerprints]) -> Contamination:
    """Compare training rows with held-out fingerprints. A row is reported once, with its strongest hit."""
    texts = list(rows)
    grams = [_grams(normalised(f"{text.prompt} {text.answer}")) for text in texts]
    template = _template(grams)
    known = {(prints.split, item.id): frozenset(item.grams) - template for prints in held_out for item in prints.items}
    exact = {item.exact: (prints.split, item.id) for prints in held_out for item in prints.items}
    where = _index(known)
    hits: list[Hit] = []
    for text, one in zip(texts, grams, strict=True):
        if same := exact.get(_hash(normalised(text.prompt))):
            hits.append(Hit(row=text.id, split=same[0], item=same[1], kind="exact", coverage=1.0))
        elif near := _near(one - template, known, where):
            (split, item), coverage = max(near, key=lambda pair: pair[1])
            hits.append(Hit(row=text.id, split=split, item=item, kind="near", coverage=coverage))
    return Contamination(
        rows=len(texts),
        hits=tuple(hits),
        held_out=len(known),
        exact_only=sum(len(one) < N for one in known.values()),
        template_grams=len(template),
    )


_Key = tuple[str, str]


def _near(
    informative: frozenset[str], known: Mapping[_Key, frozenset[str]], where: Mapping[str, Sequence[_Key]]
) -> list[tuple[_Key, float]]:
    """The held-out texts of which a text is a near copy, with the coverage; pairs with too few grams on a side are
    not judged."""
    shared = Counter(key for gram in informative for key in where.get(gram, ()))
    smaller = {key: min(len(informative), len(known[key])) for key in shared}
    return [(key, shared[key] / size) for key, size in smaller.items() if size >= N and shared[key] >= COVERAGE * size]


def _template(grams: Iterable[frozenset[str]]) -> frozenset[str]:
    """Grams in more than ten different training rows; copies of one row count once, or a leak repeated would look
    like a template."""
    frequency = Counter(gram for one in set(grams) for gram in one)
    return frozenset(gram for gram, rows in frequency.items() if rows > TEMPLATE_ROWS)


def _index(known: Mapping[_Key, frozenset[str]]) -> dict[str, list[_Key]]:
    where: dict[str, list[_Key]] = {}
    for key, grams in known.items():
        for gram in grams:
            where.setdefault(gram, []).append(key)
    return where


def _grams(text: str) -> frozenset[str]:
    """Hashes of the distinct word 8-grams of a normalised text; scripts without spaces count each character as a
    word."""
    words = _TOKEN.findall(text)
    return frozenset(_hash(" ".join(words[start : start + N])) for start in range(len(words) - N + 1))


def _hash(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()
