"""lighteval's own tasks in the environment where lighteval lives: documents become items, outputs are graded by the
task's own metric.

A task is looked up in the one module that defines it: loading the whole registry takes longer, and some of its modules
download while they are imported.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import lru_cache, partial
from itertools import islice
from numbers import Real
from random import Random

import numpy
from lighteval.metrics.utils.metric_utils import Metric, MetricGrouping
from lighteval.models.model_output import ModelResponse
from lighteval.tasks.lighteval_task import LightevalTask, LightevalTaskConfig
from lighteval.tasks.prompt_manager import PromptManager
from lighteval.tasks.registry import Registry
from lighteval.tasks.requests import Doc

from tools.benchmarks import lighteval_tasks
from tools.benchmarks.benchmark import Benchmark, Graded, Item
from tools.benchmarks.lighteval_tasks import KnownTask
from tools.engines import worker_io

EXAMPLES_SEED = 42
NUMBERS = (Real, numpy.bool_)
"""What metrics say."""
PROMPTS = PromptManager(use_chat_template=True)


@lru_cache
def config_of(module: str, task: str) -> LightevalTaskConfig:
    """lighteval's definition of a task."""
    return Registry._extract_configs(importlib.import_module(f"lighteval.tasks.tasks.{module}"))[task]


def benchmark_of(name: str) -> Benchmark:
    """The benchmark of a task with a grader that needs no other process."""
    known, _ = lighteval_tasks.parsed(name)
    return replace(lighteval_tasks.benchmark(name), grade=partial(grade, metric_of(known)))


def metric_of(known: KnownTask) -> Metric:
    """The metric that scores the task: its first."""
    return config_of(known.module, known.name).metrics[0]


def grade(metric: Metric, output: str, item: Item) -> Graded:
    """What the metric says to an output, with what it says it has read where it does. Raises WorkerFailure where that
    is no score from 0 to 1."""
    doc = Doc(**json.loads(item.reference))
    said = metric.compute_sample(doc=doc, model_response=ModelResponse(text=[output]))
    name = metric.metric_name[0] if isinstance(metric, MetricGrouping) else metric.metric_name
    score = said.pop(name)
    if not isinstance(score, NUMBERS) or not 0 <= float(score) <= 1:
        raise worker_io.WorkerFailure("DATA", f"{doc.task_name}: {name} is {score!r}, no score from 0 to 1")
    values = {other: float(value) for other, value in said.items() if isinstance(value, NUMBERS)}
    return Graded(score=float(score), answer=_read(doc, output), values=values)


def _read(doc: Doc, output: str) -> str | None:
    """What was extracted: as the metric notes it down, else the output itself."""
    extracted = (doc.specific or {}).get("extracted_predictions")
    if extracted is not None:
        return extracted[0] if extracted else None
    return output.strip() or None


class Documents:
    """The items of a task from its data, wherever that lies."""

    def __init__(self, known: KnownTask, shots: int, data: str | None) -> None:
        """`data` is a folder with the data set in place of the hub's repository."""
        config = config_of(known.module, known.name)
        if data is not None:
            config = replace(config, hf_repo=data, hf_subset=None, hf_revision=None)
        self.known, self.task = known, LightevalTask(config)
        self.task.dataset = self.task.download_dataset_worker(self.task)
        self.shown = self._examples(shots) if shots else []

    def of(
        self, splits: tuple[str, ...], keep: Callable[[Item], bool] = lambda _: True, most: int | None = None
    ) -> list[Item]:
        """The items of some splits that are to be kept, `most` of them; worked examples are no items."""
        absent = [split for split in splits if split not in self.task.dataset]
        if absent:
            there = ", ".join(self.task.dataset)
            raise worker_io.WorkerFailure("DATA", f"{self.known.name} has no split {absent[0]}; there are {there}")
        shown = {doc.query for doc in self.shown}
        docs = ((doc, split) for split in splits for doc in self.task._get_docs_from_split([split]))
        items = (self.item(doc, split) for doc, split in docs if doc.query not in shown)
        return list(islice(filter(keep, items), most))

    def item(self, doc: Doc, split: str) -> Item:
        """A document as an item: the one message that lighteval would send to a chat model, worked examples above it.
        Raises WorkerFailure for what is no text."""
        if doc.images:
            raise worker_io.WorkerFailure("CONFIG", f"{self.known.name} asks about images")
        doc.task_name = self.known.name
        # lighteval's class of a document is a plain dataclass; what it holds beside text must survive as JSON.
        fields = {key: value for key, value in asdict(doc).items() if key in ("query", "choices", "gold_index")}
        fields |= {"instruction": doc.instruction, "task_name": doc.task_name, "specific": doc.specific}
        try:
            reference = json.dumps(fields)
        except TypeError as error:
            raise worker_io.WorkerFailure("CONFIG", f"{self.known.name} holds more than text: {error}") from error
        question = str(PROMPTS.prepare_prompt_api(doc)[-1]["content"])
        prompt = "\n\n".join([*self._worked(), question])
        return Item(id=f"{split}-{doc.id}", prompt=prompt, answer=str(doc.get_golds()[0]).strip(), reference=reference)

    def _worked(self) -> list[str]:
        return [f"{PROMPTS.prepare_prompt_api(doc)[-1]['content']} {doc.get_golds()[0].strip()}" for doc in self.shown]

    def _examples(self, shots: int) -> list[Doc]:
        """lighteval's own choice of worked examples, made once: the same stand above every question."""
        sampler = self.task.fewshot_sampler
        return sampler.sample_fewshot_examples(shots, 0, sampler=Random(EXAMPLES_SEED))
