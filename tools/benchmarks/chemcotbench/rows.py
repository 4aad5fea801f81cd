"""ChemCoTBench's raw data: the hub's rows, or the authors' logs, which hold the same questions without their prompts.

The hub's benchmark has one file a subtask with whole prompts; the training set (ChemCoTDataset) likewise, with
reasoning beside the answers. Both are handed out to people who accepted their terms. The logs in the authors'
repository (`baseline_and_eval/logs/SUBTASK/MODEL.json`) hold molecules and golds beside the outputs of a model: from
them come the same questions in prompts of ours, which ask for the same JSON; their order differs from the hub's, so
that the splits are not the published ones. There are no logs of four of the five kinds of reactions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, field_validator

from memory.errors import InputError
from tools.benchmarks import molecules
from tools.benchmarks.benchmark import Draw, Graded, Item, Split
from tools.raw_data.rows import Row, published, read
from tools.raw_data.source import RawFile
from tools.raw_data.sources import CHEMCOT, CHEMCOTBENCH
from tools.raw_data.store import Store

REACTANTS = RawFile(CHEMCOTBENCH, "retro.json", ("chemcotbench/retro",))
"""The authors' log of retrosynthesis, which has the reactants one by one. The hub does not have it."""
EXTRAS = (molecules.EXTRA,)
LICENCE = "MIT (the authors' logs: CC BY 4.0)"


class Question(BaseModel):
    """A row as the hub has it; what else stands there is passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore", coerce_numbers_to_str=True)

    id: str
    subtask: str = ""
    """Missing in some training rows; there the file says it."""
    query: str
    """The prompt, whole."""
    gt: str | int | None = None
    """The gold; missing where the benchmark has none, and in most training rows."""
    meta: dict[str, JsonValue] = Field(default_factory=dict)
    struct_cot: str | None = None
    """The reasoning of a training row; one in eight has none."""

    @field_validator("meta", mode="before")
    @classmethod
    def _parsed(cls, value: object) -> object:
        """The hub has it as JSON in a text."""
        return (json.loads(value) if isinstance(value, str) else value) or {}

    @property
    def gold(self) -> str:
        """The gold, wherever it stands; empty where there is none."""
        found = (self.gt, self.meta.get("gt"), self.meta.get("reference"))
        return next((str(value) for value in found if value not in (None, "")), "")

    @property
    def columns(self) -> dict[str, str | int | float | bool]:
        """The reasoning of a training row, which a data recipe may put before its answer."""
        return {"reasoning": self.struct_cot} if self.struct_cot else {}

    def text(self, key: str) -> str:
        """A text of `meta`; empty where it is missing."""
        value = self.meta.get(key)
        return value if isinstance(value, str) else ""


FromLog = Callable[[Row], Question]
"""A row of the authors' log becomes the question that the hub has; where the log has no ids, its place is its id."""
Grade = Callable[[str, Item], Graded]
ItemOf = Callable[[Question], Item | None]
"""None for a question that no scorer can score."""


@dataclass(frozen=True)
class View:
    """A subtask: its rows are shuffled and cut for themselves."""

    subtask: str
    held_out: tuple[RawFile, ...]
    training: tuple[RawFile, ...] = ()


def view(family: str, subtask: str, *logs: str, trained_on: str = "") -> View:
    """A subtask with its files: the hub's, the folders of logs that hold the same, and the training set's."""
    name = f"chemcotbench/{family}/{subtask}.json"
    held_out = tuple(RawFile(CHEMCOTBENCH, name, (f"chemcotbench/{log}",)) for log in logs) or (
        RawFile(CHEMCOTBENCH, name),
    )
    training = (RawFile(CHEMCOT, f"chemcotbench-cot/{trained_on}.json"),) if trained_on else ()
    return View(subtask, held_out, training)


def held_out(views: Iterable[View]) -> tuple[RawFile, ...]:
    """All files of validation and test."""
    return tuple(file for one in views for file in one.held_out)


def training(views: Iterable[View]) -> tuple[RawFile, ...]:
    """All files of training rows."""
    return tuple(file for one in views for file in one.training)


def drawn_from(views: Iterable[View], item_of: ItemOf, from_log: FromLog, grade: Grade) -> Callable[[Store], Draw]:
    """The items of all views; each split has the published rows of each view. Training rows whose own answer is not
    right are left out: some edits and improvements of the training set do not do what was asked."""

    def located(store: Store) -> Draw:
        def draw(split: Split, seed: int) -> Iterator[Item]:
            for one in views:
                paths = dict.fromkeys(map(store.path, one.training if split == "train" else one.held_out))
                asked = [question for path in paths for question in questions(path, from_log)]
                # The training set calls one subtask by another name.
                items = list(
                    filter(None, (item_of(each.model_copy(update={"subtask": one.subtask})) for each in asked))
                )
                if split == "train":
                    yield from (item for item in items if grade(item.answer, item).score == 1)
                else:
                    yield from published(items)[split]

        return draw

    return located


def items_in(item_of: ItemOf, from_log: FromLog) -> Callable[[Path], list[Item]]:
    """The items of one file of the hub's, or of one of the authors' logs."""

    def items(path: Path) -> list[Item]:
        return list(filter(None, map(item_of, questions(path, from_log))))

    return items


def questions(path: Path, from_log: FromLog) -> list[Question]:
    """The questions of a file of the hub, of a log, or of a folder of logs, all of which hold the same: the first one
    counts. Raises InputError for a row that is neither."""
    file = sorted(path.iterdir())[0] if path.is_dir() else path
    found = []
    for number, row in enumerate(read(file)):
        try:
            question = Question.model_validate(row) if "query" in row else from_log(row)
        except (ValidationError, KeyError, ValueError) as error:
            raise InputError(
                f"row {number + 1} of {file} is no row of ChemCoTBench: {type(error).__name__}",
                "Name a folder with the hub's files or the authors' logs, unchanged.",
            ) from error
        found.append(question if question.id else question.model_copy(update={"id": f"{file.parent.name}-{number}"}))
    return found


def question(subtask: str, query: str, **meta: str) -> Question:
    """A question of the authors' logs, without an id."""
    return Question(id="", subtask=subtask, query=query, meta=dict(meta))


def asked(question: str, key: str, value: str) -> str:
    """A prompt of ours: the question, and the JSON that is asked for."""
    return f'{question}\nAnswer with JSON and nothing else: {{"{key}": "{value}"}}'


def answer(key: str, value: str | int) -> str:
    """The gold as the prompts ask for it."""
    return json.dumps({key: value}, ensure_ascii=False)
