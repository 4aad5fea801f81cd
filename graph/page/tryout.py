"""The tuned model at hand: a vLLM server of the page's own, which answers with base and tuned weights.

It starts with the first question where memory allows, serves one question at a time, and ends after some idle minutes.
Weights are swapped in place between two answers, as a run does it. The supervisor ends the server if the page dies.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graph.finished import Finished, check_base
from graph.serving import ANSWER_TOKENS
from graph.workshop import Equip, Workshop
from memory.errors import InputError, ServerError
from memory.layout import RunFolder
from memory.records import BaseModelCard
from tools import benchmarks
from tools.benchmarks.benchmark import Benchmark, Item
from tools.benchmarks.splits import read_items
from tools.engines.environments import Hardware
from tools.engines.vllm.client import Client
from tools.machine import free_memory
from tools.private_folder import PrivateFolder
from tools.raw_data.store import store_of
from tools.serving import SERVED_NAME, Server

IDLE_SECONDS = 300.0
"""After the last answer, the server ends."""
LOOK_SECONDS = 5.0
"""Between two looks at whether an idle server is in the way of a run that has begun."""
KV_CACHE_GIB = 1
"""One conversation needs far less; vLLM takes whole ones."""
OVERHEAD_BYTES = 3_000_000_000
"""Interpreter, libraries and buffers of a server on a CPU: an idle one was seen with 5 GB, 2 GiB of cache included."""
TRAINING_BYTES = 4_000_000_000
"""Left to a run that is at work: what a training of the embedded model takes at its peak."""
BYTES_PER_WEIGHT = 2

Message = Mapping[str, str]
"""`role` and `content`."""
Stream = Iterator[str]
"""An answer as far as it has come, again and again."""


@dataclass(frozen=True)
class Answers:
    """What both models have said so far."""

    base: str = ""
    tuned: str = ""
    note: str = ""
    """What is being done right now."""


class Tryout:
    """The page's server. One for all tabs."""

    def __init__(self, equip: Equip, cache: Path, at_work: Callable[[], bool], idle_s: float = IDLE_SECONDS) -> None:
        """Nothing starts yet. `at_work` says whether a run is at work on this machine."""
        self._equip = equip
        self._cache = cache
        self._at_work = at_work
        self._idle_s = idle_s
        self._turn = threading.Lock()
        """Held from a question to the end of its answers. No RLock: a stream may end in another thread."""
        self._server: Server | None = None
        self._folder: PrivateFolder | None = None
        self._idle: threading.Timer | None = None
        self._left = 0.0
        """When the last answer ended, on the monotonic clock."""

    def ask(self, run: Finished, base: Sequence[Message], tuned: Sequence[Message]) -> Generator[Answers, None, None]:
        """Stream the answers of the untouched and then of the tuned model to the ends of their conversations.

        Raises InputError where somebody else is asking, where memory does not allow a server, or where the base model
        is no longer the one that was tuned; ServerError; SetupError.
        """
        if not self._turn.acquire(blocking=False):
            raise InputError("the models are answering another question", "Ask again in a moment.")
        try:
            self._stay()
            said = Answers(note="Looking for engines and base model ...")
            yield said
            workshop = self._equip(run.report.task, self._cache, _unheard)
            check_base(run, workshop.model)
            if not self._up_for(workshop.model):
                self.close()
                takes = memory_for(workshop, self._at_work())
                yield Answers(note=f"Starting a server, which takes up to a minute and {takes} ...")
                self._start(workshop)
            server = self._server
            assert server is not None, "it was started"
            server.load(Path(workshop.model.path))
            for text in streamed(server, base):
                said = Answers(base=text, note="The base model answers ...")
                yield said
            server.load(run.folder.model)
            for text in streamed(server, tuned):
                yield Answers(said.base, text, "The tuned model answers ...")
        finally:
            self._leave_soon()
            self._turn.release()

    @property
    def up(self) -> bool:
        """Whether a server is there."""
        return self._server is not None and self._server.alive()

    def close(self) -> None:
        """End the server; the next question starts another one."""
        if self._server is not None:
            self._server.close()
        if self._folder is not None:
            self._folder.remove()
        self._server = self._folder = None

    def _up_for(self, model: BaseModelCard) -> bool:
        return self._server is not None and self._server.model.path == model.path and self._server.alive()

    def _start(self, workshop: Workshop) -> None:
        self._folder = PrivateFolder("tunewright-tryout-")
        self._server = Server(
            workshop.engines.vllm,
            workshop.model,
            self._folder.path,
            device=workshop.device,
            kv_cache_gib=KV_CACHE_GIB,
        )
        self._server.ensure()

    def _stay(self) -> None:
        if self._idle is not None:
            self._idle.cancel()

    def _leave_soon(self) -> None:
        self._left = time.monotonic()
        self._look_later()

    def _look_later(self) -> None:
        self._idle = threading.Timer(min(self._idle_s, LOOK_SECONDS), self._look)
        self._idle.daemon = True
        self._idle.start()

    def _look(self) -> None:
        """End the server where it was idle for long or is in the way of a run, unless a question came in between."""
        if self._turn.acquire(blocking=False):
            try:
                idle = time.monotonic() - self._left >= self._idle_s
                if self._server is not None and (idle or in_the_way(self._server.device, self._at_work())):
                    self.close()
                elif self._server is not None:
                    self._look_later()
            finally:
                self._turn.release()


