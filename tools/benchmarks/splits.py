"""The splits of a benchmark on disk: drawn once, disjoint by content, named by hash, the test split sealed.

The test split is drawn first and the training split last, each leaving out what the earlier ones hold. So the test
keeps the benchmark's own distribution, and it is the training rows that make way. A person's own task brings its splits
along; they are written in the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from pydantic import Field

from memory.errors import InputError, StorageError
from memory.layout import disk, made, read_record, read_rows, sha256_of, write_record, write_rows
from memory.records import Record
from tools.benchmarks.benchmark import Benchmark, Item, Split
from tools.decontamination import Fingerprints, Text, check, fingerprints, normalised
from tools.own_task import findings
from tools.own_task.splitting import own_splits

FINGERPRINTS: dict[Split, str] = {"validation": "validation_fingerprints.json", "test": "test_fingerprints.json"}
"""Hashed texts of the held-out splits, in the data folder: the validator compares with them and never opens the
test."""

CANDIDATES_PER_ITEM = 50
"""Candidates drawn per wanted item before a benchmark counts as exhausted."""


FEWEST: dict[Split, int] = {"test": 2, "validation": 2, "train": 1}
"""Items of each split at least: two make an error bar. They are drawn in this order."""
MOST_ITEMS = 20_000
"""Of a benchmark with splits of its own: ten times what a training takes, so that a large source is not read whole."""


@dataclass(frozen=True)
class Drawn:
    """A split before it is written; the fields of `SplitFile`."""

    items: list[Item]
    duplicates: int
    overlap: dict[Split, int] = field(default_factory=dict)
    near_copies: int = 0


class Sizes(Record):
    """Items wanted per split."""

    train: int = Field(default=4000, ge=1)
    """Ten times what a short training uses, so that a planner can ask for more; drawing them takes a second."""
    validation: int = Field(default=200, ge=2)
    test: int = Field(default=200, ge=2)


class SplitFile(Record):
    """One split as it lies on disk."""

    file: str
    """File name in the data folder, or in the sealed folder for the test."""
    items: int
    sha256: str
    duplicates: int
    """Candidates left out because the same question was already in this or an earlier split."""
    near_copies: int = 0
    """Training rows left out because a held-out question differs from them in a few words."""
    overlap: dict[Split, int] = Field(default_factory=dict)
    """Of a benchmark with splits of its own: how many of the duplicates another split holds. The published splits hold
    them twice; here the test keeps them, and after it validation."""


class Manifest(Record):
    """What was drawn, from where, and the hash of each file."""

    benchmark: str
    source: str
    licence: str
    seed: int
    """Each split derives a seed of its own from it."""
    sizes: Sizes
    """Items that were wanted; where files decide, those that there are."""
    splits: dict[Split, SplitFile]
    fingerprints: dict[Split, str]
    """sha256 of the fingerprint files."""


def write_splits(benchmark: Benchmark, data: Path, sealed: Path, sizes: Sizes, seed: int) -> Manifest:
    """Draw the splits into `data` (training, validation, manifest, fingerprints) and `sealed` (test), once.

    A second call checks the hashes of all files and writes nothing. Raises InputError where the benchmark has too few
    distinct questions, its files cannot be used, or the folder holds other splits than asked for; StorageError where a
    file was altered.
    """
    if manifest_path(data).exists():
        manifest = read_record(manifest_path(data), Manifest)
        wanted = manifest.sizes if benchmark.fixed else sizes
        asked = (benchmark.name, benchmark.source, wanted, seed)
        if asked != (manifest.benchmark, manifest.source, manifest.sizes, manifest.seed):
            raise InputError(
                f"{data} holds other splits: {manifest.benchmark} from {manifest.source}, seed {manifest.seed}",
                "Use another folder, or the seed and sizes of the first call.",
            )
        verify(manifest, data, sealed)
        return manifest
    return _write(benchmark, data, sealed, sizes, seed)


def verify(manifest: Manifest, data: Path, sealed: Path | None) -> None:
    """Compare every file with its hash in the manifest; `sealed=None` leaves the test alone. Raises StorageError."""
    hashes = {
        split_path(split, data, sealed): entry.sha256
        for split, entry in manifest.splits.items()
        if sealed or split != "test"
    }
    hashes |= {data / FINGERPRINTS[split]: sha256 for split, sha256 in manifest.fingerprints.items()}
    for path, sha256 in hashes.items():
        if sha256_of(path) != sha256:
            raise StorageError(
                f"{path} was altered after it was written", "Its scores would not compare: start a new run."
            )


def read_items(path: Path) -> list[Item]:
    """The items of one split file. Raises StorageError with the line number of a bad one."""
    return list(read_rows(path, Item))


def read_findings(data: Path) -> findings.Findings | None:
    """What was odd about the rows of an own task, once its splits are written; None for a benchmark of the table."""
    path = data / findings.FILE
    return read_record(path, findings.Findings) if path.exists() else None


def read_held_out(data: Path) -> list[Fingerprints]:
    """Hashes of validation and test, with which training rows are compared."""
    return [read_record(data / name, Fingerprints) for name in FINGERPRINTS.values()]


def manifest_path(data: Path) -> Path:
    """Where the manifest lies."""
    return data / "manifest.json"


def split_path(split: Split, data: Path, sealed: Path | None) -> Path:
    """Where a split lies. Asking for the test without the sealed folder is a mistake of the caller."""
    folder = sealed if split == "test" else data
    if folder is None:
        raise ValueError("the test split lies in the sealed folder")
    return folder / f"{split}.jsonl"


def _write(benchmark: Benchmark, data: Path, sealed: Path, sizes: Sizes, seed: int) -> Manifest:
    made(data)
    with disk(sealed):
        made(sealed).chmod(0o700)
    if benchmark.own:
        own = own_splits(benchmark.own, seed)
        drawn = {split: Drawn(items, own.repeats[split]) for split, items in own.items.items()}
        write_record(data / findings.FILE, own.findings)
    else:
        drawn = _fixed(benchmark, seed) if benchmark.fixed else _draw(benchmark, sizes, seed)
    if benchmark.fixed:
        sizes = Sizes(**{split: len(found.items) for split, found in drawn.items()})
    splits: dict[Split, SplitFile] = {}
    for split, found in drawn.items():
        path = split_path(split, data, sealed)
        write_rows(path, found.items, 0o600 if split == "test" else 0o644)
        splits[split] = SplitFile(
            file=path.name,
            items=len(found.items),
            sha256=sha256_of(path),
            duplicates=found.duplicates,
            near_copies=found.near_copies,
            overlap=found.overlap,
        )
    prints: dict[Split, str] = {}
    background = [item.prompt for item in drawn["train"].items] if benchmark.generated else []
    for split, name in FINGERPRINTS.items():
        write_record(data / name, fingerprints(split, _texts(drawn[split].items), background))
        prints[split] = sha256_of(data / name)
    manifest = Manifest(
        benchmark=benchmark.name,
        source=benchmark.source,
        licence=benchmark.terms,
        seed=seed,
        sizes=sizes,
        splits=splits,
        fingerprints=prints,
    )
    write_record(manifest_path(data), manifest)
    return manifest


def _texts(items: Sequence[Item]) -> list[tuple[str, str]]:
    return [(item.id, item.prompt) for item in items]


def _draw(benchmark: Benchmark, sizes: Sizes, seed: int) -> dict[Split, Drawn]:
    """As many distinct items of each split as are wanted."""
    seen: set[str] = set()
    wanted = sizes.model_dump()
    return {split: _distinct(benchmark, split, wanted[split], seed, seen) for split in FEWEST}


def _fixed(benchmark: Benchmark, seed: int) -> dict[Split, Drawn]:
    """All items of a benchmark's own splits, but each question once: the test keeps what validation holds as well, and
    training loses what is in either, copies with a few words changed included. Raises InputError where too few are
    left."""
    seen: dict[str, Split] = {}
    drawn: dict[Split, Drawn] = {}
    for split, fewest in FEWEST.items():
        items: list[Item] = []
        repeats: Counter[Split] = Counter()
        for item in islice(benchmark.draw(split, seed), MOST_ITEMS):
            question = normalised(item.prompt)
            if question in seen:
                repeats[seen[question]] += 1
            else:
                seen[question] = split
                items.append(item)
        overlap = {other: count for other, count in repeats.items() if other != split}
        drawn[split] = Drawn(items, repeats.total(), overlap)
        if split == "train" and not benchmark.generated:
            drawn[split] = _without_near_copies(drawn)
        if len(drawn[split].items) < fewest:
            raise InputError(
                f"{benchmark.name} has only {len(drawn[split].items)} distinct {split} questions, and needs {fewest}",
                "Its raw data lies in another place, or not all of it: see python -m tools.benchmarks list.",
            )
    return drawn


def _without_near_copies(drawn: dict[Split, Drawn]) -> Drawn:
    """The training split without rows that nearly repeat a held-out question."""
    train = drawn["train"]
    held_out = [fingerprints(split, _texts(drawn[split].items)) for split in FINGERPRINTS]
    hits = {hit.row for hit in check((Text(item.id, item.prompt, item.answer) for item in train.items), held_out).hits}
    return replace(train, items=[item for item in train.items if item.id not in hits], near_copies=len(hits))


def _distinct(benchmark: Benchmark, split: Split, size: int, seed: int, seen: set[str]) -> Drawn:
    """`size` items whose normalised question is not in `seen`, which grows by them."""
    items: list[Item] = []
    duplicates = 0
    for item in islice(benchmark.draw(split, seed), size * CANDIDATES_PER_ITEM):
        question = normalised(item.prompt)
        if question in seen:
            duplicates += 1
            continue
        seen.add(question)
        items.append(item)
        if len(items) == size:
            return Drawn(items, duplicates)
    raise InputError(
        f"{benchmark.name} has only {len(items)} distinct {split} questions beside the other splits, not {size}",
        f"Ask for at most {len(items)} of {split}.",
    )
