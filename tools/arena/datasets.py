"""Training files that an agent makes: from rows it writes, from a file it brings, or by a function over rows that runs
in the sandbox. A name stands for one content: trainings are found again by it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median

from pydantic import JsonValue, ValidationError

from memory.errors import InputError
from memory.layout import RunFolder, made, sha256_of, write_rows
from tools.arena.answers import DatasetView, DataView, NewRow, RawFileView, RowPage, TrainRow
from tools.arena.places import inside, named
from tools.benchmarks.benchmark import Benchmark, Item
from tools.benchmarks.splits import read_items, split_path
from tools.data import ANSWERS, Message, TrainingRow, read_raw, read_training_rows
from tools.lengths import tokens_of
from tools.raw_data.profile import profile
from tools.raw_data.store import Store
from tools.sandbox.sandbox import Sandbox

TRAIN = "train"
"""The name under which a function is run over the training split."""
LONGEST_PAGE = 200
SAMPLE = 3
OWN = "own"
"""Source of rows whose question is none of the training split."""


class Datasets:
    """The training split, and what was made of it."""

    def __init__(self, folder: RunFolder, benchmark: Benchmark, store: Store | None) -> None:
        self.benchmark, self.store = benchmark, store
        self.folder = made(folder.root / "datasets")
        self.incoming = made(folder.root / "incoming")
        """Where a person or an agent with a file of its own puts it."""
        self.items = read_items(split_path("train", folder.data, None))
        self._by_prompt = {item.prompt: item for item in self.items}

    @property
    def names(self) -> tuple[str, ...]:
        """All data sets."""
        return tuple(sorted(path.stem for path in self.folder.glob("*.jsonl") if not path.is_symlink()))

    def path(self, name: str) -> Path:
        """The file of a data set. Raises InputError where there is none of that name."""
        path = named(self.folder, name)
        if not path.is_file() or path.is_symlink():
            there = ", ".join(self.names) or "none yet"
            raise InputError(f"there is no data set {name!r}", f"There are: {there}.")
        return path

    def profile(self) -> DataView:
        """The training split in figures, and the raw files that it was made of."""
        lengths = [round(tokens_of(item.prompt) + tokens_of(item.answer)) for item in self.items]
        answers = Counter(item.answer for item in self.items)
        repeated = {answer: count for answer, count in answers.most_common(ANSWERS) if count > 1}
        return DataView(
            rows=len(self.items),
            columns=tuple(dict.fromkeys(name for item in self.items for name in item.columns)),
            median_tokens=round(median(lengths)),
            longest_tokens=max(lengths),
            answers=repeated if len(answers) <= len(self.items) / 2 else {},
            raw_files=tuple(self._raw_files()),
        )

    def page(self, offset: int, limit: int) -> RowPage:
        """Rows of the training split."""
        rows = self.items[offset : offset + min(limit, LONGEST_PAGE)]
        return RowPage(rows=tuple(map(_row, rows)), total=len(self.items))

    def write(self, name: str, rows: Sequence[NewRow]) -> DatasetView:
        """Make a data set of rows. Raises InputError for an empty one, and where the name has another content."""
        return self._kept(name, [(row.prompt, row.answer) for row in rows], 0)

    def bring(self, name: str, file: str) -> DatasetView:
        """Make a data set of a JSONL file in `incoming/`, each line an object with the texts `prompt` and `answer`.
        Raises InputError for a file elsewhere, TrialError DATA for a line that is no row."""
        rows = read_raw(name, inside(self.incoming, file))
        return self._kept(name, [(row.prompt, row.answer) for row in rows], 0)

    def process(self, name: str, source: str, code: str, function: str, each_row: Callable[[], object]) -> DatasetView:
        """Make a data set by a function over the rows of another, or of `train`: it gets a dict of `id`, `prompt`,
        `answer` and `columns`, and returns a dict of `prompt` and `answer`, a list of them, or None to drop the row.

        It runs in the sandbox, strictly isolated: no network, no files, the standard library. `each_row` is called
        before each row, and may raise. Raises SetupError where the machine cannot isolate, SandboxError and InputError
        that name the row.
        """
        given = self._source(source)
        made_rows: list[tuple[str, str]] = []
        dropped = 0
        with Sandbox(code, function, need="strict") as sandbox:
            for row in given:
                each_row()
                found = _returned(sandbox.call([row.model_dump()], row=row.id), row.id)
                made_rows += found
                dropped += not found
        return self._kept(name, made_rows, dropped)

    def _source(self, name: str) -> Iterable[TrainRow]:
        if name == TRAIN:
            return map(_row, self.items)
        rows = read_training_rows(self.path(name))
        return (TrainRow(id=row.id, prompt=row.prompt, answer=row.answer, columns={}) for row in rows)

    def _kept(self, name: str, pairs: Sequence[tuple[str, str]], dropped: int) -> DatasetView:
        """The data set on disk, once."""
        path = named(self.folder, name)
        if name == TRAIN:
            raise InputError(f"{TRAIN!r} is the training split itself", "Take another name.")
        if not pairs:
            raise InputError(f"data set {name} would have no rows", "Keep some.")
        rows = list(self._training_rows(pairs))
        if path.is_symlink() or (path.exists() and read_training_rows(path) != rows):
            raise InputError(f"there is another data set {name}", "Take another name: a name stands for one content.")
        write_rows(path, rows)
        return DatasetView(
            name=name,
            rows=len(rows),
            graded=sum(row.source == self.benchmark.name for row in rows),
            sha256=sha256_of(path),
            dropped=dropped,
            sample=tuple(NewRow(prompt=prompt, answer=answer) for prompt, answer in pairs[:SAMPLE]),
        )

    def _training_rows(self, pairs: Iterable[tuple[str, str]]) -> Iterator[TrainingRow]:
        """Rows with ids. A question of the training split keeps its item's id, so that its answer is graded."""
        seen: Counter[str] = Counter()
        for number, (prompt, answer) in enumerate(pairs, 1):
            item = self._by_prompt.get(prompt)
            row_id, source = (item.id, self.benchmark.name) if item else (f"{OWN}:{number}", OWN)
            if seen[row_id]:
                row_id = f"{row_id}~{seen[row_id]}"
            seen[item.id if item else row_id] += 1
            chat = (Message(role="user", content=prompt), Message(role="assistant", content=answer))
            yield TrainingRow(id=row_id, messages=chat, source=source)

    def _raw_files(self) -> Iterator[RawFileView]:
        for file in self.benchmark.training if self.store else ():
            place = self.store.find(file) if self.store else None
            if place is None:
                continue
            told = profile(place, examples=0)
            yield RawFileView(
                name=file.name,
                source=file.source.title,
                licence=file.source.licence,
                rows=told.rows,
                columns=told.columns,
                median_tokens=told.median_tokens,
                longest_tokens=told.longest_tokens,
            )


def _row(item: Item) -> TrainRow:
    return TrainRow(id=item.id, prompt=item.prompt, answer=item.answer, columns=item.columns)


def _returned(value: JsonValue, row: str) -> list[tuple[str, str]]:
    """The rows that a function returned. Raises InputError for anything else."""
    if value is None:
        return []
    try:
        rows = [NewRow.model_validate(each) for each in (value if isinstance(value, list) else [value])]
    except ValidationError as error:
        raise InputError(
            f"the function returned no row for {row}: {json.dumps(value)[:80]}",
            'Return {"prompt": ..., "answer": ...} with two texts, a list of such, or None.',
        ) from error
    return [(row.prompt, row.answer) for row in rows]
