"""Real molecules that RDKit ships: the first five thousand of the open database of the US National Cancer Institute.

From them come questions about molecules that need no download (chem_rings.py, chem_groups.py). Used are the single
molecules of at most 80 characters, each once, as RDKit writes it: 4,714. A molecule belongs to one split for good, by
its hash, so that what is asked of it in training never tells anything of a test question.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from hashlib import sha256
from importlib import metadata
from itertools import chain, zip_longest
from pathlib import Path

from memory.errors import SetupError
from tools.benchmarks import molecules
from tools.benchmarks.benchmark import Benchmark, Graded, Item, Split
from tools.benchmarks.measures import Mean
from tools.benchmarks.reasoning_gym_items import closed

LONGEST = 80
"""Characters of a SMILES: about 60 tokens."""
BUCKETS: tuple[tuple[Split, int], ...] = (("test", 1), ("validation", 2), ("train", 20))
"""Of 20 buckets of hashes the first is the test's, the second validation's."""
COUNTS = tuple(str(count) for count in range(7))
"""Golds; the few molecules with more are left out."""

Question = tuple[str, str, int]
"""Subset, question, answer."""
Ask = Callable[[str, random.Random], Sequence[Question]]
"""`ask(smiles, random)`: questions about a molecule; the first is asked of every molecule before anybody's second."""


def molecules_of(split: Split) -> list[str]:
    """The molecules of a split, as RDKit writes them. Raises SetupError without the release of RDKit that made them."""
    return _by_split()[split]


@lru_cache(maxsize=1)
def _by_split() -> dict[Split, list[str]]:
    package = molecules.rdkit()
    if f"rdkit=={metadata.version('rdkit')}" != molecules.EXTRA:
        raise SetupError(
            f"another RDKit than {molecules.EXTRA} is installed; it may write and count molecules in another way",
            "Install it: python -m tools.benchmarks prepare chem_rings",
        )
    file = Path(package.__file__ or "").parent / "Data" / "NCI" / "first_5K.smi"
    written = (molecules.canonical(line.split()[0]) for line in file.read_text().splitlines() if line.strip())
    splits: dict[Split, list[str]] = {split: [] for split, _ in BUCKETS}
    for smiles in dict.fromkeys(filter(None, written)):
        if len(smiles) <= LONGEST and "." not in smiles:
            splits[_split_of(smiles)].append(smiles)
    return splits


def _split_of(smiles: str) -> Split:
    bucket = int.from_bytes(sha256(smiles.encode()).digest()[:8]) % BUCKETS[-1][1]
    return next(split for split, end in BUCKETS if bucket < end)


def make(name: str, title: str, ask: Ask) -> Benchmark:
    """A benchmark that asks for a number about each molecule."""

    def draw(split: Split, seed: int) -> Iterator[Item]:
        order = random.Random(f"{name} {split} {seed}")
        drawn = list(molecules_of(split))
        order.shuffle(drawn)
        asked = [ask(smiles, order) for smiles in drawn]
        questions = chain.from_iterable(zip_longest(*asked))
        for number, (subset, prompt, count) in enumerate(filter(None, questions)):
            if str(count) in COUNTS:
                yield Item(id=f"{split}-{number}", prompt=prompt, answer=str(count), subset=subset, reference="{}")

    parse = closed(COUNTS)

    def grade(output: str, item: Item) -> Graded:
        said = parse(output)
        gold = int(item.answer)
        # Saying nothing is as far off as 0, and by 1 at least.
        error = float(max(gold, 1) if said is None else abs(int(said) - gold))
        return Graded(score=float(said == item.answer), answer=said, values={"error": error})

    return Benchmark(
        name=name,
        title=title,
        source=f"{molecules.EXTRA}, Data/NCI/first_5K.smi",
        licence="BSD-3-Clause",
        domain="chemistry",
        draw=draw,
        grade=grade,
        max_new_tokens=8,
        closed_answers=COUNTS,
        generated=True,
        others=(Mean("MAE", "error", higher_is_better=False),),
        extras=(molecules.EXTRA,),
    )
