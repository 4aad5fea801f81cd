"""A first task file for data that nobody has described: shape, columns, prompt, metric and splits, each with the
reason."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from memory.errors import InputError
from memory.records.metric import ExactMatch, Numeric
from memory.records.own_task import Shape
from tools import metrics
from tools.own_task.files import RawRow
from tools.own_task.shapes import OwnRow, text_of
from tools.own_task.task_file import TaskFile

ANSWERS = (
    *("answer", "label", "output", "response", "completion", "target", "gold", "category", "class", "intent"),
    *("sentiment", "solution", "expected", "reply", "ground_truth", "summary", "result"),
)
"""Names that columns of answers have, the surest first."""
QUESTIONS = (
    *("question", "prompt", "instruction", "input", "query", "text", "sentence", "message", "body", "document"),
    *("review", "content", "problem", "title", "subject"),
)
GROUPS = (
    *(
        "group",
        "customer",
        "customer_id",
        "user",
        "user_id",
        "author",
        "patient",
        "patient_id",
        "document_id",
        "doc_id",
    ),
    *("thread", "thread_id", "session", "session_id", "conversation_id", "source_id", "family", "template"),
)
"""Names of columns whose equal values mark rows that belong together."""
CHOICES = ("A", "B", "C", "D", "E")
SHORT_WORDS = 6
"""Answers up to this median length are expected to the letter; longer ones are compared by their words."""
NUMBER_WORDS = 3
"""Words of an answer that is a number: the number, and its unit."""
LONG_WORDS = 25
"""From this median length on answers are texts, which ROUGE-L compares."""
LISTED = 200
"""Most answers that are listed in the task file where there are more than are found closed by themselves."""
LISTED_REPEATS = 3
SIBLINGS = {"validation": ("validation", "valid", "val", "dev"), "test": ("test",)}
"""How files of the held-out splits are called where the training file has `train` in its name."""


class Guess(NamedTuple):
    """A task file and why it is so, by key."""

    file: TaskFile
    reasons: dict[str, str]


def guess(path: Path, raw: Sequence[RawRow]) -> Guess:
    """A task file for the rows of a file. Raises InputError where no column can be the answer."""
    shape, why = shape_of(raw)
    keys: dict[str, object] = {"name": name_of(path), "train": path.name, "shape": shape}
    reasons = {"shape": why}
    if shape == "columns":
        answer = answer_column(raw)
        keys["answer"], reasons["answer"] = answer, "the column that the model shall write"
        keys["prompt"] = prompt_template(raw, answer)
        reasons["prompt"] = "what the model is asked: {column} stands for a column"
    for split, words in SIBLINGS.items():
        if sibling := _sibling(path, words):
            keys[split], reasons[split] = sibling, "found beside the training file"
    if group := group_column(raw):
        keys["group"], reasons["group"] = group, "rows with the same value stay in one split"
    return Guess(TaskFile.model_validate(keys | {"metric": {"kind": "exact_match"}}), reasons)


def with_metric(made: Guess, rows: Sequence[OwnRow], raw: Sequence[RawRow]) -> Guess:
    """The guess with the metric that fits the answers; closed ones are told to the model at the end of the prompt."""
    golds = [row.answer.strip() for row in rows if row.answer.strip()]
    changes: dict[str, object] = {}
    reasons = dict(made.reasons)
    metric, reasons["metric"] = metric_of(golds)
    prompt = made.file.prompt
    texts = choice_columns(raw[0].values)
    if texts and {gold.upper() for gold in golds} <= set(CHOICES[: len(texts)]):
        letters = CHOICES[: len(texts)]
        metric = {"kind": "multiple_choice", "choices": list(letters)}
        reasons["metric"] = f"every answer is one of {', '.join(letters)}"
        listed = "\n".join(f"{letter}. {{{text}}}" for letter, text in zip(letters, texts, strict=True))
        prompt += f"\n{listed}\nAnswer with one letter."
    elif metric["kind"] == "exact_match":
        answers = metrics.closed_answers(ExactMatch(), golds) or _listed(golds)
        if answers and len(answers) > 1:
            changes["answers"] = answers
            reasons["answers"] = f"{len(answers)} answers, each in its most frequent spelling"
            if made.file.shape == "columns" and len(answers) <= metrics.FEW:
                said = ", ".join(answers).replace("{", "{{").replace("}", "}}")
                prompt += f"\n\nAnswer with one of: {said}."
    if prompt != made.file.prompt:
        changes["prompt"] = prompt
    return Guess(made.file.model_copy(update=changes | {"metric": metric}), reasons)


def name_of(path: Path) -> str:
    """A task's name from its file's name."""
    name = re.sub(r"[^a-z0-9_-]+", "-", path.stem.lower()).strip("-_")[:64]
    return name or "task"


def shape_of(raw: Sequence[RawRow]) -> tuple[Shape, str]:
    """The shape, and what shows it."""
    first = raw[0].values
    if isinstance(first.get("messages"), list):
        return "chat", "the rows have a column 'messages'"
    if isinstance(first.get("conversations"), list):
        return "sharegpt", "the rows have a column 'conversations'"
    if {"instruction", "output"} <= first.keys():
        return "alpaca", "the rows have the columns 'instruction' and 'output'"
    return "columns", "plain columns"


def answer_column(raw: Sequence[RawRow]) -> str:
    """The column that is called like an answer, else the last one."""
    names = list(raw[0].values)
    if len(names) < 2:
        raise InputError("the data has a single column", "It needs one for the question and one for the answer.")
    return _called(names, ANSWERS) or names[-1]


def prompt_template(raw: Sequence[RawRow], answer: str) -> str:
    """The columns that are called like a question, else the one with the longest texts."""
    names = [name for name in raw[0].values if name != answer]
    if name := _called(names, QUESTIONS):
        chosen = [name]
        if name.lower() == "question" and (context := _called(names, ["context", "passage"])):
            chosen.insert(0, context)
        if name.lower() in ("title", "subject") and (more := _called([n for n in names if n != name], QUESTIONS)):
            chosen.append(more)
    else:
        chosen = [max(names, key=lambda name: sum(len(text_of(row.values.get(name))) for row in raw))]
    return "\n\n".join(f"{{{name}}}" for name in chosen)


def group_column(raw: Sequence[RawRow]) -> str:
    """A column that is called like a group and whose values repeat; empty for none."""
    for name in raw[0].values:
        values = [text_of(row.values.get(name)) for row in raw]
        if name.lower() in GROUPS and 1 < len(set(values)) < len(values):
            return name
    return ""


def metric_of(golds: Sequence[str]) -> tuple[dict[str, object], str]:
    """The metric that fits the answers, and why."""
    if metrics.closed_answers(ExactMatch(), golds):
        return {"kind": "exact_match"}, "a few answers that repeat: an output is right if it is the answer"
    if golds and all(map(_is_object, golds)):
        return {"kind": "json_fields"}, "every answer is a JSON object: the share of right fields counts"
    if golds and all(map(_is_number, golds)):
        return {"kind": "numeric"}, "every answer is a number; for a tolerance add absolute = 0.01"
    if golds and all(re.search(r"####\s*\S+$", gold) for gold in golds):
        return {"kind": "numeric"}, "every answer ends in a number: the last one counts"
    words = median(len(gold.split()) for gold in golds) if golds else 0
    if words <= SHORT_WORDS:
        return {"kind": "exact_match"}, "short answers: an output is right if it is the answer"
    if words < LONG_WORDS:
        return {"kind": "token_f1"}, "answers of some words: the overlap of words counts"
    return {"kind": "rouge_l"}, "answers are texts: the longest common sequence of words counts"


def choice_columns(values: dict[str, object]) -> tuple[str, ...]:
    """Columns with the texts of choices, named A, B, C ... or option_a, choice_a ...; none where fewer than three
    are."""
    for prefix in ("", "option", "option_", "choice", "choice_"):
        by_name = {name.lower(): name for name in values}
        found = [by_name[f"{prefix}{letter}".lower()] for letter in CHOICES if f"{prefix}{letter}".lower() in by_name]
        if len(found) >= 3:
            return tuple(found)
    return ()


def _listed(golds: Sequence[str]) -> tuple[str, ...] | None:
    """More answers than are found closed by themselves, but still labels: short, and each repeated."""
    spellings: dict[str, str] = {}
    for gold, _ in sorted(Counter(golds).items(), key=lambda pair: (-pair[1], pair[0])):
        spellings.setdefault(gold.casefold(), gold)
    repeated = len(golds) >= LISTED_REPEATS * len(spellings)
    return tuple(sorted(spellings.values())) if repeated and len(spellings) <= LISTED else None


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except json.JSONDecodeError:
        return False


def _is_number(text: str) -> bool:
    """A number, perhaps with a currency before it or a unit behind it."""
    short = len(text.split()) <= NUMBER_WORDS and re.match(r"[-+]?[$\u20ac\u00a3]?\s?[.,]?\d", text) is not None
    return short and metrics.valid_gold(Numeric(), text) is None


def _called(names: Sequence[str], known: Sequence[str]) -> str | None:
    """The first of the known names among `names`, whatever its case."""
    lower = {name.lower(): name for name in reversed(names)}
    return next((lower[name] for name in known if name in lower), None)


def _sibling(path: Path, words: Sequence[str]) -> str | None:
    names = [path.name.replace("train", word) for word in words if "train" in path.name]
    return next((name for name in names if path.with_name(name).is_file()), None)
