"""The model that lighteval evaluates: the run's vLLM server. A request that fails fails the evaluation."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lighteval.models.abstract_model import LightevalModel, ModelConfig
from lighteval.models.model_output import ModelResponse
from lighteval.tasks.prompt_manager import PromptManager
from lighteval.tasks.requests import Doc
from lighteval.utils.cache_management import SampleCache

from memory.errors import ServerError
from tools.engines.vllm.client import Client

CONCURRENCY = 64
"""Requests in flight: the server batches them."""


class ServedModelConfig(ModelConfig):
    """Where the model is and how it generates."""

    socket: str
    temperature: float
    seed: int


@dataclass
class ServedResponse(ModelResponse):
    """All samples of one document, with the reason why each ended: `stop`, or `length` at the token limit."""

    finish: list[str] = field(default_factory=list)


class ServedModel(LightevalModel):
    """Asks /v1/chat/completions, so that the prompt is rendered by the model's own chat template, as in training."""

    def __init__(self, config: ServedModelConfig, on_done: Callable[[int], None]) -> None:
        """`on_done(n)` is told of n more samples, from several threads."""
        self.config = config
        self.on_done = on_done
        self.generation_seconds = 0.0
        # lighteval wants the attribute. `greedy_until` does not use it: the cache does not know one set of weights
        # from another.
        self._cache = SampleCache(config)
        self._prompts = PromptManager(use_chat_template=True)
        self._threads = threading.local()

    def greedy_until(self, docs: list[Doc]) -> list[ServedResponse]:
        """One response for each document, `doc.num_samples` samples in each. Raises ServerError."""
        began = time.monotonic()
        with ThreadPoolExecutor(CONCURRENCY) as pool:
            futures = [pool.submit(self._respond, doc) for doc in docs]
            finished, waiting = wait(futures, return_when=FIRST_EXCEPTION)
            for future in waiting:
                future.cancel()
            for future in finished:
                future.result()
        self.generation_seconds += time.monotonic() - began
        return [future.result() for future in futures]

    def _respond(self, doc: Doc) -> ServedResponse:
        messages = self._prompts.prepare_prompt_api(doc)
        answer = self._client().post("/v1/chat/completions", self._body(doc, messages))
        response = ServedResponse(input=messages)
        choices = sorted(answer.get("choices") or [], key=lambda choice: choice["index"])
        if len(choices) != doc.num_samples:
            raise ServerError(f"the vLLM server gave {len(choices)} of {doc.num_samples} samples")
        for choice in choices:
            text, finish = choice["message"].get("content"), choice.get("finish_reason")
            if not isinstance(text, str) or finish not in ("stop", "length"):
                raise ServerError(f"the vLLM server did not finish an answer: {str(choice)[:200]}")
            response.text.append(text)
            response.finish.append(finish)
            response.output_tokens.append(choice["token_ids"])
        self.on_done(len(choices))
        return response

    def _body(self, doc: Doc, messages: list[dict[str, str]]) -> dict[str, Any]:
        return {
            "model": self.config.model_name,
            "messages": messages,
            "max_tokens": doc.generation_size,
            "n": doc.num_samples,
            "temperature": self.config.temperature,
            # A document keeps its seed whatever else is asked with it.
            "seed": zlib.crc32(f"{self.config.seed} {doc.query}".encode()),
            # Defaults of the model's generation_config.json must not change what is measured.
            "top_p": 1.0,
            "top_k": -1,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "return_token_ids": True,
        }

    def _client(self) -> Client:
        if not hasattr(self._threads, "client"):
            self._threads.client = Client(Path(self.config.socket))
        return self._threads.client

    @property
    def tokenizer(self) -> None:
        """None: the server tokenises."""
        return None

    @property
    def add_special_tokens(self) -> bool:
        """False: the chat template writes them."""
        return False

    @property
    def max_length(self) -> int:
        """Not enforced here: the server refuses a prompt that is too long, and that fails the evaluation."""
        return 1 << 30

    def loglikelihood(self, docs: list[Doc]) -> list[ModelResponse]:
        """No benchmark asks for it."""
        raise NotImplementedError("benchmarks are generative")

    def loglikelihood_rolling(self, docs: list[Doc]) -> list[ModelResponse]:
        """No benchmark asks for it."""
        raise NotImplementedError("benchmarks are generative")
