"""Rows on their way into a training file, and what an operator makes of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Literal, NamedTuple

from memory.errors import TrialError
from memory.records import Dropped, Outcome, Rehearsal
from tools.benchmarks.benchmark import Benchmark, Item
from tools.decontamination import Fingerprints
from tools.operators.rehearsal import Room, RowError
from tools.operators.writers import Writers
from tools.sandbox.isolation import Level

Value = str | int | float | bool
AnsweredBy = Literal["source", "model", "writer"]
"""Who wrote an answer: the source of the row, a model whose output the scorer accepted, or a language model that wrote
the whole row, which no scorer has judged."""
EXAMPLES = 3
"""Dropped rows that a note quotes."""
PASS_RATE = "pass_rate"
"""The column in which a measured pass rate stands."""

Sample = Callable[[int | None, Sequence[Item], int, float], list[Outcome]]
"""`sample(trial, items, samples, temperature)`: that many scored outputs for each item, of a trial's weights or, for
None, of the base model."""


@dataclass(frozen=True)
class Row:
    """A row on its way into the training file."""

    id: str
    prompt: str
    answer: str
    source: str
    columns: Mapping[str, Value]
    item: Item | None = None
    """The benchmark's item that the row was made from, with all that the scorer needs; None for a raw row."""
    answered_by: AnsweredBy = "source"
    rejected: str | None = None
    """An answer that is wrong, beside the right one: the row is a pair; None where it is none."""
    origin: str = ""
    """How a text that no source holds came to be, in words: by which model or function, from which rows."""
    steps: tuple[str, ...] = ()
    """Operators that the row passed, in words."""

    def values(self) -> dict[str, Value]:
        """All columns that a filter or a template may name; the fixed ones win over the row's own, whatever their
        case."""
        fixed: dict[str, Value] = {"prompt": self.prompt, "answer": self.answer, "source": self.source}
        fixed |= {"prompt_chars": len(self.prompt), "answer_chars": len(self.answer)}
        return {name: value for name, value in self.columns.items() if name.casefold() not in fixed} | fixed

    def passed(self, step: str) -> Row:
        """The same row after one more operator."""
        return replace(self, steps=(*self.steps, step))

    @property
    def pass_rate(self) -> float | None:
        """How often a model solved the row, 0 to 1; None where nobody measured it."""
        value = self.columns.get(PASS_RATE)
        return None if value is None or isinstance(value, bool | str) else float(value)

    def with_pass_rate(self, rate: float) -> Row:
        """The row with its measured pass rate, which takes the place of a column of that name in any case."""
        return self.with_column(PASS_RATE, rate)

    def with_column(self, name: str, value: Value) -> Row:
        """The row with one more column, in the place of one of that name in any case."""
        others = {other: known for other, known in self.columns.items() if other.casefold() != name}
        return replace(self, columns={**others, name: value})


@dataclass(frozen=True)
class Workroom:
    """What steps need that ask language models or run generated code."""

    benchmark: Benchmark
    """Its scorer says what is accepted."""
    room: Room
    writers: Writers | None = None
    """None where the run has no language model."""
    sandbox: Level = "strict"
    """The weakest isolation in which generated code may run."""
    held_out: Sequence[Fingerprints] = ()
    """Of text that no written row may repeat."""


@dataclass(frozen=True)
class Supplies:
    """What operators may draw on beside the rows."""

    sources: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    """Rows of the raw sources that a `mix` may name."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """Share of the result that each source shall make up; the benchmark's rows have the rest."""
    sample: Sample | None = None
    """Asks a model; None where no model is at hand."""
    workroom: Workroom | None = None

    def work(self, step: str) -> Workroom:
        """The workroom. Raises TrialError CONFIG where there is none."""
        if self.workroom is None:
            raise TrialError("CONFIG", f"{step}: nobody is at hand for this step", "Leave this operator out.")
        return self.workroom

    def language_models(self, step: str) -> tuple[Writers, Workroom]:
        """Who writes. Raises TrialError CONFIG where the run has no language model."""
        work = self.work(step)
        if work.writers is None:
            raise TrialError("CONFIG", f"{step}: this run has no language model", "Start one with --planner-model.")
        return work.writers, work


class Kept(NamedTuple):
    """What an operator leaves."""

    rows: list[Row]
    dropped: tuple[Dropped, ...] = ()
    notes: tuple[str, ...] = ()
    """What the person should know beside."""
    rehearsals: tuple[Rehearsal, ...] = ()


def dropped(reason: str, rows: Sequence[Row]) -> tuple[Dropped, ...]:
    """The note on rows that go; none where none goes."""
    if not rows:
        return ()
    quotes = tuple(f"{row.id}: {' '.join(row.prompt.split())[-80:]} -> {row.answer[:40]}" for row in rows[:EXAMPLES])
    return (Dropped(reason=reason, rows=len(rows), examples=quotes),)


def dropped_by_reason(rows: Mapping[str, Sequence[Row]]) -> tuple[Dropped, ...]:
    """The notes on rows that go for several reasons."""
    return tuple(note for reason, some in rows.items() for note in dropped(reason, some))


def lost(errors: Sequence[RowError]) -> tuple[Dropped, ...]:
    """The note on rows of which nothing came, one for each error, by reason; an example says what happened at which
    row."""
    by_reason: dict[str, list[str]] = {}
    for error in errors:
        by_reason.setdefault(error.reason, []).append(str(error))
    return tuple(
        Dropped(reason=reason, rows=len(said), examples=tuple(dict.fromkeys(said))[:EXAMPLES])
        for reason, said in by_reason.items()
    )


def rank(row: Row, seed: int) -> str:
    """A place in a random order that depends on the seed and the row alone, not on the rows beside it."""
    return blake2b(f"{seed}\0{row.source}\0{row.id}".encode(), digest_size=16).hexdigest()


def variant_id(row: Row, number: int) -> str:
    """The id of a variant of the row, counted from 1."""
    return f"{row.id}~{number}"


def sample_id(row: Row, sample: int) -> str:
    """The id of a row whose answer is a sample of a model, counted from 0."""
    return f"{row.id}~s{sample}"


def item_id(row_id: str) -> str:
    """The id of the item behind a row: variants and samples of `ID` are called `ID~1` and `ID~s1`."""
    return re.sub(r"(~s?\d+)+$", "", row_id)


def folded(text: str) -> str:
    """Text without regard to case and white space."""
    return " ".join(text.casefold().split())
