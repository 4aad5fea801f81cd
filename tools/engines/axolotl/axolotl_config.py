"""A rendered YAML, read and judged by Axolotl itself."""

import json

import yaml
from axolotl.cli.config import load_cfg
from axolotl.common.datasets import TrainDatasetMeta
from axolotl.loaders import load_tokenizer
from axolotl.utils.data.utils import handle_long_seq_in_dataset
from axolotl.utils.data.wrappers import get_dataset_wrapper
from axolotl.utils.schemas.config import AxolotlConfigWCapabilities
from axolotl.utils.trainer import calculate_total_num_steps
from datasets import Dataset

from tools.engines.axolotl import pairs
from tools.engines.worker_io import WorkerFailure


def read(path):
    """Axolotl's validated configuration. Fails with CONFIG and what Axolotl said, in one line."""
    with open(path, encoding="utf-8") as file:
        keys = set(yaml.safe_load(file))
    fields = AxolotlConfigWCapabilities.model_fields
    known = set(fields) | {field.alias for field in fields.values() if field.alias}
    if unknown := sorted(keys - known):
        raise WorkerFailure("CONFIG", f"Axolotl knows no setting {', '.join(unknown)}")
    try:
        return load_cfg(str(path))
    except (ValueError, TypeError, ImportError) as error:
        raise WorkerFailure("CONFIG", f"Axolotl refuses the recipe: {one_line(error)}") from error


def one_line(error):
    """What a validation says without its frame: `setting: complaint` for pydantic, the text itself otherwise."""
    if hasattr(error, "errors"):
        complaint = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in complaint["loc"])
        return f"{where}: {complaint['msg']}" if where else complaint["msg"]
    return " ".join(str(error).split())


def tokenised(cfg, folder):
    """The training set after Axolotl's own chat template strategy and length limit, in the order of the file.

    Goes through Axolotl's steps one by one instead of its loader, which also writes the result to disk from a fresh
    process that imports everything again. `folder` is where GRPO asks for rewards. Fails with DATA where a row cannot
    be read.
    """
    source = cfg.datasets[0]
    cfg.dataset_num_proc = None
    try:
        with open(source["path"], encoding="utf-8") as file:
            raw = [json.loads(line) for line in file if line.strip()]
        tokenizer = load_tokenizer(cfg)
        dataset = chats([row["messages"] for row in raw], cfg, tokenizer)
        if cfg.rl == "dpo":
            wrong = [[row["messages"][0], {"role": "assistant", "content": row["rejected"]}] for row in raw]
            dataset = pairs.paired(dataset, chats(wrong, cfg, tokenizer))
        elif cfg.rl == "grpo":
            dataset = dataset.add_column("prompt", [row["messages"][:1] for row in raw])
            dataset = dataset.add_column("row", [row["id"] for row in raw])
            dataset = dataset.add_column("folder", [str(folder)] * len(raw))
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise WorkerFailure("DATA", f"Axolotl cannot read the training file: {one_line(error)}") from error
    dataset = handle_long_seq_in_dataset(dataset, cfg.sequence_len, cfg)
    if len(dataset) == 0:
        raise WorkerFailure("DATA", f"none of {len(raw)} rows is within {cfg.sequence_len} tokens")
    return TrainDatasetMeta(train_dataset=dataset, total_num_steps=total_steps(cfg, dataset)), len(raw)


def chats(conversations, cfg, tokenizer):
    """Tokens and labels of conversations by Axolotl's chat template strategy."""
    source, raw = cfg.datasets[0], Dataset.from_list([{"messages": messages} for messages in conversations])
    return get_dataset_wrapper(source, tokenizer, cfg, dataset_base_type=source["type"], dataset=raw)[0]


def total_steps(cfg, dataset):
    """Optimiser steps of the whole training. GRPO takes whole groups of questions and leaves the rest of an epoch out.
    Fails with DATA where there are too few for one step."""
    if cfg.rl != "grpo":
        return calculate_total_num_steps(cfg, dataset)
    questions = cfg.batch_size // cfg.trl.num_generations
    if len(dataset) < questions:
        raise WorkerFailure("DATA", f"{len(dataset)} questions are left, and a step takes {questions}")
    return max(1, int(cfg.num_epochs * (len(dataset) // questions)))
