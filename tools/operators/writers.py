"""The language models that write and judge rows: asked through the run's one broker, row by row, within its budget."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

from memory.errors import ModelError, TrialError
from memory.records import Pool, Record
from tools.llm.broker import AT_ONCE, Broker, Question
from tools.llm.endpoint import Endpoint, Message
from tools.llm.prompt import form_text, rendered, schema_of
from tools.llm.typed import ask_for
from tools.operators.rehearsal import Done, Job, Room, RowError, worked_off

A = TypeVar("A", bound=Record)

Purpose = Literal["synthesise", "rewrite_answer", "rewrite_prompt", "judge"]
"""What a model is asked for; also the name of the prompt in nodes/prompts."""
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)
OF_THE_ROW = ("context", "timeout")
"""Faults that one row can have for itself: it is too long, or no answer to it ever ends."""


@dataclass(frozen=True)
class Call:
    """One question to a model."""

    about: str
    """The row, or the rows, that it shows."""
    prompt: str
    rows: int = 1
    """Rows that are asked for."""


@dataclass(frozen=True)
class Writers:
    """The models of a run, and the prompts that they are given."""

    broker: Broker
    pools: Mapping[Pool, Endpoint]
    templates: Mapping[Purpose, str]
    """Each with a place for `form`."""

    @property
    def identity(self) -> str:
        """Hash of all that decides what is written, beside recipe and rows."""
        models = {pool: [endpoint.model, endpoint.weights] for pool, endpoint in self.pools.items()}
        told = json.dumps([models, dict(self.templates)], sort_keys=True)
        return hashlib.sha256(told.encode()).hexdigest()

    def prompt(self, purpose: Purpose, kind: type[Record], **values: str) -> str:
        """A prompt with its places filled."""
        return rendered(self.templates[purpose], form=form_text(kind), **values)

    def digest(self, purpose: Purpose, wanted: str) -> str:
        """A short name for a prompt: its template and what is wanted, without the rows."""
        return hashlib.sha256(f"{self.templates[purpose]}\0{wanted}".encode()).hexdigest()[:12]

    def answers(
        self,
        kind: type[A],
        calls: Sequence[Call],
        *,
        purpose: Purpose,
        model: Pool,
        step: str,
        room: Room,
        came: Callable[[Call, A], int],
    ) -> Done[A]:
        """An answer to each call, a few as a rehearsal; `came(call, answer)` is how many rows of it are of use. Raises
        TrialError (`worked_off`; ENV where the model cannot be asked) and ServerError."""
        endpoint, schema = self.pools[model], schema_of(kind)

        def question(call: Call) -> Question:
            return Question(endpoint, (Message(role="user", content=call.prompt),), schema, purpose)

        prices = [question(call).most_dollars for call in calls]
        job = Job[Call, tuple[Call, A]](
            step=step,
            units=calls,
            do=lambda call: (call, self._ask(kind, endpoint, call, purpose)),
            came=lambda result: came(*result),
            rows=lambda call: call.rows,
            at_once=AT_ONCE,
            new=lambda call: not self.broker.knows(question(call)),
            meter=self.broker.meter,
            most_dollars=None if None in prices else max((price or 0.0 for price in prices), default=0.0),
        )
        done = worked_off(job, room)
        return Done([each if isinstance(each, RowError) else each[1] for each in done.results], done.rehearsals)

    def _ask(self, kind: type[A], endpoint: Endpoint, call: Call, purpose: Purpose) -> A:
        try:
            return ask_for(kind, self.broker, endpoint, [Message(role="user", content=call.prompt)], purpose)
        except TrialError as error:
            raise RowError(f"{endpoint.model} gave no usable answer", f"{call.about}: {error.message}") from error
        except ModelError as error:
            if error.fault in OF_THE_ROW:
                raise RowError(f"{endpoint.model}: {error.fault}", f"{call.about}: {error.message}") from error
            raise TrialError("BUDGET" if error.fault == "budget" else "ENV", error.message, error.way_out) from error
