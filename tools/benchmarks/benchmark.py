"""What a benchmark is: where its items come from, how an output becomes an answer, and what the answer scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from pydantic import Field

from memory.records import Outcome, OwnTask, Record
from tools.benchmarks.measures import Mean, Measure
from tools.raw_data.source import RawFile
from tools.raw_data.store import Store
from tools.serving import WINDOW

Split = Literal["train", "validation", "test"]


class Item(Record):
    """One question of a benchmark with its gold answer."""

    id: str
    """Unique in the benchmark, for example `test-17`."""
    prompt: str
    """The user message, whole; the chat template is put around it by training and by serving alike."""
    answer: str
    """The gold answer as the model should write it."""
    subset: str = ""
    """Part of the benchmark that gets a score of its own; empty where there are no parts."""
    columns: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """The benchmark's own columns, for filters and templates of a data recipe."""
    reference: str
    """JSON that the scorer needs beside the output."""


class Graded(Record):
    """What the scorer says about one output."""

    score: float = Field(ge=0, le=1)
    """How right the output is. Training rows, error classes and pass rates look at it, whatever the benchmark's measure
    is: 1 is right, and a gold scores 1."""
    answer: str | None
    """What was extracted from the output; None where the output holds no answer, which scores 0."""
    values: dict[str, float] = Field(default_factory=dict)
    """Further figures, for other measures; one that says nothing of this item, or was not measured, is left out."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Further answers, for other measures: what another scorer reads from the output; left out where it reads none."""


Draw = Callable[[Split, int], Iterator[Item]]
"""`draw(split, seed)` yields candidate items."""

Grade = Callable[[str, Item], Graded]
"""`grade(output, item)`."""


def nowhere(split: Split, seed: int) -> Iterator[Item]:
    """What a benchmark made of raw data draws before anybody said where that lies: a mistake of the caller."""
    raise ValueError("this benchmark has no store: ask tools.benchmarks.get(name, store)")


@dataclass(frozen=True)
class Benchmark:
    """A task with its own scorer. One file in this folder makes one of these."""

    name: str
    title: str
    """One line for a person."""
    source: str
    """Where the items come from, with version."""
    licence: str
    draw: Draw
    """It may repeat itself and need not end; `splits.py` keeps distinct ones."""
    grade: Grade
    """`grade(output, item)`: pure; the raw model output goes in, white space and all."""
    max_new_tokens: int
    """Room for the longest gold and little more: a chatty answer is cut, and counts as truncated."""
    closed_answers: tuple[str, ...] | None = None
    """All answers there are, where they are few; None where answers are open."""
    generated: bool = False
    """Whether a generator made the items, so that two questions that differ in a word are two questions; elsewhere
    they are near copies, and a leak where one is held out."""
    measure: Measure = field(default_factory=lambda: Mean("accuracy"))
    """What the score is; it decides."""
    others: tuple[Measure, ...] = ()
    """What is reported beside it, and decides nothing: further measures, and the published scorer's (`..._ftdojo`)."""
    temperature: float = 0.0
    samples: int = 1
    """Outputs per item; an item's score is their mean (avg@k)."""
    own: OwnTask | None = None
    """The person's task that it was made of: its splits come from files, and `draw` yields what is in them."""
    held_out: tuple[RawFile, ...] = ()
    """Raw data that validation and test are made of; empty where a generator makes the items."""
    training: tuple[RawFile, ...] = ()
    """Raw data that training rows are made of; it may be other files, or the same."""
    drawn_from: Callable[[Store], Draw] | None = None
    """Of a benchmark with raw data: `draw`, once it is known where that lies. Its splits are fixed: all that `draw`
    yields, less what an earlier split holds."""
    graded_from: Callable[[Store], Grade] | None = None
    """Of a benchmark whose scorer is not here: `grade`, once it is known where that is."""
    items_in: Callable[[Path], list[Item]] | None = None
    """Of a benchmark with raw data: the items of a file in its own schema, to score outputs on them."""
    domain: str = "reasoning"
    sizes: str = "as many as wanted"
    """Items of validation and test, in words."""
    window: int = WINDOW
    """Tokens that the server is to take, prompt and answer together; a model whose own window is smaller is refused by
    the server."""
    extras: tuple[str, ...] = ()
    """Packages that only some benchmarks need, pinned, as `rdkit==2026.9.1`."""

    @property
    def metric(self) -> str:
        """The name of the score."""
        return self.measure.name

    @property
    def higher_is_better(self) -> bool:
        """The direction of the score."""
        return self.measure.higher_is_better

    @property
    def terms(self) -> str:
        """The licence, and whether it forbids commercial use."""
        forbids = any(file.source.non_commercial for file in (*self.held_out, *self.training))
        return f"{self.licence}, non-commercial" if forbids else self.licence

    @property
    def fixed(self) -> bool:
        """Whether the splits are what they are, and no sizes can be asked for."""
        return self.own is not None or self.drawn_from is not None

    def located(self, store: Store) -> Benchmark:
        """The benchmark with the places where raw data and scorer lie."""
        draw = self.drawn_from(store) if self.drawn_from else self.draw
        return replace(self, draw=draw, grade=self.graded_from(store) if self.graded_from else self.grade)

    def outcome(
        self, item: Item, output: str, *, sample: int = 0, finish: str = "given", output_tokens: int | None = None
    ) -> Outcome:
        """One output, graded."""
        graded = self.grade(output, item)
        return Outcome(
            id=item.id,
            sample=sample,
            prompt=item.prompt,
            output=output,
            answer=graded.answer,
            gold=item.answer,
            score=graded.score,
            values=graded.values,
            labels=graded.labels,
            subset=item.subset,
            finish=finish,
            output_tokens=output_tokens,
        )
