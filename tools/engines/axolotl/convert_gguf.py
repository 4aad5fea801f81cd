"""Converts a GGUF file into a folder of plain bf16 weights with config and tokenizer: once, for the embedded model.

Runs in the train environment under the engine contract.
"""

import sys
import time
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedConfig, PreTrainedTokenizerBase

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
    plain_tokenizer(gguf, config).save_pretrained(target)


def plain_tokenizer(gguf: Path, config: PreTrainedConfig) -> PreTrainedTokenizerBase:
    """The tokenizer with the special tokens that the model's config names: as read from GGUF it takes the token that
    begins a turn for the one that ends it, and a training would teach the model never to stop."""
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token = tokenizer.convert_ids_to_tokens(
        [config.bos_token_id, config.eos_token_id, config.pad_token_id]
    )
    tokenizer.model_max_length = config.max_position_embeddings
    tokenizer.clean_up_tokenization_spaces = False  # decoding must give back what was encoded
    return tokenizer


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
