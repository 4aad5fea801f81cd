"""Rows of a person's file become questions with answers: plain columns, Alpaca, chat and ShareGPT.

A training row has one user message and one assistant message, and an evaluation asks with one user message. So a system
message is written above the question, and a conversation of several questions is refused, unless the task says that
its earlier turns shall be folded into the prompt.
"""

from __future__ import annotations

import json
import math
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from typing import NoReturn, TypeGuard, TypeVar

from memory.errors import InputError
from memory.records import OwnTask
from memory.records.own_task import Shape
from tools.benchmarks.benchmark import Split
from tools.decontamination import normalised
from tools.own_task.files import RawRow

Value = str | int | float | bool
Fill = Callable[[Mapping[str, str], str], str]
"""Renders a prompt from a row's columns; told where they stand, for what it has to refuse."""
V = TypeVar("V")

ROLES = {
    "system": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "model": "assistant",
}
"""What the roles of a conversation are called in the wild."""
SPEAKER = {"user": "User", "assistant": "Assistant"}
TURNS = 'Cut it to one question and one answer, or set turns = "fold" in the task file.'


@dataclass(frozen=True)
class OwnRow:
    """A question with its answer, and where it stands."""

    part: Split
    """Which of the task's files holds it; a single file is `train`."""
    file: str
    """The file's name, for a person."""
    number: int
    """From 1, as `files.py` counts."""
    prompt: str
    """The rendered user message, without white space around it; empty where the row asks nothing."""
    answer: str
    """The answer as it stands in the file, white space and all."""
    group: str = ""
    """Value of the group column."""
    columns: Mapping[str, Value] = field(default_factory=dict)
    """The row's plain values, for filters and templates of a data recipe."""

    @cached_property
    def question(self) -> str:
        """The prompt as two copies of it have it in common."""
        return normalised(self.prompt)

    @property
    def place(self) -> str:
        """The row, for a person."""
        return f"{self.file} row {self.number}"


def rows_of(task: OwnTask, part: Split, file: str, raw: Iterable[RawRow]) -> list[OwnRow]:
    """The questions of a file. Raises InputError that names row, column and fix where a row has not the task's
    shape, and where the prompt would tell the answer."""
    fill = template(task.prompt)
    if (told := ANSWERED.get(task.shape, task.answer)) in names_in(task.prompt):
        raise InputError(f"the prompt template names {told!r}, which holds the answer", "Leave it out of the prompt.")
    return [_row(task, part, file, one, fill) for one in raw]


def _row(task: OwnTask, part: Split, file: str, raw: RawRow, fill: Fill) -> OwnRow:
    where = f"{file} row {raw.number}"
    asked, answer = SHAPES[task.shape](task, raw.values, where)
    texts = {name: text_of(value) for name, value in raw.values.items()}
    if asked is not None:
        texts["prompt"] = asked
    prompt = fill(texts, where)
    asks = any(texts[name].strip() for name in names_in(task.prompt))
    group = text_of(column(raw.values, task.group, where)) if task.group else ""
    plain = {name: value for name, value in raw.values.items() if _is_plain(value)}
    used = {task.answer} if task.shape == "columns" else {"instruction", "input", "output", "system"}
    columns = {name: value for name, value in plain.items() if name not in used}
    return OwnRow(part, file, raw.number, prompt.strip() if asks else "", answer, group.strip(), columns)


def _is_plain(value: object) -> TypeGuard[Value]:
    """A value that a filter can compare and JSON can hold."""
    return math.isfinite(value) if isinstance(value, float) else isinstance(value, str | int | bool)


# --- the shapes: each says what a row asks (None leaves that to the template) and what it answers ------------------

Asked = tuple[str | None, str]


def _columns(task: OwnTask, values: Mapping[str, object], where: str) -> Asked:
    return None, text_of(column(values, task.answer, where))


def _alpaca(task: OwnTask, values: Mapping[str, object], where: str) -> Asked:
    if values.get("history"):
        raise InputError(f"{where} has earlier turns in the column 'history'", "Leave the history out of each row.")
    question = _joined([text_of(column(values, "instruction", where)), text_of(values.get("input"))])
    return _below(text_of(values.get("system")), question), text_of(column(values, "output", where))


def _chat(task: OwnTask, values: Mapping[str, object], where: str) -> Asked:
    return _conversation(task, _turns(values, "messages", "role", "content", where), where)


def _sharegpt(task: OwnTask, values: Mapping[str, object], where: str) -> Asked:
    turns = _turns(values, "conversations", "from", "value", where)
    system = text_of(values.get("system"))
    return _conversation(task, [("system", system), *turns] if system else turns, where)


