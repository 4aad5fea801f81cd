"""A stand-in for the vLLM worker under the same contract: a real HTTP server on the Unix socket, quick, no model.

Its answers are as good as the `quality` (0 to 1) in the loaded folder's quality.json; a folder without one is the base
model with 0.1. The answer to a prompt is right exactly where a hash of the prompt is below the quality, so that better
weights win items and lose none. Gold and wrong answers come with the request, from fake_lighteval; whoever sends none
is told the quality of the weights that answer, word by word where it asks for a stream.

Faults are asked for in the environment: FAKE_VLLM_REFUSE (a message: does not start), FAKE_VLLM_DELAY_S (of each chat
answer), FAKE_VLLM_FAIL_AT (number of the chat request that it refuses), FAKE_VLLM_DIE_AT (number of the one at which it
dies; only once, where FAKE_VLLM_ONCE names a file), FAKE_VLLM_STUCK (says that it reloads, and does not),
FAKE_VLLM_WORD_S (seconds before each word of a stream), FAKE_VLLM_CUT_AT (number of the word at which a stream ends).
Asked to fill in a form, it answers what FAKE_VLLM_NAME says, NAME being the form's, or else FAKE_VLLM_PLAN.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import socketserver
import sys
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from tools.engines import worker_io

BASE_QUALITY = 0.1
SHOWN_EXAMPLES_ADD = 0.1
LENGTH = 24
"""Entries of a fingerprint."""


def hash01(text: str) -> float:
    """A number in [0, 1) that depends on the text alone."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:12], 16) / 16**12


def tokens(messages: list[dict[str, str]], add_generation_prompt: bool) -> list[int]:
    """Token ids of a conversation: the bytes of its ChatML rendering."""
    text = "".join(f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n" for message in messages)
    return list((text + ("<|im_start|>assistant\n" if add_generation_prompt else "")).encode())


class Model:
    """The weights that answer."""

    def __init__(self, path: str) -> None:
        self.load(path)
        self.asked = itertools.count(1)

    def load(self, path: str) -> None:
        """Take the weights in a folder; raises FileNotFoundError where there is no such folder."""
        folder = Path(path)
        files = sorted(folder.glob("*.safetensors")) + sorted(folder.glob("quality.json"))
        if not folder.is_dir():
            raise FileNotFoundError(path)
        quality = folder / "quality.json"
        self.quality = float(json.loads(quality.read_text())["quality"]) if quality.exists() else BASE_QUALITY
        self.content = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()

    def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        """Samples for a conversation."""
        prompt = body["messages"][-1]["content"]
        quality = self.quality + (SHOWN_EXAMPLES_ADD if len(body["messages"]) > 1 else 0.0)
        choices = []
        for index in range(body.get("n", 1)):
            salt = f" {index}" if body["temperature"] > 0 else ""
            right = hash01(prompt + salt) < quality
            text = self.introduction()
            if "fake" in body:
                text = body["fake"]["gold"] if right else wrong(prompt, body["fake"]["wrong"])
            ids = list(text.encode())[: body["max_tokens"]]
            finish = "stop" if len(ids) < body["max_tokens"] else "length"
            message = {"role": "assistant", "content": text}
            choices.append({"index": index, "message": message, "finish_reason": finish, "token_ids": ids})
        return {"choices": choices, "usage": {"completion_tokens": sum(len(each["token_ids"]) for each in choices)}}

    def introduction(self) -> str:
        """What the weights say of themselves."""
        return f"These weights have quality {self.quality:g}"

    def fingerprint(self) -> list[dict[str, dict[str, float]] | None]:
        """Log-probabilities of a prompt's tokens; other weights give others."""
        return [None, *({str(i): {"logprob": -10 * hash01(f"{self.content} {i}")}} for i in range(LENGTH))]


def filled_in(form: str) -> dict[str, Any]:
    """What the model says where it is asked to fill in a form: the same at any time."""
    text = os.environ.get(f"FAKE_VLLM_{form.upper()}") or os.environ["FAKE_VLLM_PLAN"]
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
    return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}


def wrong(prompt: str, answer: str) -> str:
    """A wrong answer, or none at all, by the prompt."""
    return answer if hash01(prompt + "?") < 0.5 else "I am not sure about that"


class Handler(BaseHTTPRequestHandler):
    """The endpoints that Tunewright uses."""

    model: Model
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Health."""
        self.say({})

    def do_POST(self) -> None:
        """Everything else."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        route = self.path.split("?")[0]
        if route == "/v1/chat/completions":
            number = next(self.model.asked)
            fault_before_answer(number)
            if "response_format" in body:
                self.say(filled_in(body["response_format"]["json_schema"]["name"]))
            elif number == int(os.environ.get("FAKE_VLLM_FAIL_AT", "0")):
                self.say({"error": {"message": "no room"}}, 500)
            elif body.get("stream"):
                self.stream(self.model.introduction().split(" "))
            else:
                self.say(self.model.chat(body))
        elif route == "/v1/completions":
            self.say({"choices": [{"text": "", "prompt_logprobs": self.model.fingerprint()}]})
        elif route == "/tokenize":
            self.say({"tokens": tokens(body["messages"], body["add_generation_prompt"])})
        elif route == "/collective_rpc":
            self.reload(body["kwargs"]["weights_path"])
        elif route in ("/reset_prefix_cache", "/sleep", "/wake_up"):
            self.say({})
        else:
            self.say({"detail": "Not Found"}, 404)

    def reload(self, path: str) -> None:
        """Swap weights in place."""
        try:
            if "FAKE_VLLM_STUCK" not in os.environ:
                self.model.load(path)
            self.say({"results": [None]})
        except (OSError, ValueError) as error:
            self.say({"error": {"message": f"reload failed: {error}"}}, 500)

    def say(self, answer: dict[str, Any], status: int = 200) -> None:
        """Answer with JSON."""
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def stream(self, words: list[str]) -> None:
        """Answer with server-sent events, a word each."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for number, word in enumerate(words):
            time.sleep(float(os.environ.get("FAKE_VLLM_WORD_S", "0")))
            if number == int(os.environ.get("FAKE_VLLM_CUT_AT", "-1")):
                return
            finish = "stop" if number == len(words) - 1 else None
            delta = {"content": word if number == 0 else f" {word}"}
            event = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
            self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def address_string(self) -> str:
        """A Unix socket's peer has no address."""
        return "socket"

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not logged."""


def fault_before_answer(number: int) -> None:
    """Wait or die, where the environment says so."""
    time.sleep(float(os.environ.get("FAKE_VLLM_DELAY_S", "0")))
    if number == int(os.environ.get("FAKE_VLLM_DIE_AT", "0")):
        once = os.environ.get("FAKE_VLLM_ONCE")
        if once is None or not Path(once).exists():
            if once is not None:
                Path(once).touch()
            os._exit(9)


class UnixServer(socketserver.ThreadingUnixStreamServer):
    """A thread for each connection."""

    daemon_threads = True
    request_queue_size = 256


def main(folder: Path) -> None:
    """Serve until killed."""
    if refusal := os.environ.get("FAKE_VLLM_REFUSE"):
        print(f"(EngineCore pid=1) ValueError: {refusal}\nRuntimeError: Engine core initialization failed.", flush=True)
        sys.exit(1)
    request = worker_io.read_request(folder)
    Handler.model = Model(request["model"])
    UnixServer(request["socket"], Handler).serve_forever()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
