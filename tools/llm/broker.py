"""The one way to ask a language model: few at a time, patiently, never twice the same, and never beyond the budget."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tenacity

from memory.errors import ModelError
from memory.layout import read_record, write_record
from memory.records import ModelCall
from tools.llm.client import CallError, Client, Form, NoSchemaError
from tools.llm.endpoint import CHARS_A_TOKEN, Endpoint, Message, Reply
from tools.llm.meter import Meter
from tools.llm.prices import dollars

AT_ONCE = 8
"""Requests on their way at the same time; more of them run into the rate limits of small accounts."""
PATIENCE_SECONDS = 300.0
"""For a question with all attempts at it."""
ATTEMPTS = 5
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.5, 30.0
"""Waits between attempts double from one to the other, and vary, so that many callers do not come back at once."""

MARKER_TOKENS = 100
"""Of a prompt, for its roles and the server's own words."""

Heard = Callable[[ModelCall], None]
"""Is told of every call that is over."""


@dataclass(frozen=True)
class Question:
    """A conversation that a model shall go on with, and the form of its answer."""

    endpoint: Endpoint
    messages: tuple[Message, ...]
    schema: dict[str, Any]
    """JSON schema with a title."""
    purpose: str
    """Who asks, for the meter."""

    @property
    def key(self) -> str:
        """A name for all that decides the answer: model and weights, settings, conversation, schema. Not the server's
        address, which may change between two starts of a run."""
        settings = [getattr(self.endpoint, name) for name in ("model", "weights", "temperature", "answer_tokens")]
        asked = [settings, [message.model_dump() for message in self.messages], self.schema]
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:32]

    @property
    def most_dollars(self) -> float | None:
        """The most that a request can cost; None where the price is not known."""
        chars = sum(len(message.content) for message in self.messages) + len(json.dumps(self.schema))
        price, tokens = self.endpoint.price, int(chars / CHARS_A_TOKEN) + MARKER_TOKENS
        return None if price is None else dollars(price, tokens, self.endpoint.answer_tokens)


class Broker:
    """Asks models on behalf of a run. Threads may share it."""

    def __init__(self, folder: Path, meter: Meter, heard: Heard, at_once: int = AT_ONCE) -> None:
        """`folder` takes the answers, each found again by what was asked."""
        self.folder = folder
        self.meter = meter
        self.heard = heard
        self._slots = threading.BoundedSemaphore(at_once)
        self._clients: dict[Endpoint, Client] = {}
        self._forms: dict[Endpoint, Form] = {}

    def ask(self, question: Question, patience_s: float = PATIENCE_SECONDS) -> Reply:
        """The answer, from disk if it was given before.

        Raises ModelError where none is to be had within the patience or the budget, ServerError where a server on this
        machine does not start.
        """
        path = self._place(question)
        if path.exists():
            return read_record(path, Reply)
        with self._slots:
            reply = self._patiently(question, patience_s)
        write_record(path, reply)
        return reply

    def knows(self, question: Question) -> bool:
        """Whether the answer is on disk."""
        return self._place(question).exists()

    def _place(self, question: Question) -> Path:
        return self.folder / f"{question.key}.json"

    def _patiently(self, question: Question, patience_s: float) -> Reply:
        """Ask, and again after a fault that may pass."""
        until = time.monotonic() + patience_s
        attempts = tenacity.Retrying(
            retry=tenacity.retry_if_exception(lambda error: isinstance(error, CallError) and error.again),
            wait=wait,
            stop=tenacity.stop_after_attempt(ATTEMPTS) | tenacity.stop_before_delay(patience_s),
            reraise=True,
        )
        return attempts(lambda: self._once(question, until - time.monotonic()))

    def _once(self, question: Question, left_s: float) -> Reply:
        """One attempt; where the server takes no schema for its response, the same as a tool call, from then on."""
        form = self._forms.get(question.endpoint, "schema")
        try:
            return self._metered(question, form, left_s)
        except NoSchemaError:
            if form == "tool":
                raise
            self._forms[question.endpoint] = "tool"
            return self._metered(question, "tool", left_s)

    def _metered(self, question: Question, form: Form, left_s: float) -> Reply:
        """One request, reserved before it is sent and settled when it is over."""
        endpoint = question.endpoint
        client = self._clients.setdefault(endpoint, Client(endpoint))
        call = self.meter.begin(question.purpose, endpoint.model, question.most_dollars)
        began = time.monotonic()
        try:
            reply = client.ask(question.messages, question.schema, form, max(1.0, min(endpoint.timeout_s, left_s)))
        except ModelError as error:
            billed = isinstance(error, CallError) and error.billed
            self._settle(call, began, state="failed", **({} if billed else {"dollars": 0.0}))
            raise
        self._settle(call, began, state="answered", **spent(endpoint, reply))
        return reply

    def _settle(self, call: ModelCall, began: float, **came: object) -> None:
        over = call.model_copy(update={"seconds": round(time.monotonic() - began, 3), **came})
        self.meter.end(over)
        self.heard(over)


def spent(endpoint: Endpoint, reply: Reply) -> dict[str, object]:
    """Tokens and dollars of an answer, as fields of its call; what is not counted leaves the reserved amount."""
    if reply.prompt_tokens is None or reply.answer_tokens is None:
        return {}
    tokens = {"prompt_tokens": reply.prompt_tokens, "answer_tokens": reply.answer_tokens}
    price = endpoint.price
    return tokens | ({"dollars": dollars(price, reply.prompt_tokens, reply.answer_tokens)} if price else {})


def wait(state: tenacity.RetryCallState) -> float:
    """Seconds before the next attempt: what the server asked for, else a growing and varying wait."""
    error = state.outcome.exception() if state.outcome else None
    if isinstance(error, CallError) and error.wait_seconds is not None:
        return error.wait_seconds
    return float(tenacity.wait_random_exponential(multiplier=FIRST_WAIT_SECONDS, max=LONGEST_WAIT_SECONDS)(state))
