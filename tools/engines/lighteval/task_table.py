"""Writes the table of lighteval's own tasks that the app reads: `python tools/engines/lighteval/task_table.py FILE`.

To be run in the score environment when lighteval's pin changes. A module that cannot be imported without a network is
left out, with a line on standard error.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

from lighteval.metrics.metrics_sample import SampleLevelComputation, SamplingMetric
from lighteval.metrics.sample_preparator import Preparator
from lighteval.metrics.utils.metric_utils import Metric, MetricGrouping, SampleLevelMetric, SampleLevelMetricGrouping
from lighteval.tasks import registry
from lighteval.tasks.lighteval_task import LightevalTask, LightevalTaskConfig

from memory.layout import write_text
from tools.benchmarks.lighteval_tasks import KnownTask

TASKS = Path(registry.__file__).parent / "tasks"
RUNS_CODE = ("CodegenMetric",)
ASKS_MODELS = ("BertScore", "Faithfulness", "BLEURT")
NEEDS_MORE = ("VerifiableRewardMetric",)
"""A Prolog system, and a metric of the hub."""


def tasks() -> Iterator[KnownTask]:
    """All tasks, by name."""
    found: dict[str, KnownTask] = {}
    for module in modules():
        try:
            defined = registry.Registry._extract_configs(importlib.import_module(f"lighteval.tasks.tasks.{module}"))
        except (ImportError, OSError, TypeError) as error:
            print(f"{module} is left out: {type(error).__name__}: {str(error)[:100]}", file=sys.stderr)
            continue
        found |= {name: known(module, config) for name, config in defined.items()}
    yield from (found[name] for name in sorted(found))


def modules() -> list[str]:
    """Modules that define tasks."""
    files = [path.stem for path in TASKS.glob("*.py") if path.stem != "__init__"]
    return sorted([*files, *(f"{path.parent.name}.main" for path in TASKS.glob("*/main.py"))])


def known(module: str, config: LightevalTaskConfig) -> KnownTask:
    """A task as the table has it; of one that is refused, only why."""
    if reason := refused(config):
        return KnownTask(name=config.name, module=module, refused=reason)
    evaluation = tuple(config.evaluation_splits)
    train = [split for split in config.hf_avail_splits if "train" in split and split not in evaluation]
    return KnownTask(
        name=config.name,
        module=module,
        metric=metric_name(config.metrics[0]),
        repository=config.hf_repo,
        subset=config.hf_subset or "",
        evaluation=evaluation,
        train=train[0] if train else "",
        max_new_tokens=config.generation_size if (config.generation_size or 0) > 0 else 0,
    )


def metric_name(metric: Metric) -> str:
    """The name of what a metric says first, without its settings."""
    name = metric.metric_name[0] if isinstance(metric, MetricGrouping) else metric.metric_name
    return name.split(":")[0]


def refused(config: LightevalTaskConfig) -> str:
    """Why a task cannot be a benchmark here; empty where it can."""
    if not config.metrics:
        return "it has no metric"
    kinds = {metric.category.value for metric in config.metrics}
    if kinds != {"GENERATIVE"}:
        return "it is scored by log-probabilities, not by what a model writes"
    metric = config.metrics[0]
    scorer = type(metric.sample_level_fn).__name__
    if not isinstance(metric, SampleLevelMetric | SampleLevelMetricGrouping) or metric.batched_compute:
        return f"its metric {metric_name(metric)} is taken over all outputs at once"
    if scorer in RUNS_CODE:
        return "its metric runs the code that a model wrote"
    if not isinstance(metric.sample_level_fn, SampleLevelComputation | Preparator):
        return f"its metric {metric_name(metric)} is none that lighteval itself can compute"
    if "Judge" in scorer or scorer in ASKS_MODELS:
        return f"its metric {metric_name(metric)} asks another model"
    if scorer in NEEDS_MORE:
        return f"its metric {metric_name(metric)} needs programs that are not here"
    if isinstance(metric.sample_level_fn, SamplingMetric) and LightevalTask(config).num_samples[-1] > 1:
        return f"its metric {metric_name(metric)} takes several outputs to a question"
    return ""


if __name__ == "__main__":
    write_text(Path(sys.argv[1]), "".join(task.model_dump_json(exclude_defaults=True) + "\n" for task in tasks()))
