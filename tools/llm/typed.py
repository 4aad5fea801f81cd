"""Answers as records: a model fills in a form, is told once what is wrong with it, and nothing is ever guessed."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from pydantic import ValidationError

from memory.errors import TrialError
from memory.records import Record
from tools.llm.broker import PATIENCE_SECONDS, Broker, Question
from tools.llm.endpoint import Endpoint, Message, Reply
from tools.llm.prompt import schema_of

R = TypeVar("R", bound=Record)

REASONING = re.compile(r"<(think|thinking|reasoning)>.*?</\1>", re.DOTALL)
FENCED = re.compile(r"```(?:json)?\s*\n(.*)\n\s*```", re.DOTALL)
SHOWN_CHARS = 2_000
"""Of an answer that is returned to the model."""
QUOTED_CHARS = 200
"""Of an answer in an error message."""


class BadAnswerError(ValueError):
    """An answer that is no such record; its text is for the model."""


def ask_for(
    kind: type[R],
    broker: Broker,
    endpoint: Endpoint,
    messages: Sequence[Message],
    purpose: str,
    patience_s: float = PATIENCE_SECONDS,
    without: Collection[str] = (),
    check: Callable[[R], None] = lambda record: None,
) -> R:
    """A record from a model; optional fields can be left out of the form that it sees. `check` raises BadAnswerError
    for one that fits the form and makes no sense.

    An answer that does not validate is returned once to the model with what is wrong. Raises TrialError (CONFIG) with
    what was said where the second one does not, either; ModelError and ServerError where there is no answer.
    """
    schema, said = schema_of(kind, without), tuple(messages)
    reply = broker.ask(Question(endpoint, said, schema, purpose), patience_s)
    try:
        return checked(parsed(kind, reply), check)
    except BadAnswerError as error:
        told = Message(role="user", content=f"{error} Answer again with one JSON object, whole.")
        said = (*said, spoken(reply), told)
    reply = broker.ask(Question(endpoint, said, schema, purpose), patience_s)
    try:
        return checked(parsed(kind, reply), check)
    except BadAnswerError as error:
        quoted = " ".join(reply.text.split())[:QUOTED_CHARS]
        message = f"{endpoint.model} gave no usable answer twice: {error} It said: {quoted!r}"
        raise TrialError("CONFIG", message, "Name a stronger model.") from error


def checked(record: R, check: Callable[[R], None]) -> R:
    """The record, once `check` has not raised."""
    check(record)
    return record


def spoken(reply: Reply) -> Message:
    """An answer as a turn of the conversation, without its reasoning."""
    text = answer_in(reply.text) or "(nothing but reasoning)"
    return Message(role="assistant", content=text[:SHOWN_CHARS])


def parsed(kind: type[R], reply: Reply) -> R:
    """The record in an answer. Raises BadAnswerError."""
    answer = answer_in(reply.text)
    if answer is None:
        raise BadAnswerError("The answer ended inside its reasoning. Think less.")
    if reply.cut:
        raise BadAnswerError("The answer was too long and was cut. Write less.")
    try:
        return kind.model_validate_json(answer)
    except ValidationError as error:
        raise BadAnswerError(complaint(error)) from error


def answer_in(text: str) -> str | None:
    """The answer behind a model's reasoning, without a code fence around the whole of it; None where the reasoning
    never ended. Some templates open the reasoning in the prompt, so that only its end is in the text."""
    for tag in ("think", "thinking", "reasoning"):
        if f"<{tag}>" not in text and f"</{tag}>" in text:
            text = text.rpartition(f"</{tag}>")[2]
    text = REASONING.sub("", text).strip()
    if re.match(r"<(think|thinking|reasoning)>", text):
        return None
    fenced = FENCED.fullmatch(text)
    return fenced.group(1).strip() if fenced else text


def complaint(error: ValidationError) -> str:
    """What is wrong with an answer, for the model that gave it."""
    problems = []
    for each in error.errors(include_url=False)[:8]:
        place = ".".join(str(part) for part in each["loc"]) or "the whole"
        problems.append(f"{place}: {each['msg']}")
    return f"This does not fit the form: {'; '.join(problems)}."
