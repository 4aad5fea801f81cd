"""A lighteval task made of a benchmark and files of items, and the pipeline that runs it.

lighteval's own registry of tasks is left out: loading it imports every built-in task, and some of them download.
"""

from __future__ import annotations

import collections
from typing import Any

import numpy
from lighteval.metrics.metrics_sample import SampleLevelComputation, SamplingMetric
from lighteval.metrics.utils.metric_utils import SampleLevelMetric
from lighteval.models.model_output import ModelResponse
from lighteval.pipeline import Pipeline
from lighteval.tasks.lighteval_task import LightevalTask, LightevalTaskConfig
from lighteval.tasks.requests import Doc, SamplingMethod

from tools.benchmarks.benchmark import Benchmark, Item
from tools.benchmarks.measures import SCORE


class Scorer(SamplingMetric, SampleLevelComputation):
    """The mean of the benchmark's own score over the samples of a document (avg@k)."""

    def __init__(self, benchmark: Benchmark, samples: int) -> None:
        super().__init__()
        self.benchmark = benchmark
        self.samples = samples

    def num_samples(self) -> int:
        """Samples that lighteval asks for."""
        return self.samples

    def compute(self, doc: Doc, model_response: ModelResponse, **_: Any) -> float:
        """Score of a document, 0 to 1."""
        item = item_of(doc)
        return float(numpy.mean([self.benchmark.grade(text, item).score for text in model_response.text]))


class ItemsTask(LightevalTask):
    """A task whose documents are items in memory: the first `shots` examples become turns of the conversation."""

    def __init__(self, name: str, benchmark: Benchmark, settings: dict[str, Any], items: list[Item], shown: list[Item]):
        metric = SampleLevelMetric(
            metric_name=SCORE,
            higher_is_better=True,
            category=SamplingMethod.GENERATIVE,
            sample_level_fn=Scorer(benchmark, settings["samples"]),
            corpus_level_fn=numpy.mean,
        )
        config = LightevalTaskConfig(
            name=name,
            prompt_function=doc_of,
            hf_repo=benchmark.name,
            hf_subset="default",
            metrics=[metric],
            hf_avail_splits=["examples", "items"],
            evaluation_splits=["items"],
            few_shots_split="examples",
            few_shots_select="sequential",
            generation_size=settings["max_new_tokens"],
            num_fewshots=len(shown),
        )
        self.rows = {"examples": shown, "items": items}
        super().__init__(config)

    @staticmethod
    def download_dataset_worker(task: ItemsTask) -> dict[str, list[dict[str, Any]]]:
        """What lighteval takes for the dataset; nothing is downloaded."""
        return {split: [{"item": item.model_dump_json()} for item in items] for split, items in task.rows.items()}


class ItemsPipeline(Pipeline):
    """lighteval's pipeline over one task that is given, not looked up."""

    def __init__(self, task: ItemsTask, **arguments: Any) -> None:
        self.given = task
        super().__init__(tasks=task.full_name, **arguments)

    def _init_tasks_and_requests(self, tasks: str) -> None:
        self.registry = None
        self.tasks_dict = {tasks: self.given}
        LightevalTask.load_datasets(self.tasks_dict)
        self.documents_dict = {tasks: self.given.get_docs()}
        self.sampling_docs = collections.defaultdict(list, {SamplingMethod.GENERATIVE: self.documents_dict[tasks]})
        self.evaluation_tracker.task_config_logger.log(self.tasks_dict)


def doc_of(row: dict[str, Any], task_name: str) -> Doc:
    """A document of a row. The item travels as one JSON string: lighteval cannot save nested values of mixed types."""
    item = Item.model_validate_json(row["item"])
    specific = {"item": row["item"]}
    return Doc(query=item.prompt, choices=[item.answer], gold_index=0, specific=specific, task_name=task_name)


def item_of(doc: Doc) -> Item:
    """The item that a document was made of."""
    return Item.model_validate_json(doc.specific["item"])
