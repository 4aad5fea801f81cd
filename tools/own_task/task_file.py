"""Task files: the TOML in which a person says what their data is and what counts as right, and the task it becomes.

Paths in it are relative to the file. Every refusal names the key and the fix.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, get_args

import tomlkit
from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr, TypeAdapter, ValidationError

from memory.errors import InputError
from memory.layout import sha256_of
from memory.records import HeldOut, OwnFile, OwnTask, Record
from memory.records.metric import Metric
from memory.records.own_task import Shape
from tools.benchmarks import BENCHMARKS
from tools.lengths import LONGEST_ANSWER
from tools.own_task.files import READERS
from tools.own_task.splitting import own_splits
from tools.own_task.survey import load, resolved

DEFAULT_PROMPT = "{prompt}"
"""Of conversations and Alpaca rows: what the row asks, as it stands."""
HELD_OUT = "Write a file name, a number of rows such as 200, or a share such as 0.2."
HINTS = {
    "name": "Use small letters, digits, - and _, at most 64.",
    "train": 'Name the file with the rows: train = "data.jsonl".',
    "validation": HELD_OUT,
    "test": HELD_OUT,
    "answers": 'List at least two answers, each once: answers = ["yes", "no"].',
    "metric": 'Add a table: [metric], and below it kind = "exact_match".',
    "metric.code": 'Name the file with the function: file = "metric.py".',
    "max_new_tokens": "Write the tokens that an answer may have, such as 16.",
}
"""The fix for a key, where what is expected does not say it all."""

METRICS: dict[str, type[Record]] = {kind.model_fields["kind"].default: kind for kind in get_args(get_args(Metric)[0])}
"""Every metric by the word that a task file has for it."""
KINDS = frozenset(METRICS)
"""What pydantic puts into the place of an error within a metric."""

Amount = StrictStr | StrictInt | StrictFloat | None


class TaskFile(Record):
    """The keys of a task file."""

    name: StrictStr = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")
    """What the task is called; without one, the file's name."""
    description: StrictStr = ""
    licence: StrictStr = "unknown"
    train: StrictStr
    """The file with the rows."""
    validation: Amount = None
    """A file, a number of rows or a share of `train`; without one, a fifth, at most 200."""
    test: Amount = None
    shape: Shape = "columns"
    prompt: StrictStr = DEFAULT_PROMPT
    answer: StrictStr = "answer"
    turns: Literal["refuse", "fold"] = "refuse"
    group: StrictStr = ""
    stratify: StrictBool = True
    templated: StrictBool = False
    answers: tuple[StrictStr, ...] | None = Field(default=None, min_length=2)
    """All answers, where they are closed; without them, found in the data."""
    max_new_tokens: StrictInt | None = Field(default=None, ge=1, le=LONGEST_ANSWER)
    metric: dict[str, Any]
    """The fields of one of the metrics; for `python` a `file` instead of its code."""


def read_task(path: Path, seed: int = 0) -> OwnTask:
    """The task of a TOML file, with its data read and split once as a run with this seed will do it, so that every
    refusal comes before anything is paid for. Raises InputError."""
    file = read_file(path)
    task = task_of(file, path.parent, path.name)
    own_splits(task, seed)
    return task


def read_file(path: Path) -> TaskFile:
    """The keys of a task file. Raises InputError that names what is wrong with which."""
    if path.suffix in READERS:
        raise InputError(f"{path.name} is data and no task file", f"python -m graph.run --new-task {path} writes one.")
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(
            f"cannot read task file {path}: {error.strerror}", "python -m graph.run --new-task DATA writes one."
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path.name} is not UTF-8 (byte {error.start + 1})", "Save it as UTF-8.") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path.name} is no TOML: {error}", 'Texts stand in quotes: train = "data.jsonl".') from error
    try:
        file = TaskFile.model_validate({"name": path.stem.lower()} | values)
    except ValidationError as error:
        raise refusal(path.name, error, TaskFile.model_fields) from error
    if file.name in BENCHMARKS:
        raise InputError(
            f"{path.name}: {file.name} is a benchmark of Tunewright's", "Set another name in the task file."
        )
    return file


def task_of(file: TaskFile, folder: Path, source: str) -> OwnTask:
    """The task that a file means, what it leaves open settled by the data; `source` is the file's name. Raises
    InputError."""
    task = draft_of(file, folder, source)
    return resolved(task, load(task), file.max_new_tokens)