SHAPES: dict[Shape, Callable[[OwnTask, Mapping[str, object], str], Asked]] = {
    "columns": _columns,
    "alpaca": _alpaca,
    "chat": _chat,
    "sharegpt": _sharegpt,
}


ANSWERED: dict[Shape, str] = {"alpaca": "output", "chat": "messages", "sharegpt": "conversations"}
"""The column that holds the answer, where the shape says which."""


def _turns(values: Mapping[str, object], name: str, role: str, content: str, where: str) -> list[tuple[str, str]]:
    """Roles, in our words, and texts of a conversation."""
    said = column(values, name, where)
    if not isinstance(said, list) or not said:
        _bad(where, name, "is no list of turns", f'Write [{{"{role}": "user", "{content}": "..."}}, ...].')
    turns = []
    for number, turn in enumerate(said, 1):
        if not isinstance(turn, dict) or not isinstance(turn.get(role), str):
            _bad(where, name, f"has a turn {number} without {role!r}", f"Give each turn {role!r} and {content!r}.")
        if turn[role].lower() not in ROLES:
            _bad(where, name, f"has a turn {number} of {turn[role]!r}", "Only system, user and assistant can be read.")
        if not isinstance(turn.get(content), str):
            _bad(where, name, f"has a turn {number} that is not a text", "Leave out images, tools and empty turns.")
        turns.append((ROLES[turn[role].lower()], turn[content]))
    return turns


def _conversation(task: OwnTask, turns: Sequence[tuple[str, str]], where: str) -> Asked:
    """The last assistant turn is the answer, all before it is the question."""
    system = turns[0][1] if turns[0][0] == "system" else ""
    spoken = [turn for place, turn in enumerate(turns) if place or turn[0] != "system"]
    expected = ["user", "assistant"] * (len(spoken) // 2)
    if not spoken or [role for role, _ in spoken] != expected:
        order = ", ".join(role for role, _ in turns)
        raise InputError(
            f"{where}: the turns are {order}", "After a system turn at most, user and assistant take turns, user first."
        )
    if len(spoken) > 2 and task.turns == "refuse":
        raise InputError(f"{where} holds {len(spoken) // 2} questions, not one", TURNS)
    (_, question), (_, answer) = spoken[-2:]
    told = [f"{SPEAKER[role]}: {text.strip()}" for role, text in spoken[:-1]]
    return _below(system, _joined(told) if len(told) > 1 and question.strip() else question), answer


def _below(system: str, question: str) -> str:
    """A question under its system message; where nothing is asked, nothing."""
    return _joined([system, question]) if question.strip() else ""


def _joined(parts: Sequence[str]) -> str:
    """Paragraphs of the parts that hold something."""
    return "\n\n".join(part.strip() for part in parts if part.strip())


# --- columns and templates -----------------------------------------------------------------------------------------


def template(text: str) -> Fill:
    """A filler for the `{column}` places of a prompt template.

    Raises InputError for a malformed template, and the filler for a column that a row lacks.
    """
    try:
        parts = list(string.Formatter().parse(text))
    except ValueError as error:
        way_out = "Write a literal brace twice: {{ or }}."
        raise InputError(f"the prompt template is malformed: {error}", way_out) from error
    names = [name for _, name, _, _ in parts if name is not None]
    if "" in names or any(spec or conversion for _, _, spec, conversion in parts):
        raise InputError(
            f"the prompt template {text[:60]!r} holds more than columns", "Write {column}; a literal brace twice."
        )
    if not names:
        raise InputError(f"the prompt template {text[:60]!r} names no column", "Write at least one {column}.")

    def fill(values: Mapping[str, str], where: str) -> str:
        return "".join(literal + (column(values, name, where) if name else "") for literal, name, _, _ in parts)

    return fill


def names_in(text: str) -> list[str]:
    """The columns that a template names, in order."""
    return [name for _, name, _, _ in string.Formatter().parse(text) if name]


def column(values: Mapping[str, V], name: str, where: str) -> V:
    """A value of a row. Raises InputError that names the nearest columns."""
    if name not in values:
        near = get_close_matches(name, values, n=1, cutoff=0.6)
        way_out = f"Did you mean {near[0]!r}?" if near else f"Its columns: {', '.join(values)}."
        raise InputError(f"{where} has no column {name!r}", way_out)
    return values[name]


def text_of(value: object) -> str:
    """A value as it stands in a prompt or an answer: text as it is, nothing for a missing value, lists and objects as
    JSON."""
    match value:
        case str():
            return value
        case None:
            return ""
        case float() if math.isnan(value):
            return ""
        case bool() | list() | dict():
            return json.dumps(value, ensure_ascii=False, default=str)
        case _:
            return str(value)


def _bad(where: str, name: str, what: str, way_out: str) -> NoReturn:
    raise InputError(f"{where}: the column {name!r} {what}", way_out)
