"""A task of one's own, drafted on the page: an upload that is looked at, guessed, tried on its own rows, and saved.

What is uploaded is parsed and never executed: a metric that is a Python file is taken from the command line alone.
"""

from __future__ import annotations

import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from pydantic import ValidationError

from graph.arguments import parse
from graph.page.safe_text import block, html_table, paragraph
from graph.page.uploads import Uploads, rows
from graph.values import EMBEDDED_MODEL
from memory.errors import InputError
from memory.layout import disk, made, write_text
from memory.records import OwnTask, Record, Task
from tools import metrics
from tools.base_models import HUB_ID
from tools.benchmarks import BENCHMARKS
from tools.benchmarks.benchmark import Item, Split
from tools.lengths import tokens_of
from tools.own_task import guess
from tools.own_task.guess import Guess
from tools.own_task.shapes import rows_of
from tools.own_task.splitting import OwnSplits, own_splits
from tools.own_task.task_file import METRICS, TaskFile, draft_of, refusal, task_of, toml_of

SHOWN = 10
"""Training rows that are shown as prompts; rows of the sealed test never are."""
SOURCE = "the form"
"""What messages call the task file that is not written yet."""
KINDS = tuple(kind for kind in METRICS if kind != "python")
"""Metrics that can be chosen on the page."""


class Form(Record):
    """What a person can set on the page, as it stands in the fields."""

    name: str
    shape: str
    prompt: str
    answer: str
    group: str = ""
    metric: str
    settings: str = ""
    """Of the metric, as in a task file: `absolute = 0.01`."""
    answers: str = ""
    """All answers, one a line; empty where they are open."""
    validation: str = ""
    """A number of rows or a share; empty for the default. A file that is uploaded counts instead."""
    test: str = ""
    templated: bool = False


@dataclass(frozen=True)
class Looked:
    """A draft that can be started."""

    task: OwnTask
    splits: OwnSplits


# --- a draft --------------------------------------------------------------------------------------------------------


def guessed(uploads: Uploads) -> Guess:
    """A first task for the rows of an upload, with the reasons. Raises InputError for data that cannot be read, and
    where no column can be the answer."""
    path = uploads.train
    raw = rows(path)
    made_up = guess.guess(path, raw)
    draft = draft_of(made_up.file, path.parent, SOURCE)
    return guess.with_metric(made_up, rows_of(draft, "train", path.name, raw), raw)


def form_of(file: TaskFile) -> Form:
    """A task file as it stands in the fields of the page."""
    fields = {key: value for key, value in file.metric.items() if key != "kind"}
    return Form(
        name=file.name,
        shape=file.shape,
        prompt=file.prompt,
        answer=file.answer,
        group=file.group,
        metric=file.metric["kind"],
        settings="\n".join(toml_of(file, {}, []).partition("[metric]")[2].split("\n")[2:]).strip() if fields else "",
        answers="\n".join(file.answers or ()),
        templated=file.templated,
    )


def file_of(form: Form, uploads: Uploads) -> TaskFile:
    """The task file that the fields mean; its data is named by absolute paths, so that nothing that was typed is taken
    for a path. Raises InputError that names the field."""
    if form.name in BENCHMARKS:
        raise InputError(f"{form.name} is a benchmark of Tunewright's", "Give the task another name.")
    keys: dict[str, object] = form.model_dump(exclude={"metric", "settings", "answers", "validation", "test"})
    keys["metric"] = _metric(form)
    if answers := tuple(line.strip() for line in form.answers.splitlines() if line.strip()):
        keys["answers"] = answers
    keys |= {key: _amount(key, text) for key in ("validation", "test") if (text := getattr(form, key).strip())}
    keys |= {key: str(path) for key, path in uploads.named().items()}
    try:
        return TaskFile.model_validate(keys)
    except ValidationError as error:
        raise refusal(SOURCE, error, TaskFile.model_fields) from error


def _amount(key: str, text: str) -> int | float:
    """Rows, or a share. Raises InputError."""
    try:
        return int(text) if text.isdecimal() else float(text)
    except ValueError:
        raise InputError(
            f"{text!r} is no size of a {key} split", "Write rows such as 200, or 0.2 for a fifth."
        ) from None


