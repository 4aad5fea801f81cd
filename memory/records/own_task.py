"""A person's own data as a benchmark: everything that decides which items there are and what an answer scores."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from memory.records.metric import Metric
from memory.records.record import Record

Shape = Literal["columns", "alpaca", "chat", "sharegpt"]
"""How a row holds question and answer. columns: plain columns, put together by a template. alpaca: `instruction`,
`input`, `output`. chat: `messages` of `role` and `content`. sharegpt: `conversations` of `from` and `value`."""


class OwnFile(Record):
    """A file of the person's, outside the run's folder; only its content counts."""

    path: str
    """Absolute."""
    sha256: str
    """Of the content that the task was made for; another content is refused."""


HeldOut = OwnFile | int | float | None
"""Where a held-out split comes from: a file; so many rows, or such a share of the rows, of the training file; None for
a fifth of them, at most 200."""


class OwnTask(Record):
    """A task file, read and resolved. The record alone revives the scorer; the files are needed until the splits are
    written, and never again."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")
    """Stands in the names of runs, and as the source of training rows."""
    description: str = ""
    """One line for a person."""
    licence: str = "unknown"
    train: OwnFile
    """The only file, or the one that training rows come from."""
    validation: HeldOut = None
    test: HeldOut = None
    shape: Shape
    prompt: str
    """The user message: a template with a `{column}` for each column, a literal brace written twice. In conversations
    and Alpaca rows `{prompt}` is what the row asks."""
    answer: str = "answer"
    """The column of the answer, in the shape `columns`; elsewhere the shape says where it stands."""
    turns: Literal["refuse", "fold"] = "refuse"
    """What becomes of a conversation of several questions: a training row has one. `fold` writes the earlier turns
    above the last question."""
    group: str = ""
    """A column whose equal values mark rows that belong together, such as the customer; all of them go into one split.
    Empty for none."""
    stratify: bool = True
    """Whether closed answers are as frequent in the held-out splits as in the training file."""
    templated: bool = False
    """Whether questions come from a template, so that two that differ in a word are two questions; elsewhere the one is
    a near copy, and a leak where the other is held out."""
    metric: Metric
    answers: tuple[str, ...] | None = None
    """All answers there are, where they are few; None where answers are open."""
    max_new_tokens: int = Field(ge=1)
    """Room for an answer, in tokens of the model: given, or derived from the longest gold."""
