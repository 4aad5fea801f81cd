"""A scripted language model: a real OpenAI-compatible HTTP server that plays one answer after the other.

An answer is a dict: `text` (an object is written as JSON), or `status` with `error` and `retry_after`; `delay_s`,
`tokens` (prompt, answer), `cut`, `tool` (answers by a tool call), `raw` (a body that is no JSON); or a function from
the request's body to such a dict. The last one repeats.
As a program it plays a script file: `python -m tests.scripted_llm SCRIPT.json LOG.jsonl`, and prints its address.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from tests.local_server import served

Answer = dict[str, Any]
Line = Answer | Callable[[dict[str, Any]], Answer]


@dataclass
class Script:
    """What the server says, and what it was asked."""

    answers: Sequence[Line]
    no_schema: bool = False
    """Refuses response_format, as servers without structured output do."""
    log: Path | None = None
    asked: list[dict[str, Any]] = field(default_factory=list)
    """Bodies of the requests, oldest first."""
    keys: list[str] = field(default_factory=list)
    """Their Authorization headers."""
    at_once: int = 0
    most_at_once: int = 0
    played: int = 0
    turn: threading.Lock = field(default_factory=threading.Lock)

    def next(self, body: dict[str, Any], key: str) -> Answer:
        """Note a request and choose its answer."""
        with self.turn:
            self.asked.append(body)
            self.keys.append(key)
            if self.log is not None:
                with self.log.open("a") as file:
                    file.write(json.dumps(body) + "\n")
            if self.no_schema and "response_format" in body:
                return {"status": 400, "error": "response_format of type json_schema is not supported"}
            self.played += 1
            line = self.answers[min(self.played, len(self.answers)) - 1]
        return line(body) if callable(line) else line


class Handler(BaseHTTPRequestHandler):
    """The one endpoint that is used."""

    script: Script
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """A chat completion, or what the script says instead."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.script.turn:
            self.script.at_once += 1
            self.script.most_at_once = max(self.script.most_at_once, self.script.at_once)
        answer = self.script.next(body, self.headers.get("Authorization", ""))
        time.sleep(answer.get("delay_s", 0.0))
        with self.script.turn:
            self.script.at_once -= 1
        if "raw" in answer:
            self.say(answer["raw"].encode(), 200, "text/html")
        elif "status" in answer:
            error = {"error": {"message": answer.get("error", "no"), "code": answer.get("code")}}
            extra = {"Retry-After": str(answer["retry_after"])} if "retry_after" in answer else {}
            self.say(json.dumps(error).encode(), answer["status"], "application/json", extra)
        else:
            self.say(json.dumps(completion(body, answer)).encode(), 200, "application/json")

    def say(self, data: bytes, status: int, kind: str, extra: dict[str, str] | None = None) -> None:
        """Answer; a client that has given up is no error."""
        try:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            for name, value in (extra or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not logged."""


def completion(body: dict[str, Any], answer: Answer) -> dict[str, Any]:
    """A chat completion in OpenAI's form."""
    text = answer["text"] if isinstance(answer["text"], str) else json.dumps(answer["text"])
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if "tools" in body and answer.get("tool", True):
        function = {"name": body["tools"][0]["function"]["name"], "arguments": text}
        message = {"role": "assistant", "content": None, "tool_calls": [
            {"id": "call_1", "type": "function", "function": function}
        ]}  # fmt: skip
    prompt, written = answer.get("tokens", (100, 20))
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": "length" if answer.get("cut") else "stop"}],
        "usage": {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written},
    }


@contextmanager
def playing(*answers: Line, no_schema: bool = False, log: Path | None = None) -> Iterator[tuple[str, Script]]:
    """A server that plays the answers; its base URL, and what it was asked."""
    script = Script(answers, no_schema=no_schema, log=log)
    with served(type("Playing", (Handler,), {"script": script})) as address:
        yield f"{address}/v1", script


if __name__ == "__main__":
    with playing(*json.loads(Path(sys.argv[1]).read_text()), log=Path(sys.argv[2])) as (url, _):
        print(url, flush=True)
        threading.Event().wait()
