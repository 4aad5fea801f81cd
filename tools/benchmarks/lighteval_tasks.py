"""lighteval's own generative tasks as benchmarks: `lighteval:gsm8k`, or `lighteval:gsm8k|5` with five worked examples
in every prompt.

What there is stands in a table made from the pinned lighteval, so that naming a task starts nothing. lighteval itself
is asked in the score environment: for the documents once, and for the grade of an output by a process that stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from functools import lru_cache, partial
from pathlib import Path

from memory.errors import EngineError, InputError, SetupError
from memory.layout import folder_name, made, read_rows, sha256_of
from memory.records import Record
from tools.benchmarks.benchmark import Benchmark, Graded, Item, Split, nowhere
from tools.benchmarks.lighteval_grader import Grader
from tools.benchmarks.measures import Mean
from tools.engines import contract, environments
from tools.engines.contract import Engine
from tools.raw_data.rows import published
from tools.raw_data.store import Store
from tools.serving import WINDOW

PREFIX = "lighteval:"
TABLE = Path(__file__).with_name("lighteval_tasks.jsonl")
OPEN_ENDED = 512
"""Tokens of an answer where a task leaves them open."""
HELD_OUT = 200
"""Items of validation and of test, at most, from the split that lighteval evaluates on."""
MOST_SHOTS = 25
FETCH_SECONDS = 3600.0
ONLINE = {"HF_HUB_OFFLINE": "0", "HF_DATASETS_OFFLINE": "0"}
WORKER = environments.ENGINES / "lighteval" / "documents.py"


class KnownTask(Record):
    """A task of lighteval."""

    name: str
    module: str
    """Where in `lighteval.tasks.tasks` it is defined."""
    metric: str = ""
    repository: str = ""
    """Its data set on the hub."""
    subset: str = ""
    evaluation: tuple[str, ...] = ("test",)
    """The splits that it is evaluated on."""
    train: str = ""
    """The split that training rows come from; empty where it has none."""
    max_new_tokens: int = 0
    """0 where the task leaves it open."""
    refused: str = ""
    """Why it cannot be a benchmark here; empty where it can."""


class DocumentsRequest(Record):
    """What the worker is asked for the items of a task."""

    task: KnownTask
    shots: int
    data: str | None
    """Absolute folder with the data set; None for the hub, or what is in its cache."""
    data_sha256: str
    """Of the files in that folder; empty for the hub's."""


class DocumentsMade(Record):
    """What the worker answers: files of items in its folder."""

    evaluation_sha256: str
    train_sha256: str
    ungraded: int
    """Training rows left out because the metric does not give the full mark to their own gold."""


@lru_cache(maxsize=1)
def table() -> dict[str, KnownTask]:
    """All tasks by name."""
    return {task.name: task for task in read_rows(TABLE, KnownTask)}


def parsed(name: str) -> tuple[KnownTask, int]:
    """Task and number of worked examples of `lighteval:TASK` or `lighteval:TASK|SHOTS`. Raises InputError for a task
    that is unknown, or cannot be a benchmark here."""
    task, _, shots = name.removeprefix(PREFIX).partition("|")
    usable = [known.name for known in table().values() if not known.refused]
    if not re.fullmatch(r"\d{0,2}", shots) or int(shots or 0) > MOST_SHOTS:
        raise InputError(f"{name} asks for {shots!r} worked examples", f"Write {PREFIX}{task}|5, {MOST_SHOTS} at most.")
    near = [PREFIX + each for each in get_close_matches(task, usable, n=3, cutoff=0.4)]
    way_out = f"Near are {', '.join(near)}." if near else "`python -m tools.benchmarks list lighteval` names all."
    if task not in table():
        raise InputError(f"lighteval has no task {task!r}", way_out)
    if table()[task].refused:
        raise InputError(f"{PREFIX}{task} cannot be tuned for: {table()[task].refused}", way_out)
    return table()[task], int(shots or 0)


