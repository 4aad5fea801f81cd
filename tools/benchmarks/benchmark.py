"""What a benchmark is: where its items come from, how an output becomes an answer, and what the answer scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from memory.records import OwnTask, Record

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
    answer: str | None
    """What was extracted from the output; None where the output holds no answer, which scores 0."""


@dataclass(frozen=True)
class Benchmark:
    """A task with its own scorer. One file in this folder makes one of these."""

    name: str
    title: str
    """One line for a person."""
    source: str
    """Where the items come from, with version."""
    licence: str
    draw: Callable[[Split, int], Iterator[Item]]
    """`draw(split, seed)` yields candidate items; it may repeat itself and need not end. `splits.py` keeps distinct
    ones."""
    grade: Callable[[str, Item], Graded]
    """`grade(output, item)`: pure; the raw model output goes in, white space and all."""
    max_new_tokens: int
    """Room for the longest gold and little more: a chatty answer is cut, and counts as truncated."""
    closed_answers: tuple[str, ...] | None = None
    """All answers there are, where they are few; None where answers are open."""
    generated: bool = False
    """Whether a generator made the items, so that two questions that differ in a word are two questions; elsewhere
    they are near copies, and a leak where one is held out."""
    metric: str = "accuracy"
    higher_is_better: bool = True
    temperature: float = 0.0
    samples: int = 1
    """Outputs per item; an item's score is their mean (avg@k)."""
    own: OwnTask | None = None
    """The person's task that it was made of: its splits come from files, and `draw` yields what is in them."""