def _metric(form: Form) -> dict[str, object]:
    if form.metric not in KINDS:
        raise InputError(
            f"{form.metric} cannot be chosen here", "A Python metric is started from the command line, with --task."
        )
    try:
        fields = tomllib.loads(form.settings)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"the metric's settings are no TOML: {error}", "Write them like absolute = 0.01.") from error
    return fields | {"kind": form.metric}


def look(form: Form, uploads: Uploads) -> Looked:
    """Try the draft on its rows as a run would: every row read, every gold scored, the splits drawn. Raises
    InputError."""
    task = task_of(file_of(form, uploads), uploads.train.parent, SOURCE)
    return Looked(task, own_splits(task, 0))


def save(form: Form, uploads: Uploads, runs: Path) -> Path:
    """Write `tasks/NAME.toml` in the folder of runs, beside a copy of the data. Raises InputError where there is one of
    that name, StorageError."""
    file = file_of(form, uploads)
    place = made(runs / "tasks")
    target = place / f"{file.name}.toml"
    if target.exists():
        raise InputError(f"there is a task {file.name} already", "Give this one another name.")
    copies = {key: f"{file.name}-{key}{path.suffix.lower()}" for key, path in uploads.named().items()}
    for key, path in uploads.named().items():
        with disk(place / copies[key]):
            shutil.copyfile(path, place / copies[key])
    write_text(target, toml_of(file.model_copy(update=copies), {}, ["A task of your own, drafted on the page."]))
    return target


def saved(runs: Path) -> dict[str, Path]:
    """The tasks that were saved, by name."""
    return {path.stem: path for path in sorted((runs / "tasks").glob("*.toml"))}


def task_to_start(runs: Path, name: str, base_model: str, budget: str, trials: str) -> Task:
    """What a run of a saved task would be asked, as the command line would read it. Raises InputError."""
    files = saved(runs)
    if name not in files:
        raise InputError(f"there is no task {name}" if name else "no task is chosen", "Save one, or choose another.")
    if base_model != EMBEDDED_MODEL and not HUB_ID.fullmatch(base_model):
        raise InputError(f"{base_model or 'nothing'} is no model", f"Write {EMBEDDED_MODEL}, or a hub id OWNER/NAME.")
    argv = ["--task", str(files[name]), f"--base-model={base_model}", f"--budget={budget.strip()}"]
    argv += [f"--max-trials={trials.strip()}"] if trials.strip() else []
    return parse(argv, {}).task()


# --- what is shown --------------------------------------------------------------------------------------------------


def sizes(looked: Looked) -> str:
    """The splits and what was found, as HTML."""
    parts = ", ".join(f"{len(looked.splits.items[split]):,} {split}" for split in get_args(Split))
    golds = f"All {looked.splits.findings.usable:,} golds get the full mark by {looked.task.metric.kind}."
    room = f"Answers may have {looked.task.max_new_tokens} tokens."
    found = [[one.kind, f"{one.rows:,}", f"{one.left_out:,}", one.says] for one in looked.splits.findings.found]
    odd = (
        html_table(("found", "rows", "left out", "says"), found)
        if found
        else paragraph("No duplicates, no leaks between the splits, nothing odd.")
    )
    return paragraph(f"{parts}. {golds} {room}") + odd


def prompts(looked: Looked) -> str:
    """Ten training rows as the model sees them, with what the metric makes of the gold and of a wrong answer, as
    HTML."""
    items = looked.splits.items["train"]
    grade = metrics.grader(looked.task.metric, looked.task.answers)
    parts = []
    for number, item in enumerate(items[:SHOWN], 1):
        other = next((one.answer for one in items if one.answer != item.answer), None)
        marks = f"the gold scores {grade(item.answer, item).score:g}"
        if other is not None:
            marks += f"; {_short(other)!r}, the answer of another row, scores {grade(other, item).score:g}"
        parts.append(
            paragraph(f"{number}. {item.id}: about {tokens(item)} tokens")
            + block(item.prompt)
            + paragraph(f"Gold: {item.answer}")
            + paragraph(f"({marks})")
        )
    return "".join(parts)


def tokens(item: Item) -> int:
    """Tokens of prompt and gold by estimate: characters, before a tokenizer saw them."""
    return round(tokens_of(item.prompt) + tokens_of(item.answer))


def reasons(made_up: Guess) -> str:
    """Why the guess is so, as HTML."""
    return html_table(("guessed", "because"), list(made_up.reasons.items()))


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."
