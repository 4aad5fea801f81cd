"""The run's vLLM server: started once, kept warm; every trial's weights are swapped into it in place, with proof.

It listens on a socket file in a private folder, so nobody else can reach it. A swap is proved by a fingerprint
(`weights_proof.py`): no score is ever taken from weights that were not the ones meant.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Literal

from memory.errors import ServerError
from memory.layout import disk, made
from memory.records import BaseModelCard, Record
from tools import process, weights_proof
from tools.engines import worker_io
from tools.engines.contract import REPOSITORY, Engine, log_tail, request_sha256, worker_env
from tools.engines.vllm.client import Client
from tools.socket_folder import SocketFolder
from tools.weights_proof import PROBE

SERVED_NAME = "model"
"""The model's name in requests, whatever weights are loaded."""
WINDOW = 2048
"""Tokens that the server takes, prompt and answer together."""
AGAIN = "Start the server again and repeat the evaluation"


class ServerRequest(Record):
    """What the vLLM worker reads."""

    model: str
    served_name: str
    socket: str
    chat_template: str | None
    """A template file for a model that brings none; None leaves the model's own."""
    max_model_len: int
    """Tokens of prompt and output together."""
    device: Literal["cpu", "cuda"]
    seed: int
    kv_cache_gib: int
    """Memory for the key-value cache on a CPU."""
    threads: int
    """Compute threads on a CPU."""
    gpu_share: float
    """Share of the GPU's memory that the server may take."""


