"""The file of a batch: several tasks as JSON, in the words of the command line or of FT-Agent's job file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from graph.options import OPTIONS, TABLE
from graph.settings import BatchTask, Settings
from graph.values import near
from memory.errors import InputError

THEIRS = {"model": "--base-model"}
"""Keys of FT-Agent that are no option of ours; its other ones are."""
IGNORED = {
    "gpus": "each run gets the next free GPU",
    "port": "a run serves its model on a socket in its own folder",
}
"""Keys of FT-Agent that have no meaning here, and why."""
NOT_OF_A_TASK = {"approve", "wait", "cluster"}
"""Options of a run that somebody has to sit beside, or that hold for the whole batch."""
SHAPE = 'Write [{"benchmark": "aiw", "budget": "30m"}, ...]; each task has the options of a run as keys.'

Parse = Callable[[Sequence[str]], Settings]


def read_batch(path: Path, parse: Parse) -> tuple[BatchTask, ...]:
    """The tasks of a file: an array, an object of names and tasks, or FT-Agent's `{"tasks": [...]}`.

    `parse` reads a command line: each task is checked as `python -m graph.run` would, before any begins. Raises
    InputError that names the task.
    """
    found: list[BatchTask] = []
    for name, fields in _named(path):
        run = _folder(path.stem, name, fields)
        try:
            found.append(BatchTask(name=run, task=parse(argv_of(fields)).task(), ignored=_ignored(fields)))
        except InputError as error:
            raise InputError(f"{path.name}, task {name}: {error.message}", error.way_out) from error
    names = [each.name for each in found]
    for twice in names:
        if names.count(twice) > 1:
            raise InputError(f"{path.name} has two tasks called {twice}", "Give each a name of its own.")
    return tuple(found)


def argv_of(fields: dict[str, Any]) -> list[str]:
    """The command line that a task means. Raises InputError for a key or a value that means nothing."""
    options = _options()
    argv: list[str] = []
    for key, value in fields.items():
        if key in IGNORED or value is None:
            continue
        if key not in options:
            raise InputError(f"there is no key {key}", near(key, options, f"There are: {', '.join(options)}."))
        name, kind = options[key]
        if kind == "store_true" and isinstance(value, bool):
            argv += [name] if value else []
        else:
            argv += _words(key, name, kind, value)
    return argv


def _words(key: str, name: str, kind: str, value: Any) -> list[str]:
    """An option with its value or values. Raises InputError."""
    values = value if isinstance(value, list) else [value]
    if kind == "store_true" or not all(
        isinstance(one, str | int | float) and not isinstance(one, bool) for one in values
    ):
        wanted = "true or false" if kind == "store_true" else "a text or a number, or a list of them"
        raise InputError(f"{key} is not {wanted}", "Write it as the option takes it.")
    words = [str(one) for one in values]
    return [f"{name}={word}" for word in (words if kind in ("append", "extend") else [",".join(words)])]


def _options() -> dict[str, tuple[str, str]]:
    """Key, option and argparse's action (empty for the usual one), of all that goes with a new run."""
    known: dict[str, tuple[str, str]] = {}
    for group in TABLE.values():
        for spelling, details in group.items():
            names = spelling.split()
            keys = [name.removeprefix("--").replace("-", "_") for name in names]
            if details.get("dest", keys[0]) in OPTIONS["start"] - NOT_OF_A_TASK:
                known |= {key: (names[0], details.get("action", "")) for key in keys}
    return known | {key: (name, "") for key, name in THEIRS.items()}


def _named(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The tasks with their names; a list has numbers. Raises InputError."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}", "Name a file of tasks.") from error
    except ValueError as error:
        raise InputError(f"{path} is no JSON: {error}", SHAPE) from None
    if isinstance(value, dict) and isinstance(value.get("tasks"), list | dict):
        for key in value.keys() - {"tasks"}:
            raise InputError(f"{path.name}: there is no key {key} beside tasks", SHAPE)
        value = value["tasks"]
    pairs = list(value.items() if isinstance(value, dict) else enumerate(value, 1) if isinstance(value, list) else ())
    if not pairs:
        raise InputError(f"{path} holds no tasks", SHAPE)
    for name, fields in pairs:
        if not isinstance(fields, dict):
            raise InputError(f"{path.name}, task {name} is no object", SHAPE)
        yield (name if isinstance(name, str) else f"{name:02}"), fields


def _folder(stem: str, name: str, fields: dict[str, Any]) -> str:
    """The folder of a task's run: the same at each start, so that the same command goes on."""
    what = str(fields.get("benchmark") or Path(str(fields.get("task", ""))).stem)
    words = (stem, name, what) if name.isdigit() else (stem, name)
    return re.sub(r"[^\w.-]+", "-", "-".join(word for word in words if word)).strip("-.")


def _ignored(fields: dict[str, Any]) -> tuple[str, ...]:
    """What a task says in vain, and why."""
    return tuple(f"{key} is ignored: {why}" for key, why in IGNORED.items() if key in fields)
