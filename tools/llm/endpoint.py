"""A model behind an OpenAI-compatible server: where it is, how it is asked, and what came back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import SecretStr

from memory.records import Price, Record

ANSWER_TOKENS = 8192
"""Room for an answer with the reasoning before it."""


class Message(Record):
    """A turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class Reply(Record):
    """What a model answered to one request."""

    text: str
    """Raw: reasoning tags and all. Of a tool call, its arguments."""
    cut: bool = False
    """Whether the limit of tokens ended it."""
    prompt_tokens: int | None
    answer_tokens: int | None
    """None where the server does not count."""


@dataclass(frozen=True)
class Endpoint:
    """One model, and all that decides what it answers but the conversation."""

    model: str
    """As the server calls it."""
    base_url: str
    key: SecretStr | None = None
    """None for a server that asks for none. Never in a record, an event or an error."""
    price: Price | None = None
    """None where it is not known."""
    answer_tokens: int = ANSWER_TOKENS
    """Most tokens of an answer."""
    prompt_tokens: int = 12_000
    """Most tokens of a prompt that we send, so that a brief stays readable; or what the server's window leaves."""
    temperature: float | None = None
    """None leaves it to the server: reasoning models refuse any."""
    socket: Callable[[], Path] | None = None
    """Of a server on this machine: brings it up and returns its socket file. Raises ServerError."""
    weights: str = ""
    """Hash of the weights that answer, where a name can stand for several."""