class Server:
    """One vLLM server. As a context manager it is closed on the way out; the supervisor ends it if we are killed."""

    def __init__(
        self,
        engine: Engine,
        model: BaseModelCard,
        folder: Path,
        *,
        device: Literal["cpu", "cuda"] = "cpu",
        max_model_len: int = WINDOW,
        threads: int | None = None,
        kv_cache_gib: int = 2,
        start_seconds: float = 900.0,
        starting: Callable[[], None] = lambda: None,
    ) -> None:
        """Nothing starts yet. `folder` takes request, log and the count of starts; `start_seconds` limits a start (a
        first one compiles Python's bytecode); `threads` None takes all cores; `starting` is called as a start begins,
        so that somebody can be told what takes a minute."""
        self.engine = engine
        self.model = model
        self.folder = folder
        self.device: Literal["cpu", "cuda"] = device
        self.max_model_len = max_model_len
        self.threads = threads or len(os.sched_getaffinity(0))
        self.kv_cache_gib = kv_cache_gib
        self.start_seconds = start_seconds
        self.starting = starting
        self.loaded: Path | None = None
        """Folder of the weights that answer now; None while nothing is up, and after a swap that failed."""
        self._loaded: str | None = None
        self._process: process.Process | None = None
        self._place: SocketFolder | None = None
        self._client: Client | None = None
        self._proofs = weights_proof.Memory()
        self._asleep = False

    @classmethod
    def start(
        cls,
        engine: Engine,
        model: BaseModelCard,
        folder: Path,
        *,
        device: Literal["cpu", "cuda"] = "cpu",
        max_model_len: int = WINDOW,
    ) -> Server:
        """A server that is up and answers with the base weights. Raises ServerError."""
        server = cls(engine, model, folder, device=device, max_model_len=max_model_len)
        server.ensure()
        return server

    def ensure(self) -> None:
        """Start the server unless it is up; after a death it comes back with the base weights. Raises ServerError."""
        if self.alive():
            return
        self.close()
        self.starting()
        began = time.monotonic()
        self._place = SocketFolder()
        request = self._request(self._place.socket)
        made(self.folder)
        envelope = {"engine": self.engine.name, "sha256": request_sha256(request), "request": request.model_dump()}
        worker_io.write_json(self.folder / worker_io.REQUEST, envelope)
        self.log.unlink(missing_ok=True)
        argv: list[str | Path] = [self.engine.python, "-u", self.engine.worker, self.folder]
        self._process = process.start(argv, log=self.log, cwd=REPOSITORY, env=worker_env(self.engine))
        try:
            self._wait_until_healthy(began)
            self._client = Client(self.socket)
            self._proofs.forget()
            self._prove(Path(self.model.path))
            self.loaded, self._loaded = Path(self.model.path), weights_proof.identity(Path(self.model.path))
        except BaseException:  # Ctrl-C during the long wait, too: no server is left behind
            self.close()
            raise
        with disk(self._starts), self._starts.open("a") as file:
            file.write(json.dumps({"at": time.time(), "seconds": round(time.monotonic() - began, 2)}) + "\n")

    @property
    def socket(self) -> Path:
        """The socket file of the server that is up. Raises ServerError where none is."""
        if self._place is None:
            raise ServerError("the vLLM server is not running", AGAIN)
        return self._place.socket

    @property
    def log(self) -> Path:
        """What the server prints; begins anew with each start."""
        return self.folder / "run.log"

    @property
    def starts(self) -> int:
        """Successful starts in this folder, those of earlier processes of the run included."""
        return len(self._starts.read_text().splitlines()) if self._starts.exists() else 0

    @property
    def _starts(self) -> Path:
        return self.folder / "starts.jsonl"

    def load(self, weights: Path) -> float:
        """Make the server answer with the weights in a folder, and prove it. Returns the seconds that it took.

        Starts the server where it is not up, and wakes it. Raises ServerError where the weights are not those of this
        model, where the server refuses them, or where the proof fails; what the server answers with is then unknown
        until the next load.
        """
        self.ensure()
        began = time.monotonic()
        self.wake()
        identity = weights_proof.identity(weights)
        before, self._loaded = self._loaded, None
        self.loaded = None
        if before != identity:
            self._same_tensors(weights)
            self._swap(weights)
        self._prove(weights)
        self.loaded, self._loaded = weights, identity
        return time.monotonic() - began

    def tokenize(self, messages: list[dict[str, str]], add_generation_prompt: bool = True) -> list[int]:
        """Token ids of a conversation as /v1/chat/completions would see it; starts the server where it is not up.

        Raises ServerError.
        """
        self.ensure()
        body = {"model": SERVED_NAME, "messages": messages, "add_generation_prompt": add_generation_prompt}
        tokens = self._up().post("/tokenize", body).get("tokens")
        if not isinstance(tokens, list):
            raise ServerError("the vLLM server answered /tokenize without tokens")
        return [int(token) for token in tokens]

    def sleep(self) -> None:
        """Free the GPU for training; weights wait in main memory. On a CPU this does nothing: an idle server computes
        nothing there, and its memory is not what training lacks. Does nothing where the server is not up."""
        if self.device == "cuda" and not self._asleep and self.alive():
            self._up().post("/sleep?level=1")
            self._asleep = True

    def wake(self) -> None:
        """Undo `sleep` and prove that the server answers as before it; `load` does so by itself. Raises ServerError."""
        if not self._asleep:
            return
        self._up().post("/wake_up")
        self._up().post("/reset_prefix_cache")
        self._asleep = False
        if self.loaded is not None:
            self._prove(self.loaded)

    def alive(self) -> bool:
        """Whether the server is up and says that it is well."""
        if self._process is None or self._process.poll() is not None or self._client is None:
            return False
        try:
            self._client.get("/health")
        except ServerError:
            return False
        return True

    def close(self) -> None:
        """End the server and remove its socket; may be called again."""
        if self._client is not None:
            self._client.close()
        if self._process is not None:
            self._process.stop()
        if self._place is not None:
            self._place.remove()
        self._client = self._process = self._place = self.loaded = self._loaded = None
        self._asleep = False

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _request(self, socket: Path) -> ServerRequest:
        template = None if self.model.chat_template == "own" else str(Path(self.model.path) / "chat_template.jinja")
        return ServerRequest(
            model=self.model.path,
            served_name=SERVED_NAME,
            socket=str(socket),
            chat_template=template,
            max_model_len=self.max_model_len,
            device=self.device,
            seed=0,
            kv_cache_gib=self.kv_cache_gib,
            threads=self.threads,
            gpu_share=0.85,
        )

    def _up(self) -> Client:
        if self._client is None:
            raise ServerError("the vLLM server is not running", AGAIN)
        return self._client

    def _wait_until_healthy(self, began: float) -> None:
        assert self._process is not None
        client = Client(self.socket, timeout_s=10.0)
        while True:
            if (code := self._process.poll()) is not None:
                raise ServerError(f"the vLLM server did not start: {reason(self.log, code)}", f"Its log is {self.log}")
            if self.socket.exists():
                try:
                    client.get("/health")
                    break
                except ServerError:
                    pass  # it listens before it is ready
            if time.monotonic() - began > self.start_seconds:
                last = log_tail(self.log, lines=1)
                raise ServerError(
                    f"the vLLM server was not ready within {self.start_seconds:.0f} s; its log ends: {last}",
                    f"Its log is {self.log}",
                )
            time.sleep(0.1)
        client.close()

    def _swap(self, weights: Path) -> None:
        path = str(weights.resolve())
        self._up().post("/collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": path}})
        # Cached prefixes hold keys and values of the old weights.
        self._up().post("/reset_prefix_cache")

    def _prove(self, weights: Path) -> None:
        body = {"model": SERVED_NAME, "prompt": PROBE, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 0}
        self._proofs.check(weights_proof.fingerprint(self._up().post("/v1/completions", body)), weights)

    def _same_tensors(self, weights: Path) -> None:
        """vLLM keeps the old values of tensors that a folder lacks and only warns; refuse such a folder."""
        wanted = weights_proof.tensors(Path(self.model.path)) - {"lm_head.weight"}
        missing = sorted(wanted - weights_proof.tensors(weights))
        if missing and any(weights.glob("*.safetensors")):
            raise ServerError(
                f"the weights in {weights} lack {len(missing)} tensors of {self.model.name}, {missing[0]} for one",
                "Save whole weights: the merged adapter, or the full model",
            )


def reason(log: Path, code: int) -> str:
    """The root cause in a dead server's log, in one line: its first error that does not point to another."""
    text = log.read_text(errors="replace") if log.exists() else ""
    errors = re.findall(r"\b(?:[A-Za-z_.]*(?:Error|Exception)): .+", text)
    causes = [line for line in errors if "root cause" not in line and "initialization failed" not in line]
    if causes:
        return " ".join(causes[0].split())[:300]
    if code == 137:
        return "it was killed, most likely because memory ran out"
    return log_tail(log, lines=1) or f"it exited with {code} and printed nothing"
