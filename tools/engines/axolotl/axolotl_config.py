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


def tokenised(cfg):
    """The training set after Axolotl's own chat template strategy and length limit, in the order of the file.

    Goes through Axolotl's steps one by one instead of its loader, which also writes the result to disk from a fresh
    process that imports everything again. Fails with DATA where a row cannot be read.
    """
    source = cfg.datasets[0]
    cfg.dataset_num_proc = None
    try:
        with open(source["path"], encoding="utf-8") as file:
            raw = Dataset.from_list([{"messages": json.loads(line)["messages"]} for line in file if line.strip()])
        tokenizer = load_tokenizer(cfg)
        dataset, _ = get_dataset_wrapper(source, tokenizer, cfg, dataset_base_type=source["type"], dataset=raw)
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise WorkerFailure("DATA", f"Axolotl cannot read the training file: {one_line(error)}") from error
    dataset = handle_long_seq_in_dataset(dataset, cfg.sequence_len, cfg)
    if len(dataset) == 0:
        raise WorkerFailure("DATA", f"none of {len(raw)} rows is within {cfg.sequence_len} tokens")
    return TrainDatasetMeta(train_dataset=dataset, total_num_steps=calculate_total_num_steps(cfg, dataset)), len(raw)
