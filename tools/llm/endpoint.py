"""A model behind an OpenAI-compatible server: where it is, how it is asked, and what came back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import SecretStr

from memory.records import Price, Record

CHARS_A_TOKEN = 2.5
"""On the low side, so that an estimate errs towards too many tokens: prose has about 4, names and numbers about 3."""
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
    """Its name, which is what the server calls it unless `served_as` says otherwise."""
    base_url: str
    key: SecretStr | None = None
    """None for a server that asks for none. Never in a record, an event or an error."""
    price: Price | None = None
    """None where it is not known."""
    answer_tokens: int = ANSWER_TOKENS
    """Most tokens of an answer."""
    prompt_tokens: int = 12_000
    """Most tokens of a prompt that we send, so that a brief stays readable; or what the server's window leaves."""
    timeout_s: float = 120.0
    """For one request: reasoning models take a minute."""
    temperature: float | None = None
    """None leaves it to the server: reasoning models refuse any."""
    socket: Callable[[], Path] | None = None
    """Of a server on this machine: brings it up and returns its socket file. Raises ServerError."""
    served_as: str = ""
    weights: str = ""
    """Hash of the weights that answer, where a name can stand for several."""

    @property
    def prompt_chars(self) -> int:
        """Characters that are sure to be no more than `prompt_tokens`."""
        return int(self.prompt_tokens * CHARS_A_TOKEN)

    @property
    def who(self) -> str:
        """How a person would call it."""
        return f"{self.model} model" if self.socket else f"{self.model} at {self.base_url}"
