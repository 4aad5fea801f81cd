"""Training files: built from a recipe, found again by content, one chat of a question and an answer a row."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Literal

from memory.errors import StorageError, TrialError
from memory.layout import made, read_record, read_rows, sha256_of, write_record, write_rows
from memory.records import DataRecipe, DatasetCard, Dropped, Mix, Record, RowGroup
from tools.benchmarks.splits import read_items
from tools.data_operators import Row, apply
from tools.decontamination import Fingerprints, Text, check

FORMAT = 1
"""Raised whenever an operator or the row format changes its meaning: files of an older format are built anew."""


class Message(Record):
    """One turn of a chat."""

    role: Literal["user", "assistant"]
    content: str


class TrainingRow(Record):
    """A line of a training file: one user message and one assistant message."""

    id: str
    """The id of the benchmark's item, or `SOURCE:LINE` for a row of a raw source."""
    messages: tuple[Message, Message]
    source: str
    """The benchmark's name, or the raw source's."""

    @property
    def prompt(self) -> str:
        """What the user says."""
        return self.messages[0].content

    @property
    def answer(self) -> str:
        """What the model shall say."""
        return self.messages[1].content


def make_training_file(
    recipe: DataRecipe,
    *,
    source: str,
    train: Path,
    raw: Mapping[str, Path],
    cache: Path,
    held_out: Sequence[Fingerprints] = (),
) -> DatasetCard:
    """Build the training file of a recipe in `cache`, or find it there; the card's path is absolute.

    `source` names the benchmark and `train` its training split; `raw` are further JSONL files by the name that a
    `mix` uses, each line an object with the texts `prompt` and `answer` (other plain values become columns). Rows
    that repeat held-out text are dropped last. Raises TrialError CONFIG for an operator that cannot be applied, DATA
    for a bad raw line or where an operator leaves nothing, CONTAMINATION where all rows repeat held-out text;
    StorageError where the disk refuses.
    """
    used = {
        name: path
        for name, path in raw.items()
        if any(isinstance(op, Mix) and op.source == name for op in recipe.operators)
    }
    key = _key(recipe, source, train, used, held_out)
    path, card_path = cache / f"{key}.jsonl", cache / f"{key}.card.json"
    if card_path.exists() and path.exists():
        card = read_record(card_path, DatasetCard).model_copy(update={"path": str(path)})
        if sha256_of(path) == card.sha256:
            return card
    rows = [Row(item.id, item.prompt, item.answer, source, item.columns) for item in read_items(train)]
    sources = {name: read_raw(name, path) for name, path in used.items()} | dict.fromkeys(raw.keys() - used.keys(), ())
    dropped: list[Dropped] = []
    for operator in recipe.operators:
        rows, notes = apply(operator, rows, sources)
        dropped.extend(notes)
    if held_out:
        rows, notes = _decontaminate(rows, held_out)
        dropped.extend(notes)
    made(cache)
    write_rows(path, map(_training_row, rows))
    card = DatasetCard(
        path=str(path),
        sha256=sha256_of(path),
        rows=len(rows),
        mean_answer_chars=fmean(len(row.answer) for row in rows),
        groups=_groups(rows),
        dropped=tuple(dropped),
    )
    write_record(card_path, card)
    return card


def read_raw(name: str, path: Path) -> list[Row]:
    """Rows of a raw source. Raises TrialError DATA naming the line that is no row, StorageError for an unreadable
    file."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TrialError("DATA", f"{path} is not UTF-8 text (byte {error.start})", "Convert the file.") from error
    return [_raw_row(name, path, number, line) for number, line in enumerate(lines, 1) if line.strip()]


def read_training_rows(path: Path) -> list[TrainingRow]:
    """The rows of a training file. Raises TrialError DATA naming the row that is malformed."""
    try:
        return list(read_rows(path, TrainingRow))
    except StorageError as error:
        if path.exists():
            raise TrialError("DATA", error.message, "Build the file with the data recipe's operators.") from error
        raise


def texts(rows: Iterable[TrainingRow]) -> list[Text]:
    """Training rows as the contamination check reads them."""
    return [Text(row.id, row.prompt, row.answer) for row in rows]


def _raw_row(name: str, path: Path, number: int, line: str) -> Row:
    try:
        values = json.loads(line)
    except json.JSONDecodeError as error:
        raise TrialError(
            "DATA", f"{path} line {number} is not JSON: {error.msg}", "Write one JSON object a line."
        ) from error
    if not isinstance(values, dict):
        raise TrialError("DATA", f"{path} line {number} is not a JSON object", "Write one JSON object a line.")
    for field in ("prompt", "answer"):
        if not isinstance(values.get(field), str):
            raise TrialError(
                "DATA", f"{path} line {number} has no text under {field!r}", "Give every line prompt and answer."
            )
    texts_and_columns = {key: value for key, value in values.items() if isinstance(value, str | int | float | bool)}
    prompt, answer = str(texts_and_columns.pop("prompt")), str(texts_and_columns.pop("answer"))
    return Row(f"{name}:{number}", prompt, answer, name, texts_and_columns)


def _training_row(row: Row) -> TrainingRow:
    chat = (Message(role="user", content=row.prompt), Message(role="assistant", content=row.answer))
    return TrainingRow(id=row.id, messages=chat, source=row.source)


def _decontaminate(rows: list[Row], held_out: Sequence[Fingerprints]) -> tuple[list[Row], tuple[Dropped, ...]]:
    report = check([Text(row.id, row.prompt, row.answer) for row in rows], held_out)
    bad = {hit.row for hit in report.hits}
    clean = [row for row in rows if row.id not in bad]
    if not clean:
        raise TrialError(
            "CONTAMINATION", f"all {len(rows)} rows repeat held-out text", "Use other sources or operators."
        )
    return clean, report.dropped()


def _groups(rows: Sequence[Row]) -> tuple[RowGroup, ...]:
    ways = Counter((row.source, row.steps) for row in rows)
    return tuple(RowGroup(source=source, rows=count, steps=steps) for (source, steps), count in ways.items())


def _key(
    recipe: DataRecipe, source: str, train: Path, used: Mapping[str, Path], held_out: Sequence[Fingerprints]
) -> str:
    """Hash of all that decides the content of the file."""
    inputs = {
        "format": FORMAT,
        "recipe": recipe.model_dump(mode="json"),
        "train": [source, sha256_of(train)],
        "raw": {name: sha256_of(path) for name, path in used.items()},
        "held_out": [hashlib.sha256(prints.model_dump_json().encode()).hexdigest() for prints in held_out],
    }
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:24]
