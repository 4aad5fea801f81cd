"""The wrong outputs of a trial, read by a model that is cheaper than the planner: what kinds there are, and what they
share. It explains; the figures decide (`tools/causes/rules.py`)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import Field

from memory.errors import ModelError, ServerError, TrialError
from memory.records import Blamed, Outcome, OutputClass, Reading, Record
from tools.llm.broker import PATIENCE_SECONDS, Broker
from tools.llm.endpoint import Endpoint, Message
from tools.llm.prompt import fenced, form_text, rendered
from tools.llm.typed import BadAnswerError, ask_for

PURPOSE = "reading errors"
READ = 24
"""Wrong outputs that are read at most, drawn at random: a share of them is known to 0.1 or better (one standard error
is at most 0.5 / sqrt(24))."""
PROMPT_CHARS, OUTPUT_CHARS = 300, 200
"""Of each: the end of its question, and the start of the output."""


class Kind(Record):
    """One kind of mistake."""

    name: str = Field(min_length=1, max_length=60)
    items: tuple[int, ...] = Field(min_length=1)
    """Numbers of outputs."""


class ErrorReading(Record):
    """What wrong outputs share, and what is to blame."""

    classes: tuple[Kind, ...] = Field(
        min_length=1,
        max_length=6,
        description='kinds of mistakes, each {"name": a few words, "items": [numbers of its outputs]}; no output is in '
        "two kinds",
    )
    shared: str = Field(max_length=400, description="what the wrong outputs have in common")
    blame: Blamed = Field(description="what is most likely to blame")


@dataclass(frozen=True)
class ErrorReader:
    """Reads the wrong outputs of a trial."""

    broker: Broker
    endpoint: Endpoint
    template: str
    """The prompt, with places for `form`, `task` and `outputs`."""
    task: str
    """What was asked, in a line."""
    note: Callable[[str], None]

    def __call__(self, trial: int, outcomes: Sequence[Outcome], patience_s: float = PATIENCE_SECONDS) -> Reading | None:
        """Kinds of mistakes with their counts; None where nothing is wrong, and where the model has failed, which is
        said. An answer that names an output that it was not shown, or one twice, is returned to it once."""
        wrong = [outcome for outcome in outcomes if outcome.score < 1]
        shown = drawn(wrong, self.endpoint.prompt_chars // 2)
        if not shown:
            return None
        outputs = "\n\n".join(fenced(text_of(number, outcome)) for number, outcome in enumerate(shown, 1))
        prompt = rendered(self.template, form=form_text(ErrorReading), task=self.task, outputs=outputs)
        asked = [Message(role="user", content=prompt)]

        def check(read: ErrorReading) -> None:
            refuse_unknown(read, len(shown))

        try:
            read = ask_for(ErrorReading, self.broker, self.endpoint, asked, PURPOSE, patience_s, check=check)
        except (ModelError, ServerError, TrialError) as error:
            self.note(f"{self.endpoint.model} did not read the wrong outputs of trial {trial}: {error}")
            return None
        return reading_of(read, self.endpoint.model, shown, len(wrong))


def drawn(wrong: Sequence[Outcome], most_chars: int) -> list[Outcome]:
    """READ of the wrong outputs at most, at random but always the same, as many as fit into so many characters."""
    left, shown = most_chars, []
    for outcome in random.Random(0).sample(list(wrong), min(READ, len(wrong))):
        left -= len(text_of(READ, outcome)) + len(fenced("\n"))
        if left < 0:
            break
        shown.append(outcome)
    return shown


def text_of(number: int, outcome: Outcome) -> str:
    """A question and the output to it, never the gold."""
    return f"Output {number}\n{outcome.prompt[-PROMPT_CHARS:]}\n=> {outcome.output[:OUTPUT_CHARS]!r}"


def refuse_unknown(read: ErrorReading, shown: int) -> None:
    """Raises BadAnswerError where a kind names an output that is none, or that is in another kind."""
    counts = Counter(item for kind in read.classes for item in kind.items)
    unknown = sorted(item for item in counts if not 1 <= item <= shown)
    if unknown:
        raise BadAnswerError(f"There are outputs 1 to {shown}; these are none: {', '.join(map(str, unknown))}.")
    twice = sorted(item for item, count in counts.items() if count > 1)
    if twice:
        raise BadAnswerError(f"Each output is in one kind at most; these are in several: {', '.join(map(str, twice))}.")


def reading_of(read: ErrorReading, model: str, shown: Sequence[Outcome], wrong: int) -> Reading:
    """An answer as a record, with the ids of the items."""
    classes = [
        OutputClass(
            name=" ".join(kind.name.split()),
            count=len(kind.items),
            examples=tuple(dict.fromkeys(shown[item - 1].id for item in kind.items)),
        )
        for kind in sorted(read.classes, key=lambda kind: -len(kind.items))
    ]
    shared = " ".join(read.shared.split())
    return Reading(model=model, read=len(shown), wrong=wrong, classes=tuple(classes), shared=shared, blamed=read.blame)
