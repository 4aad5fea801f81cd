"""A task file for data that nobody has described: looked at, guessed, shown, and written beside the data."""

from __future__ import annotations

import json
import shlex
import sys
import textwrap
from pathlib import Path

from graph.settings import Settings
from memory.errors import InputError
from memory.layout import write_text
from memory.records import OwnTask
from tools.benchmarks.benchmark import Item
from tools.own_task import guess
from tools.own_task.files import read_file
from tools.own_task.shapes import rows_of
from tools.own_task.splitting import OwnSplits, own_splits
from tools.own_task.task_file import TaskFile, draft_of, task_of, toml_of

SHOWN = 10
"""Training rows that are shown as the model will see them; rows of the sealed test never are."""
WIDTH = 100
"""Characters of a line for a person."""
LINES = 12
"""Lines of a prompt that are shown."""


def new_task(settings: Settings, equip: object) -> int:
    """Write NAME.toml beside the data of `settings.new_task`, and show what it means; the exit code.

    0: the task can be started. 2: it is written, but its data or its guesses have to be corrected first, as is said.
    Raises InputError for data that cannot be read, and where the file is there already.
    """
    assert settings.new_task is not None, "the command line has looked for it"
    path = settings.new_task
    target = path.with_name(f"{guess.name_of(path)}.toml")
    if target.exists():
        raise InputError(f"{target} exists already", f"Start it with --task {target.name}, or move it away first.")
    made = guess.guess(path, raw := read_file(path))
    trouble: InputError | None = None
    splits: OwnSplits | None = None
    task: OwnTask | None = None
    try:
        draft = draft_of(made.file, path.parent, target.name)
        made = guess.with_metric(made, rows_of(draft, "train", path.name, raw), raw)
        task = task_of(made.file, path.parent, target.name)
        splits = own_splits(task, 0)
    except InputError as error:
        trouble = error
    write_text(target, toml_of(made.file, made.reasons, _head(target)))
    if settings.json_output:
        print(json.dumps(_as_json(target, made, task, splits, trouble), indent=2, ensure_ascii=False))
    else:
        print("\n".join(_text(target, made, task, splits)))
    if trouble is not None:
        print(f"{target.name} is written, but: {trouble}", file=sys.stderr)
        return trouble.exit_code
    return 0


def command(target: Path) -> str:
    """The command that starts a run of the task."""
    return shlex.join(["python", "-m", "graph.run", "--task", str(target)])


def _head(target: Path) -> list[str]:
    return [
        "A task of your own. Everything here was guessed from the data: correct what is wrong.",
        f"Start it with: {command(Path(target.name))}",
    ]


def _text(target: Path, made: guess.Guess, task: OwnTask | None, splits: OwnSplits | None) -> list[str]:
    """Prompts first, then what was guessed and found: the end of a long text is what a person sees."""
    lines: list[str] = []
    if splits is not None:
        for number, item in enumerate(splits.items["train"][:SHOWN], 1):
            lines += [f"--- {number} of {SHOWN}, {item.id}", *_shown(item), ""]
    lines += [f"{key:12} {_value(made.file, key)}  ({why})" for key, why in made.reasons.items()]
    if task is not None and splits is not None:
        sizes = ", ".join(f"{len(splits.items[split])} {split}" for split in ("train", "validation", "test"))
        lines += [f"{'splits':12} {sizes}", f"{'answers up to':12} {task.max_new_tokens} tokens"]
        lines += [f"note: {found.says}" for found in splits.findings.found]
        lines += ["", f"wrote {target}", f"Look it over, then start: {command(target)}"]
    return lines


def _shown(item: Item) -> list[str]:
    """A prompt and its answer, neither longer than a person reads."""
    prompt = [part for line in item.prompt.splitlines() for part in textwrap.wrap(line, WIDTH) or [""]]
    cut = [f"[{len(prompt) - LINES} more lines]"] if len(prompt) > LINES else []
    return [*prompt[:LINES], *cut, f"=> {textwrap.shorten(item.answer, WIDTH, placeholder=' ...')}"]


def _value(file: TaskFile, key: str) -> str:
    value = getattr(file, key)
    text = ", ".join(value) if isinstance(value, tuple) else value["kind"] if isinstance(value, dict) else str(value)
    return textwrap.shorten(text, WIDTH, placeholder=" ...")


def _as_json(
    target: Path, made: guess.Guess, task: OwnTask | None, splits: OwnSplits | None, trouble: InputError | None
) -> dict[str, object]:
    return {
        "file": str(target),
        "command": command(target),
        "keys": made.file.model_dump(exclude_defaults=True),
        "reasons": made.reasons,
        "max_new_tokens": task.max_new_tokens if task else None,
        "splits": {split: len(items) for split, items in splits.items.items()} if splits else None,
        "findings": [found.model_dump() for found in splits.findings.found] if splits else None,
        "prompts": [{"prompt": i.prompt, "answer": i.answer} for i in splits.items["train"][:SHOWN]]
        if splits
        else None,
        "trouble": str(trouble) if trouble else None,
    }
