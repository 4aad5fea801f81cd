"""The metrics of a person's own task: how an output becomes an answer, and when the answer is right.

Each is explained for the person who writes `[metric]` in a task's TOML; `tools/metrics/` has the code.
"""

from __future__ import annotations

from typing import Annotated, Literal

import regex
from pydantic import Field, field_validator, model_validator

from memory.records.record import Record


class ExactMatch(Record):
    """The whole output is the gold; how white space and accents are encoded never matters.

    Case and punctuation around the answer are ignored unless asked for: what differs only so is nearly always the same
    answer, and an untouched model must not lose for it.
    """

    kind: Literal["exact_match"] = "exact_match"
    ignore_case: bool = True
    ignore_punctuation: bool = True
    """Quotes, brackets, asterisks around the answer, and a full stop or the like behind it. Signs (-5) and what stands
    inside the answer always count."""


class Numeric(Record):
    """One number of the output lies within the tolerance of the gold's.

    One number is one guess: an output that names two is judged by one of them alone, so hedging never pays.
    Read are signs, thousands separators (`1,234,567`, `1'234`, also Indian groups), decimals, exponents of up to
    three digits, fractions (`3/4`, `1 1/2`, `\\frac{3}{4}`). Units and currencies are not compared: `5 km` is 5, and
    so is `$5`. Not read are number words and factors (`3 million` is 3). A number that is written in no such way
    (`1,23`, `1.2.3`, `1/2/2024`) is not guessed at: the output then holds no answer.
    """

    kind: Literal["numeric"] = "numeric"
    absolute: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Largest difference that is right, in the unit of the golds."""
    relative: float = Field(default=0.0, ge=0, lt=1, allow_inf_nan=False)
    """Largest difference that is right, as a share of the gold; the larger of the two tolerances counts."""
    take: Literal["last", "first"] = "last"
    """Which number of output and gold is the answer: `last` where reasoning comes before it."""
    decimal: Literal[".", ","] = "."
    """The decimal sign; the other one separates thousands."""
    percent: Literal["unit", "hundredths"] = "unit"
    """`unit`: 12 % is 12, like any unit. `hundredths`: 12 % is 0.12, in outputs and golds."""


class MultipleChoice(Record):
    """The output names one choice and no other.

    It does so by being the choice (`B`, `b.`, `(B)`, or its text where columns hold the texts), by opening with it
    (`B) London`, `Positive: the reviewer ...`), or by saying `answer is B`, `answer: B`. Whatever names two
    choices (`B or C`), or lists them all, holds no answer; nor does a choice that only occurs somewhere in a sentence.
    """

    kind: Literal["multiple_choice"] = "multiple_choice"
    choices: tuple[str, ...] = Field(default=("A", "B", "C", "D"), min_length=2)
    """The choices as the golds write them: letters, or the labels themselves."""
    text_columns: tuple[str, ...] = ()
    """Columns with the texts of the choices, in the order of `choices`; none where the choices say all."""

    @model_validator(mode="after")
    def _distinct(self) -> MultipleChoice:
        if len({choice.strip().casefold() for choice in self.choices} - {""}) != len(self.choices):
            raise ValueError("choices are to differ in more than case, and none may be empty")
        if self.text_columns and len(self.text_columns) != len(self.choices):
            raise ValueError(f"{len(self.text_columns)} text columns for {len(self.choices)} choices")
        return self


class Regex(Record):
    """What a pattern finds in the output is what it finds in the gold: group 1 where it has one, else the match."""

    kind: Literal["regex"] = "regex"
    pattern: str
    """As in Python's `re`; searched, not anchored. It must find something in every gold."""
    take: Literal["first", "last"] = "first"
    ignore_case: bool = False
    """For the pattern and the comparison."""

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        try:
            compiled = regex.compile(pattern, regex.VERSION0)
        except regex.error as error:
            raise ValueError(f"the pattern {pattern!r} is no regular expression: {error}") from error
        if compiled.groups > 1:
            raise ValueError(f"the pattern {pattern!r} has {compiled.groups} groups; write (?:...) for all but one")
        return pattern


class TokenF1(Record):
    """Overlap of the words of output and gold, after SQuAD's normalisation: case, punctuation and articles do not
    count."""

    kind: Literal["token_f1"] = "token_f1"


class RougeL(Record):
    """ROUGE-L, the F measure over the longest common subsequence of words; for summaries."""

    kind: Literal["rouge_l"] = "rouge_l"


class JsonFields(Record):
    """The share of fields of the one JSON object in the output whose values are the gold's.

    A code fence and words around the object are passed over. An output with no object, with two, with a broken one or
    with a key twice holds no answer. Numbers are compared as numbers (1 is 1.0), never with texts ("1") or with true.
    """

    kind: Literal["json_fields"] = "json_fields"
    fields: tuple[str, ...] = ()
    """Keys that count; empty for all keys of the gold. Other keys of the output are neither asked for nor punished."""
    ignore_case: bool = False
    """For texts, at any depth."""


class PythonFunction(Record):
    """The person's own function, `score(output: str, gold: str, row: dict) -> float | bool`, from 0 to 1.

    `row` holds the columns of the item. It runs in the sandbox, with the standard library and nothing else, so that it
    says the same wherever it is asked.
    """

    kind: Literal["python"] = "python"
    code: str
    """Source text of the whole file."""
    function: str = "score"


Metric = Annotated[
    ExactMatch | Numeric | MultipleChoice | Regex | TokenF1 | RougeL | JsonFields | PythonFunction,
    Field(discriminator="kind"),
]
