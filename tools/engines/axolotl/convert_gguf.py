"""Converts a GGUF file into a folder of plain bf16 weights with config and tokenizer: once, for the embedded model.

Runs in the train environment under the engine contract.
"""

import sys
import time
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tools.engines import worker_io


def convert(gguf: Path, target: Path) -> None:
    """Write `target`. transformers refuses to save a model read from GGUF, so the weights move to a fresh one."""
    read = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.bfloat16)
    config = read.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    fresh = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    fresh.load_state_dict(read.state_dict())
    target.mkdir(parents=True, exist_ok=True)
    fresh.save_pretrained(target)
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(target)


def main() -> None:
    """convert_gguf.py FOLDER: request {"gguf", "target"}, result {"seconds"}."""
    folder = sys.argv[1]
    with worker_io.reporting(folder):
        request = worker_io.read_request(folder)
        began = time.monotonic()
        convert(Path(request["gguf"]), Path(request["target"]))
        worker_io.finish(folder, {"seconds": time.monotonic() - began})


if __name__ == "__main__":
    main()
