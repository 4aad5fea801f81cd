"""Whole weights that vLLM can load: the base model's folder with other weights in it."""

import hashlib
import json
import shutil
from pathlib import Path

import torch

OF_THE_WEIGHTS = {".safetensors", ".bin", ".gguf", ".pt", ".pth", ".h5", ".msgpack", ".onnx"}


def save(model, folder, request):
    """Write `weights/` and, for adapters, `adapter/`, each whole or not at all. Returns the adapter's folder."""
    adapter = None
    if request["method"] != "full":
        adapter = written(folder / "adapter", model.save_pretrained)
        model = requantised(adapter, request["model"]) if request["method"] == "qlora" else model
        model = model.merge_and_unload()
    model.to(torch.bfloat16)

    def write(place):
        model.save_pretrained(place)
        dress(place, Path(request["model"]))

    written(folder / "weights", write)
    return adapter


def requantised(adapter, base):
    """The adapter on the unquantised base: merging into 4-bit weights would round twice."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    plain = AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16, device_map="cpu")
    return PeftModel.from_pretrained(plain, adapter)


def dress(place, base):
    """Give new weights the base model's own config, tokenizer and chat template, byte for byte.

    What the trainer saves in their stead is not the same: it rewrites special tokens to suit its padding.
    """
    for file in base.iterdir():
        if file.is_file() and file.suffix not in OF_THE_WEIGHTS and not file.name.endswith(".index.json"):
            shutil.copyfile(file, place / file.name)
    config = json.loads((place / "config.json").read_text())
    config.pop("torch_dtype", None)
    (place / "config.json").write_text(json.dumps({**config, "dtype": "bfloat16"}, indent=2) + "\n")


def written(target, write):
    """Have `write` fill a folder beside `target`, then put it in its place."""
    partial = target.with_name(target.name + ".partial")
    for stale in (partial, target):
        shutil.rmtree(stale, ignore_errors=True)
    partial.mkdir(parents=True)
    write(partial)
    partial.rename(target)
    return target


def sha256(folder):
    """Hash over the weight files in order of their names, hexadecimal."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()
