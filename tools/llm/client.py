"""One request to an OpenAI-compatible server through langchain-openai, and every way in which it can fail, by name.

The only file that imports langchain-openai, which takes seconds: it does so when the first request is made.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import SecretStr

from memory.errors import ModelError
from memory.records import ModelFault
from tools.llm.endpoint import Endpoint, Message, Reply

if TYPE_CHECKING:
    import openai
    from langchain_core.messages import AIMessage
    from langchain_openai import ChatOpenAI
    from openai.types.chat import ChatCompletion

Form = Literal["schema", "tool"]
"""How an answer's shape is asked for: as the response's JSON schema, or as the arguments of a tool that must be
called."""

CONTEXT = re.compile(
    r"context[ _](length|window)|maximum context|max_model_len|prompt is too long|too many tokens", re.I
)
NO_SCHEMA = re.compile(r"response_format|json_schema|structured|guided", re.I)
SECRET = "[key]"
KEY_WAY_OUT = "Give a valid one in OPENAI_API_KEY, or start a run with --planner search."


class CallError(ModelError):
    """One request that failed; whether the same may be tried again, and after how long."""

    def __init__(
        self,
        fault: ModelFault,
        message: str,
        way_out: str = "",
        *,
        again: bool = False,
        wait_seconds: float | None = None,
        billed: bool = False,
    ) -> None:
        super().__init__(fault, message, way_out)
        self.again = again
        self.wait_seconds = wait_seconds
        """What the server asked us to wait; None where it said nothing."""
        self.billed = billed
        """Whether the server may have answered, unheard."""


class NoSchemaError(CallError):
    """The server does not take a JSON schema for its response."""


class Client:
    """Speaks to one endpoint; for several threads at once."""

    def __init__(self, endpoint: Endpoint) -> None:
        """Nothing is imported or opened yet."""
        self.endpoint = endpoint
        self._made: tuple[Path | None, ChatOpenAI] | None = None
        self._turn = threading.Lock()

    def ask(self, messages: Sequence[Message], schema: dict[str, Any], form: Form, timeout_s: float) -> Reply:
        """One request with an answer in the form of `schema`. Raises CallError; nothing is tried again."""
        import openai

        said = [(message.role, message.content) for message in messages]
        chat = self._chat()
        try:
            answer = chat.invoke(said, timeout=timeout_s, **shape_of(schema, form))
        except openai.LengthFinishReasonError as error:
            return cut_reply(error.completion)
        except openai.OpenAIError as error:
            raise self._fault(error, timeout_s) from None  # its text could hold the key
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # What langchain-openai makes of a body that is no chat completion, for example a proxy's web page.
            raise CallError("server", f"{self.endpoint.who} sent no chat completion ({type(error).__name__})") from None
        return reply_of(answer)

    def _chat(self) -> ChatOpenAI:
        """The client; made anew where the server on this machine came back under another socket."""
        endpoint = self.endpoint
        with self._turn:
            socket = endpoint.socket() if endpoint.socket else None
            if self._made is None or self._made[0] != socket:
                self._made = (socket, chat_client(endpoint, socket))
            return self._made[1]

    def _fault(self, error: openai.OpenAIError, timeout_s: float) -> CallError:
        """An error of the library as one of ours."""
        import openai

        who = self.endpoint.who
        if isinstance(error, openai.APITimeoutError):
            return CallError("timeout", f"{who} gave no answer in {timeout_s:.0f} s", again=True, billed=True)
        if isinstance(error, openai.APIConnectionError):
            says = f"{who} cannot be reached: {cause_of(error)}"
            return CallError("connection", says, "Is OPENAI_BASE_URL right, and the server up?", again=True)
        if not isinstance(error, openai.APIStatusError):
            return CallError("server", f"{who} failed: {self._clean(str(error))}", billed=True)
        return self._refusal(who, error)

    def _refusal(self, who: str, error: openai.APIStatusError) -> CallError:
        """An answer with an error's status."""
        status, says = error.status_code, self._clean(error.message)
        told = f"{who} answered {status}: {says}"
        if status in (401, 403):
            return CallError("key", f"{who} refuses the key: {says}", KEY_WAY_OUT)
        if status == 404:
            return CallError("model", told, "Name another with --planner-model, or another OPENAI_BASE_URL.")
        if status == 429:
            spent = "quota" in says.lower()
            way_out = "Its account has nothing left." if spent else "Wait, then resume."
            return CallError("rate limit", told, way_out, again=not spent, wait_seconds=wait_of(error))
        if status in (408, 409) or status >= 500:
            return CallError("server", told, again=True, wait_seconds=wait_of(error))
        if CONTEXT.search(says):
            return CallError("context", told)
        return NoSchemaError("request", told) if NO_SCHEMA.search(says) else CallError("request", told)

    def _clean(self, text: str) -> str:
        """One line without the key, which some servers quote."""
        key = self.endpoint.key.get_secret_value() if self.endpoint.key else ""
        return one_line(text.replace(key, SECRET) if key else text)


