"""The splits of a benchmark on disk: drawn once, disjoint by content, named by hash, the test split sealed.

The test split is drawn first and the training split last, each leaving out what the earlier ones hold. So the test
keeps the benchmark's own distribution, and it is the training rows that make way. A person's own task brings its splits
along; they are written in the same way.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from pydantic import Field

from memory.errors import InputError, StorageError
from memory.layout import disk, made, read_record, read_rows, sha256_of, write_record, write_rows
from memory.records import Record
from tools.benchmarks.benchmark import Benchmark, Item, Split
from tools.decontamination import Fingerprints, fingerprints, normalised
from tools.own_task import findings
from tools.own_task.splitting import own_splits

FINGERPRINTS: dict[Split, str] = {"validation": "validation_fingerprints.json", "test": "test_fingerprints.json"}
"""Hashed texts of the held-out splits, in the data folder: the validator compares with them and never opens the
test."""

CANDIDATES_PER_ITEM = 50
"""Candidates drawn per wanted item before a benchmark counts as exhausted."""


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


class Manifest(Record):
    """What was drawn, from where, and the hash of each file."""

    benchmark: str
    source: str
    licence: str
    seed: int
    """Each split derives a seed of its own from it."""
    sizes: Sizes
    """Items that were wanted; of an own task, whose files decide, those that there are."""
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
        wanted = manifest.sizes if benchmark.own else sizes
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
        drawn = {split: (items, own.repeats[split]) for split, items in own.items.items()}
        sizes = Sizes(**{split: len(items) for split, items in own.items.items()})
        write_record(data / findings.FILE, own.findings)
    else:
        drawn = _draw(benchmark, sizes, seed)
    splits: dict[Split, SplitFile] = {}
    for split, (items, duplicates) in drawn.items():
        path = split_path(split, data, sealed)
        write_rows(path, items, 0o600 if split == "test" else 0o644)
        splits[split] = SplitFile(file=path.name, items=len(items), sha256=sha256_of(path), duplicates=duplicates)
    prints: dict[Split, str] = {}
    background = [item.prompt for item in drawn["train"][0]] if benchmark.generated else []
    for split, name in FINGERPRINTS.items():
        texts = [(item.id, item.prompt) for item in drawn[split][0]]
        write_record(data / name, fingerprints(split, texts, background))
        prints[split] = sha256_of(data / name)
    manifest = Manifest(
        benchmark=benchmark.name,
        source=benchmark.source,
        licence=benchmark.licence,
        seed=seed,
        sizes=sizes,
        splits=splits,
        fingerprints=prints,
    )
    write_record(manifest_path(data), manifest)
    return manifest


def _draw(benchmark: Benchmark, sizes: Sizes, seed: int) -> dict[Split, tuple[list[Item], int]]:
    """Items of each split, and the candidates left out."""
    seen: set[str] = set()
    wanted: tuple[tuple[Split, int], ...] = (
        ("test", sizes.test),
        ("validation", sizes.validation),
        ("train", sizes.train),
    )
    return {split: _distinct(benchmark, split, size, seed, seen) for split, size in wanted}


def _distinct(benchmark: Benchmark, split: Split, size: int, seed: int, seen: set[str]) -> tuple[list[Item], int]:
    """`size` items whose normalised question is not in `seen`, which grows by them; and how many candidates were left
    out."""
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
            return items, duplicates
    raise InputError(
        f"{benchmark.name} has only {len(items)} distinct {split} questions beside the other splits, not {size}",
        f"Ask for at most {len(items)} of {split}.",
    )
