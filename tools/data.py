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
from memory.records import (
    DataRecipe,
    DatasetCard,
    Dropped,
    Lengths,
    Mix,
    Record,
    RowGroup,
    Sampling,
    Transform,
    Written,
)
from tools.benchmarks.splits import read_items
from tools.decontamination import Fingerprints, Text
from tools.operators import carry_out
from tools.operators.duplicates import without_held_out
from tools.operators.rows import AnsweredBy, Kept, Row, Sample, Value, Workroom

FORMAT = 3
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
    """The id of the benchmark's item, `SOURCE:LINE` for a row of a raw source, `synthesised:...` for one that a
    language model wrote; `~1` stands behind the id of a variant, `~s1` behind that of a row answered by a model."""
    messages: tuple[Message, Message]
    source: str
    """The benchmark's name, the raw source's, `synthesised`, or `transform` for a question that generated code made."""
    rejected: str | None = Field(default=None, exclude_if=lambda text: text is None)
    """The wrong answer of a pair; None in a file that is no file of pairs."""
    answered_by: AnsweredBy = "source"
    """`model` where the answer is a model's own output that the scorer accepted, `writer` where a language model wrote
    the row and no scorer has judged it."""
    origin: str = ""
    """How a text that no source holds came to be, in words: by which model and prompt or by which function, from which
    rows; empty for others."""

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
    workroom: Workroom | None = None,
) -> DatasetCard:
    """Build the training file of a recipe in `cache`, or find it there; the card's path is absolute.

    `source` names the benchmark and `train` its training split; `raw` are further JSONL files by the name that a
    `mix` uses, each line an object with the texts `prompt` and `answer` (other plain values become columns). `sample`
    asks a model for operators that need one, and `models` says what decides its outputs, by trial and with None for the
    base model: the hash of its weights, and whatever else may change. `workroom` has language models and the sandbox,
    for steps that need them. Rows that repeat held-out text are dropped last, and before the first step that shows
    rows to a language model or to generated code.
    Raises TrialError CONFIG for an operator that cannot be applied, DATA for a bad raw line or where an operator leaves
    nothing or fails its rehearsal, BUDGET where one would cost more than is left, CONTAMINATION where all rows repeat
    held-out text; StorageError where the disk refuses; and what `sample` raises.
    """
    used = {
        name: path
        for name, path in raw.items()
        if any(isinstance(op, Mix) and op.source == name for op in recipe.operators)
    }
    key = _key(recipe, source, train, used, held_out, _asked(recipe, models, workroom))
    path, card_path = cache / f"{key}.jsonl", cache / f"{key}.card.json"
    if card_path.exists() and path.exists():
        card = read_record(card_path, DatasetCard).model_copy(update={"path": str(path)})
        if sha256_of(path) == card.sha256:
            return card
    items = [Row(item.id, item.prompt, item.answer, source, item.columns, item) for item in read_items(train)]
    sources: dict[str, Sequence[Row]] = {name: read_raw(name, path) for name, path in used.items()}
    sources |= dict.fromkeys(raw.keys() - used.keys(), ())
    before: tuple[Dropped, ...] = ()
    if any(isinstance(operator, Written | Transform) for operator in recipe.operators):
        items, before, *_ = _decontaminated(items, held_out)
        sources = {name: _decontaminated(rows, held_out).rows for name, rows in sources.items()}
    kept = carry_out(recipe.operators, items, sources, sample, workroom)
    clean = _decontaminated(kept.rows, held_out)
    made(cache)
    write_rows(path, map(_training_row, clean.rows))
    card = _card(path, kept._replace(rows=clean.rows, dropped=before + kept.dropped + clean.dropped))
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
    return TrainingRow(
        id=row.id, messages=chat, source=row.source, rejected=row.rejected, answered_by=row.answered_by,
        origin=row.origin,
    )  # fmt: skip


def _decontaminated(rows: Sequence[Row], held_out: Sequence[Fingerprints]) -> Kept:
    clean = without_held_out(rows, held_out)
    if rows and not clean.rows:
        raise TrialError(
            "CONTAMINATION", f"all {len(rows)} rows repeat held-out text", "Use other sources or operators."
        )
    return clean._replace(
        dropped=tuple(each.model_copy(update={"step": "compare with held-out text"}) for each in clean.dropped)
    )


def _card(path: Path, kept: Kept) -> DatasetCard:
    rows = kept.rows
    prompts, answers = _lengths(row.prompt for row in rows), _lengths(row.answer for row in rows)
    return DatasetCard(
        path=str(path),
        sha256=sha256_of(path),
        rows=len(rows),
        mean_answer_chars=answers.mean,
        groups=_groups(rows),
        dropped=kept.dropped,
        prompt_chars=prompts,
        answer_chars=answers,
        answers=_answers(rows),
        notes=kept.notes,
        rehearsals=kept.rehearsals,
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


def _asked(recipe: DataRecipe, models: Mapping[int | None, str], workroom: Workroom | None) -> dict[str, str]:
    """What decides the outputs of each model that the recipe asks."""
    asked: dict[str, str] = {}
    if any(isinstance(operator, Written) for operator in recipe.operators) and workroom and workroom.writers:
        asked["language models"] = workroom.writers.identity
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
