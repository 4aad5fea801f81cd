"""A stand-in for an engine environment's interpreter: plays vLLM's endpoint and the export worker, runs all else.

Faults are asked for in the environment: FAKE_EXPORT_WRONG (answers that come out otherwise), FAKE_EXPORT_TIES (answers
that do, by a hair), FAKE_EXPORT_REFUSE (a reason not to write a GGUF file), FAKE_ENDPOINT_REFUSE (a reason not to
start).
"""

from __future__ import annotations

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests import fake_vllm
from tools.engines import worker_io

ROOT = Path(__file__).parents[1]
SCRIPT = f"""#!/bin/sh
PYTHONPATH={ROOT} exec {sys.executable} {__file__} "$@"
"""


def interpreter(folder: Path) -> Path:
    """Make the interpreter in a folder."""
    path = folder / "python"
    path.write_text(SCRIPT)
    path.chmod(0o755)
    return path


# --- the export worker ------------------------------------------------------------------------------------------------


def export(folder: str) -> None:
    """What tools/engines/axolotl/export.py does, without a model."""
    with worker_io.reporting(folder):
        request = worker_io.read_request(folder)
        answer = gguf(request) if request["action"] == "gguf" else check(request)
        worker_io.finish(folder, {**answer, "seconds": 0.1})


def gguf(request: dict[str, Any]) -> dict[str, object]:
    """A file."""
    if reason := os.environ.get("FAKE_EXPORT_REFUSE"):
        raise worker_io.WorkerFailure("CONFIG", reason, "Export it with --format merged.")
    Path(request["file"]).write_text("GGUF")
    return {"tensors": 1}


def check(request: dict[str, Any]) -> dict[str, object]:
    """The recorded answers, but for those that a fault spoils."""
    wrong, ties = (int(os.environ.get(f"FAKE_EXPORT_{name}", "0")) for name in ("WRONG", "TIES"))
    margins = [5.0] * wrong + [0.1] * ties
    answers: list[dict[str, object]] = [{"output": "otherwise", "margin": margin} for margin in margins]
    answers += [{"output": asked["output"], "margin": None} for asked in request["asked"][len(margins) :]]
    return {"answers": answers}


# --- vLLM's endpoint, and a server that talks -------------------------------------------------------------------------


class Endpoint(BaseHTTPRequestHandler):
    """Health, and chat answers that say what is served."""

    served = ""

    def do_GET(self) -> None:
        """Health."""
        self.say({})

    def do_POST(self) -> None:
        """A chat answer."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.say({"choices": [{"message": {"role": "assistant", "content": f"served from {self.served}"}}]})

    def say(self, answer: dict[str, Any]) -> None:
        """Answer with JSON."""
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not logged."""


def serve(argv: list[str]) -> None:
    """What `python -m vllm.entrypoints.openai.api_server` does."""
    if reason := os.environ.get("FAKE_ENDPOINT_REFUSE"):
        sys.exit(f"ValueError: {reason}")
    options = dict(pairwise(argv))
    Endpoint.served = options["--model"]
    ThreadingHTTPServer((options["--host"], int(options["--port"])), Endpoint).serve_forever()


class Talker(fake_vllm.Model):
    """Answers whatever it is asked with what it is."""

    def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        """One answer."""
        if "fake" in body:
            return super().chat(body)
        message = {"role": "assistant", "content": f"{body['messages'][-1]['content']} {self.quality:.3f}"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return {"choices": [choice], "usage": {"completion_tokens": 2}}


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if "vllm.entrypoints.openai.api_server" in arguments:
        serve(arguments)
    elif arguments[-2].endswith("axolotl/export.py"):
        export(arguments[-1])
    elif arguments[-2].endswith("fake_vllm.py"):
        fake_vllm.Model = Talker  # type: ignore[misc]
        fake_vllm.main(Path(arguments[-1]))
    else:
        os.execv(sys.executable, [sys.executable, *arguments])