def benchmark(name: str) -> Benchmark:
    """The benchmark of a task. Raises InputError as `parsed`."""
    known, shots = parsed(name)
    tokens = known.max_new_tokens or OPEN_ENDED
    repository = " ".join(filter(None, (known.repository, known.subset)))
    beside = f", {shots} worked examples in every prompt" if shots else ""
    return Benchmark(
        name=PREFIX + known.name + (f"|{shots}" if shots else ""),
        title=f"lighteval's {known.name}{beside}",
        source=f"{repository}, {'+'.join(known.evaluation)}",
        licence="as the data set's page says",
        draw=nowhere,
        grade=_nobody,
        max_new_tokens=tokens,
        measure=Mean(known.metric),
        drawn_from=lambda store: partial(draw, known, shots, store),
        graded_from=lambda store: Grader(known, partial(score_python, store.cache)).grade,
        domain="lighteval",
        window=WINDOW if tokens <= WINDOW // 2 else tokens + WINDOW // 2,
        sizes=f"at most {HELD_OUT}, {HELD_OUT}",
    )


def draw(known: KnownTask, shots: int, store: Store, split: Split, seed: int) -> Iterator[Item]:
    """The items of a split, the same for every seed: the evaluation split, shuffled with seed 42, gives its first rows
    to validation and its last ones to the test; training rows are the task's own, or where it has none what lies
    between. Raises InputError where the data cannot be had."""
    folder = documents(known, shots, store)
    evaluation = list(read_rows(folder / "evaluation.jsonl", Item))
    if split != "train":
        yield from published(evaluation, HELD_OUT)[split]
    elif known.train:
        yield from read_rows(folder / "train.jsonl", Item)
    else:
        held_out = {item.id for items in published(evaluation, HELD_OUT).values() for item in items}
        yield from (item for item in evaluation if item.id not in held_out)


def documents(known: KnownTask, shots: int, store: Store) -> Path:
    """The folder with the items of a task, made once. Raises InputError where its data cannot be had, SetupError where
    the score environment is not set up."""
    data = data_of(known, store)
    request = DocumentsRequest(
        task=known, shots=shots, data=str(data) if data else None, data_sha256=content_of(data) if data else ""
    )
    name = f"{known.name}-{shots}-{contract.request_sha256(request)[:12]}"
    folder = made(store.cache / "lighteval" / folder_name(name))
    engine = Engine("lighteval", score_python(store.cache), WORKER, {} if data else ONLINE)
    try:
        engine.call(request, DocumentsMade, folder, timeout_s=FETCH_SECONDS)
    except EngineError as error:
        raise refusal(known, store, error) from error
    return folder


def data_of(known: KnownTask, store: Store) -> Path | None:
    """The folder of the data set among the person's raw data: called like the repository, with the subset's folder in
    it where there is one; None where it lies there not."""
    if store.given is None:
        return None
    short = known.repository.rpartition("/")[2]
    for folder in (store.given / short, store.given / known.repository):
        for place in (folder / known.subset, folder):
            if place.is_dir() and any(place.glob("*.*")):
                return place
    return None


def content_of(folder: Path) -> str:
    """Hashes of the files in a folder, as one word."""
    return " ".join(sha256_of(path)[:16] for path in sorted(folder.rglob("*")) if path.is_file())


def refusal(known: KnownTask, store: Store, error: EngineError) -> InputError:
    """What is missing, and from where it comes."""
    looked = f", and {store.given} holds no folder {known.repository.rpartition('/')[2]}" if store.given else ""
    what = f"the data of {PREFIX}{known.name} cannot be read: {error.message}"
    return InputError(
        f"{what}{looked}",
        f"It is {known.repository} on the hub: go online once, or put its files (train.jsonl, test.jsonl, ...) into a "
        f"folder of that name and name the folder above it with --data-dir or TUNEWRIGHT_DATA.",
    )


def score_python(cache: Path) -> Path:
    """The interpreter that has lighteval. Raises SetupError."""
    ready = environments.installed(environments.specs(environments.detect_hardware())["score"], cache)
    if ready is None:
        raise SetupError("lighteval lives in the score environment, which is not set up", "Set it up: make setup")
    return ready.python


def _nobody(output: str, item: Item) -> Graded:
    raise ValueError("this benchmark has no store: ask tools.benchmarks.get(name, store)")