def draft_of(file: TaskFile, folder: Path, source: str) -> OwnTask:
    """The task before its data is read. Raises InputError."""
    kept = (
        *("name", "description", "licence", "shape", "prompt", "answer", "turns"),
        *("group", "stratify", "templated", "answers"),
    )
    if file.answers and len(set(file.answers)) < len(file.answers):
        raise InputError(f"{source}: answers names one twice", HINTS["answers"])
    return OwnTask(
        **{key: getattr(file, key) for key in kept},
        train=own_file(folder, file.train, source, "train"),
        validation=_held_out(folder, file.validation, source, "validation"),
        test=_held_out(folder, file.test, source, "test"),
        metric=_metric(folder, file.metric, source),
        max_new_tokens=file.max_new_tokens or 1,
    )


def toml_of(file: TaskFile, comments: Mapping[str, str], head: Sequence[str]) -> str:
    """A task file as text: all keys that differ from their defaults, each under its comment, below the lines of
    `head`."""
    document = tomlkit.document()
    for line in head:
        document.add(tomlkit.comment(line))
    document.add(tomlkit.nl())
    given = file.model_dump(exclude_defaults=True)
    for key in [name for name in TaskFile.model_fields if name in given and name != "metric"]:
        if key in comments:
            document.add(tomlkit.comment(comments[key]))
        value = given[key]
        if isinstance(value, str) and "\n" in value:
            document.add(key, tomlkit.string(value, multiline=True))
        else:
            document.add(key, tomlkit.item(list(value) if isinstance(value, tuple) else value))
    metric = tomlkit.table()
    if "metric" in comments:
        metric.comment(comments["metric"])
    for key, value in file.metric.items():
        metric.add(key, value)
    document.add(tomlkit.nl())
    document.add("metric", metric)
    return tomlkit.dumps(document)


def refusal(source: str, error: ValidationError, keys: Mapping[str, Any], above: str = "") -> InputError:
    """The first complaint of pydantic about a task file in one line; `keys` are those that there are, below the table
    `above`."""
    first = error.errors()[0]
    place = [str(part) for part in first["loc"] if part not in KINDS][:1]
    key = ".".join([above, *place] if above else place)
    hint = HINTS.get(key, "")
    if first["type"] == "extra_forbidden":
        near = get_close_matches(place[0], keys, n=1, cutoff=0.5)
        way_out = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(keys)}."
        return InputError(f"{source}: there is no key {key}", way_out)
    if first["type"] == "missing":
        return InputError(f"{source}: the key {key} is missing", hint or f"Add {place[0]}.")
    return InputError(f"{source}: the key {key or above} is wrong: {_plain(first['msg'])}", hint)


def _plain(message: str) -> str:
    """A complaint of pydantic as the middle of a sentence."""
    words = message.removeprefix("Value error, ").removeprefix("Input ")
    return words[:1].lower() + words[1:]


def own_file(folder: Path, name: str, source: str, key: str) -> OwnFile:
    """A file that a task file names. Raises InputError that names the nearest file there is."""
    path = (folder / Path(name).expanduser()).absolute()
    if not path.is_file():
        others = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
        near = get_close_matches(path.name, others, n=1, cutoff=0.75)
        way_out = f"Did you mean {near[0]}?" if near else f"Paths are relative to {source}."
        raise InputError(f"{source}: {key} names {name}, and there is no file {path}", way_out)
    return OwnFile(path=str(path), sha256=sha256_of(path))


def _held_out(folder: Path, amount: str | int | float | None, source: str, key: str) -> HeldOut:
    if isinstance(amount, str):
        return own_file(folder, amount, source, key)
    if isinstance(amount, float) and not 0 < amount < 1:
        raise InputError(f"{source}: the key {key} is {amount:g}, and a share lies between 0 and 1", HELD_OUT)
    return amount


def _metric(folder: Path, values: Mapping[str, Any], source: str) -> Metric:
    """The metric of a task file; the code of a function of the person's is read from its file."""
    fields = dict(values)
    if fields.get("kind") == "python" and "file" in fields:
        file = own_file(folder, str(fields.pop("file")), source, "metric.file")
        try:
            fields["code"] = Path(file.path).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{file.path} is not UTF-8 (byte {error.start + 1})", "Save it as UTF-8.") from error
    adapter: TypeAdapter[Metric] = TypeAdapter(Metric)
    try:
        return adapter.validate_python(fields)
    except ValidationError as error:
        if fields.get("kind") not in METRICS:
            what = f"is {fields['kind']!r}" if "kind" in fields else "is missing"
            raise InputError(f"{source}: metric.kind {what}", f"Write one of: {', '.join(METRICS)}.") from error
        raise refusal(source, error, METRICS[fields["kind"]].model_fields, "metric") from error