def chat_client(endpoint: Endpoint, socket: Path | None) -> ChatOpenAI:
    """langchain-openai's client for an endpoint. It never tries again by itself: the broker does, and meters it."""
    import httpx2
    from langchain_openai import ChatOpenAI

    transport = httpx2.HTTPTransport(uds=str(socket)) if socket else None
    return ChatOpenAI(
        model=endpoint.served_as or endpoint.model,
        base_url=endpoint.base_url,
        # A server without keys still gets the header that the library insists on.
        api_key=endpoint.key or SecretStr("none"),
        temperature=endpoint.temperature,
        max_completion_tokens=endpoint.answer_tokens,
        max_retries=0,
        use_responses_api=False,
        http_client=httpx2.Client(transport=transport) if transport else None,
    )


def shape_of(schema: dict[str, Any], form: Form) -> dict[str, Any]:
    """The part of a request that asks for the answer's shape."""
    name, about = str(schema["title"]), str(schema.get("description", ""))
    if form == "schema":
        return {"response_format": {"type": "json_schema", "json_schema": {"name": name, "schema": schema}}}
    function = {"name": name, "description": about, "parameters": schema}
    return {
        "tools": [{"type": "function", "function": function}],
        "tool_choice": {"type": "function", "function": {"name": name}},
    }


def reply_of(answer: AIMessage) -> Reply:
    """A message of langchain's as ours: the arguments of a tool call, else the text, else why the model refused."""
    usage = answer.usage_metadata
    text = str(answer.text) or str(answer.additional_kwargs.get("refusal", ""))
    for call in (*answer.invalid_tool_calls, *answer.tool_calls):
        text = call["args"] if isinstance(call["args"], str) else json.dumps(call["args"])
    return Reply(
        text=text,
        cut=answer.response_metadata.get("finish_reason") == "length",
        prompt_tokens=usage["input_tokens"] if usage else None,
        answer_tokens=usage["output_tokens"] if usage else None,
    )


def cut_reply(completion: ChatCompletion) -> Reply:
    """What came before the limit of tokens; the library raises it instead of returning it."""
    usage = completion.usage
    return Reply(
        text=completion.choices[0].message.content or "",
        cut=True,
        prompt_tokens=usage.prompt_tokens if usage else None,
        answer_tokens=usage.completion_tokens if usage else None,
    )


def wait_of(error: openai.APIStatusError) -> float | None:
    """Seconds that the server asks us to wait (`Retry-After`); None where it says nothing, or names a date."""
    said = error.response.headers.get("retry-after", "")
    return float(said) if re.fullmatch(r"\d+(\.\d+)?", said) else None


def cause_of(error: BaseException) -> str:
    """What an error rests on in the end, in one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return one_line(str(error))


def one_line(text: str) -> str:
    """The start of a text, in one line."""
    return " ".join(text.split())[:300]
