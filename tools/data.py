"""Training files: built from a recipe, found again by content, one chat of a question and an answer a row."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Literal

from pydantic import Field

from memory.errors import StorageError, TrialError
from memory.layout import made, read_record, read_rows, sha256_of, write_record, write_rows
from memory.records import DataRecipe, DatasetCard, Dropped, Lengths, Mix, Record, RowGroup, Sampling
from tools.benchmarks.splits import read_items
from tools.decontamination import Fingerprints, Text, check
from tools.operators import carry_out
from tools.operators.rows import AnsweredBy, Row, Sample, Value

FORMAT = 2
"""Raised whenever an operator or the row format changes its meaning: files of an older format are built anew."""
ANSWERS = 20
"""Answers that a card counts."""
NO_MODELS: Mapping[int | None, str] = {}


class Message(Record):
    """One turn of a chat."""

    role: Literal["user", "assistant"]
    content: str


class TrainingRow(Record):
    """A line of a training file: one user message and one assistant message."""

    id: str
    """The id of the benchmark's item, or `SOURCE:LINE` for a row of a raw source; `~1` stands behind the id of a
    variant, `~s1` behind that of a row answered by a model."""
    messages: tuple[Message, Message]
    source: str
    """The benchmark's name, or the raw source's."""
    rejected: str | None = Field(default=None, exclude_if=lambda text: text is None)
    """The wrong answer of a pair; None in a file that is no file of pairs."""
    answered_by: AnsweredBy = "source"
    """`model` where the answer is a model's own output that the scorer accepted."""

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
    sample: Sample | None = None,
    models: Mapping[int | None, str] = NO_MODELS,
) -> DatasetCard:
    """Build the training file of a recipe in `cache`, or find it there; the card's path is absolute.

    `source` names the benchmark and `train` its training split; `raw` are further JSONL files by the name that a
    `mix` uses, each line an object with the texts `prompt` and `answer` (other plain values become columns). `sample`
    asks a model for operators that need one, and `models` says what decides its outputs, by trial and with None for the
    base model: the hash of its weights, and whatever else may change. Rows that repeat held-out text are dropped last.
    Raises TrialError CONFIG for an operator that cannot be applied, DATA for a bad raw line or where an operator leaves
    nothing, CONTAMINATION where all rows repeat held-out text; StorageError where the disk refuses; and what `sample`
    raises.
    """
    used = {
        name: path
        for name, path in raw.items()
        if any(isinstance(op, Mix) and op.source == name for op in recipe.operators)
    }
    key = _key(recipe, source, train, used, held_out, _asked(recipe, models))
    path, card_path = cache / f"{key}.jsonl", cache / f"{key}.card.json"
    if card_path.exists() and path.exists():
        card = read_record(card_path, DatasetCard).model_copy(update={"path": str(path)})
        if sha256_of(path) == card.sha256:
            return card
    items = [Row(item.id, item.prompt, item.answer, source, item.columns, item) for item in read_items(train)]
    sources = {name: read_raw(name, path) for name, path in used.items()} | dict.fromkeys(raw.keys() - used.keys(), ())
    rows, dropped, notes = carry_out(recipe.operators, items, sources, sample)
    if held_out:
        rows, repeats = _decontaminate(rows, held_out)
        dropped += repeats
    made(cache)
    write_rows(path, map(_training_row, rows))
    card = _card(path, rows, dropped, notes)
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
    texts_and_columns: dict[str, Value] = {
        key: value for key, value in values.items() if isinstance(value, str | int | float | bool)
    }
    prompt, answer = str(texts_and_columns.pop("prompt")), str(texts_and_columns.pop("answer"))
    return Row(f"{name}:{number}", prompt, answer, name, texts_and_columns)


def _training_row(row: Row) -> TrainingRow:
    chat = (Message(role="user", content=row.prompt), Message(role="assistant", content=row.answer))
    return TrainingRow(id=row.id, messages=chat, source=row.source, rejected=row.rejected, answered_by=row.answered_by)


def _decontaminate(rows: list[Row], held_out: Sequence[Fingerprints]) -> tuple[list[Row], tuple[Dropped, ...]]:
    report = check([Text(row.id, row.prompt, row.answer) for row in rows], held_out)
    bad = {hit.row for hit in report.hits}
    clean = [row for row in rows if row.id not in bad]
    if not clean:
        raise TrialError(
            "CONTAMINATION", f"all {len(rows)} rows repeat held-out text", "Use other sources or operators."
        )
    return clean, tuple(each.model_copy(update={"step": "compare with held-out text"}) for each in report.dropped())


def _card(path: Path, rows: Sequence[Row], dropped: tuple[Dropped, ...], notes: tuple[str, ...]) -> DatasetCard:
    prompts, answers = _lengths(row.prompt for row in rows), _lengths(row.answer for row in rows)
    return DatasetCard(
        path=str(path),
        sha256=sha256_of(path),
        rows=len(rows),
        mean_answer_chars=answers.mean,
        groups=_groups(rows),
        dropped=dropped,
        prompt_chars=prompts,
        answer_chars=answers,
        answers=_answers(rows),
        notes=notes,
    )


def _groups(rows: Sequence[Row]) -> tuple[RowGroup, ...]:
    ways = Counter((row.source, row.steps) for row in rows)
    return tuple(RowGroup(source=source, rows=count, steps=steps) for (source, steps), count in ways.items())


def _lengths(texts: Iterable[str]) -> Lengths:
    """The 99th percentile is that of the nearest rank: a length that occurs."""
    lengths = sorted(map(len, texts))
    return Lengths(mean=fmean(lengths), p99=lengths[math.ceil(0.99 * len(lengths)) - 1], longest=lengths[-1])


def _answers(rows: Sequence[Row]) -> dict[str, int]:
    """The most frequent answers of several rows, unless most rows have one of their own."""
    counts = Counter(row.answer for row in rows)
    repeated = {answer: count for answer, count in counts.most_common(ANSWERS) if count > 1}
    return repeated if len(counts) <= len(rows) / 2 else {}


def _asked(recipe: DataRecipe, models: Mapping[int | None, str]) -> dict[str, str]:
    """What decides the outputs of each model that the recipe asks."""
    asked: dict[str, str] = {}
    for operator in recipe.operators:
        if isinstance(operator, Sampling):
            if operator.trial not in models:
                known = ", ".join(str(trial) for trial in models if trial is not None) or "none"
                raise TrialError(
                    "CONFIG",
                    f"{operator.kind} asks {f'trial {operator.trial}' if operator.trial else 'the base model'}, "
                    "which has no weights here",
                    f"Trials with weights: {known}.",
                )
            asked[f"trial {operator.trial}"] = models[operator.trial]
    return asked


def _key(
    recipe: DataRecipe,
    source: str,
    train: Path,
    used: Mapping[str, Path],
    held_out: Sequence[Fingerprints],
    asked: Mapping[str, str],
) -> str:
    """Hash of all that decides the content of the file."""
    inputs = {
        "format": FORMAT,
        "recipe": recipe.model_dump(mode="json"),
        "train": [source, sha256_of(train)],
        "raw": {name: sha256_of(path) for name, path in used.items()},
        "held_out": [hashlib.sha256(prints.model_dump_json().encode()).hexdigest() for prints in held_out],
        "asked": asked,
    }
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:24]
