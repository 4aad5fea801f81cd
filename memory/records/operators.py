"""The operators of a data recipe, each one step from rows to rows."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from memory.records.record import Record


class Filter(Record):
    """Keep the rows for which a SQL condition over the row's columns holds."""

    kind: Literal["filter"] = "filter"
    where: str
    """A DuckDB expression over `prompt, answer, source, prompt_chars, answer_chars` and the benchmark's own columns."""


class MapTemplate(Record):
    """Rewrite prompt and answer by templates with `{prompt}`, `{answer}` and the benchmark's own columns."""

    kind: Literal["map"] = "map"
    prompt: str = "{prompt}"
    answer: str = "{answer}"


class Deduplicate(Record):
    """Drop rows whose prompt and answer are the same after folding case and white space."""

    kind: Literal["deduplicate"] = "deduplicate"


class Mix(Record):
    """Blend in rows of another source until they make up `share` of the result."""

    kind: Literal["mix"] = "mix"
    source: str
    """A JSONL file among the task's raw data."""
    share: float = Field(gt=0, lt=1)


class Select(Record):
    """Take at most `rows` rows."""

    kind: Literal["select"] = "select"
    rows: int = Field(ge=1)
    balance: Literal["none", "answer"] = "none"
    """`answer` takes equally many rows of each answer, as far as they last; for closed answers."""
    seed: int = 0


Operator = Annotated[Filter | MapTemplate | Deduplicate | Mix | Select, Field(discriminator="kind")]