# --- memory ---------------------------------------------------------------------------------------------------------


def needed_memory(model: BaseModelCard) -> int:
    """Bytes that a server for one conversation takes, about."""
    return BYTES_PER_WEIGHT * model.parameters + KV_CACHE_GIB * 2**30 + OVERHEAD_BYTES


def memory_for(workshop: Workshop, at_work: bool) -> str:
    """The memory that a server takes and that is free, in words. Raises InputError where no server fits, or where it
    would take from a run at work what that one needs; TrialError where the machine does not say what is free."""
    if at_work and workshop.device == "cuda":
        raise InputError("a run is at work, and its server takes most of the GPU", "Ask again when it has ended.")
    needed, free = needed_memory(workshop.model), free_memory(workshop.device)
    kept = TRAINING_BYTES if at_work else 0
    if needed + kept > free:
        also = f", and the run at work is left {kept / 1e9:.0f} GB" if kept else ""
        raise InputError(
            f"a server needs about {needed / 1e9:.1f} GB{also}; {free / 1e9:.1f} GB are free here",
            "Wait for the run to end." if kept else "End other programs, or ask on a larger machine.",
        )
    return f"about {needed / 1e9:.1f} of the {free / 1e9:.1f} GB that are free"


def in_the_way(device: Hardware, at_work: bool) -> bool:
    """Whether an idle server holds what a run at work needs."""
    return at_work and (device == "cuda" or free_memory(device) < TRAINING_BYTES)


# --- questions and answers ------------------------------------------------------------------------------------------


def streamed(server: Server, messages: Sequence[Message]) -> Stream:
    """The greedy answer of the weights that are loaded, growing. Raises ServerError."""
    client = Client(server.socket)
    body: dict[str, Any] = {
        "model": SERVED_NAME, "messages": list(messages), "max_tokens": ANSWER_TOKENS, "temperature": 0, "stream": True
    }  # fmt: skip
    text, finish = "", None
    for event in client.stream("/v1/chat/completions", body):
        try:
            for choice in event["choices"]:
                text += choice["delta"].get("content") or ""
                finish = choice["finish_reason"] or finish
        except (KeyError, TypeError) as error:
            raise ServerError(f"the vLLM server did not answer the question: {str(event)[:200]}") from error
        yield text
    if finish == "length":
        yield f"{text} [cut after {ANSWER_TOKENS} tokens]"
    elif not text:
        yield "[an empty answer]"


def question(folder: RunFolder, seen: str = "") -> Item | None:
    """An item of validation, another one than the one with the id `seen`; None before the splits are drawn. Raises
    StorageError."""
    path = folder.data / "validation.jsonl"
    items = read_items(path) if path.exists() else []
    others = [item for item in items if item.id != seen] or items
    return random.choice(others) if others else None


def item(folder: RunFolder, id: str) -> Item | None:
    """The validation item of this id; None where there is none. Raises StorageError."""
    path = folder.data / "validation.jsonl"
    return next((one for one in read_items(path) if one.id == id), None) if path.exists() else None


def marks(run: Finished, asked: Item | None, question: str, said: Answers, cache: Path) -> str:
    """What the benchmark says of both answers; empty where the question is none of its own."""
    task = run.report.task
    benchmark = benchmarks.of(task, store_of(task.data_dir, cache))
    base, tuned = (graded(benchmark, asked, question, answer) for answer in (said.base, said.tuned))
    if asked is None or not base or not tuned:
        return ""
    return f"By {benchmark.name}: the base model {_are(base)}, the tuned model {_are(tuned)}. Gold: {asked.answer}"


def graded(benchmark: Benchmark, item: Item | None, asked: str, output: str) -> str:
    """What the benchmark says of an answer, where its question was asked as it stands; empty otherwise."""
    if item is None or asked.strip() != item.prompt.strip() or not output:
        return ""
    score = benchmark.grade(output, item).score
    return "right" if score >= 1 else "wrong" if score <= 0 else f"scores {score:g}"


def _are(mark: str) -> str:
    return mark if mark.startswith("scores") else f"is {mark}"


def _unheard(line: str) -> None:
    """Set-up is said in the run's own words; here only the server's start takes long."""
