"""Whole weights that vLLM can load: the base model's folder with other weights in it."""

import functools
import hashlib
import json
import os
import shutil
from pathlib import Path

import torch

OF_THE_WEIGHTS = {".safetensors", ".bin", ".gguf", ".pt", ".pth", ".h5", ".msgpack", ".onnx"}


def save(model, folder, request):
    """Write `weights/` and, for adapters, `adapter/`, each whole or not at all. Returns the adapter's folder."""
    adapter = None
    if request["method"] != "full":
        adapter = written(folder / "adapter", trained_adapter(model))
        model = requantised(adapter, request["model"]) if request["method"] == "qlora" else model
        model = model.merge_and_unload()
    model.to(torch.bfloat16)

    def write(place):
        model.save_pretrained(place)
        dress(place, Path(request["model"]))

    written(folder / "weights", write)
    return adapter


def snapshot(model, place, request):
    """Whole weights of a model that goes on training, which stays as it is, bit for bit. Writes `weights/` and, for
    adapters, `adapter/`; returns whether there is one, and the hash of the weights."""
    state, plain = None, model
    if request["method"] != "full":
        adapter = written(place / "adapter", trained_adapter(model))
        plain = model.get_base_model()
    if request["method"] == "qlora":
        with torch.random.fork_rng():  # making a model draws random numbers, which the training must not miss
            plain = requantised(adapter, request["model"]).merge_and_unload()
    else:
        state = merged(plain)

    def write(target):
        plain.save_pretrained(target, state_dict=state)
        dress(target, Path(request["model"]))

    written(place / "weights", write)
    for file in place.rglob("*.safetensors"):
        with open(file, "rb") as stream:
            os.fsync(stream.fileno())
    return request["method"] != "full", sha256(place / "weights")


def trained_adapter(model):
    """What saves the adapter that was trained, and not a frozen reference beside it."""
    return functools.partial(model.save_pretrained, selected_adapters=["default"])


@torch.no_grad()
def merged(model):
    """A model's state in bf16 with its adapter added, under the names of the model without one. The same arithmetic as
    peft's own merge, which would change the model."""
    state, cast = {}, {}
    for name, tensor in model.state_dict().items():
        if ".lora_" in name:
            continue
        where = tensor.data_ptr()  # tied tensors stay tied
        if where not in cast:
            if name.endswith(".base_layer.weight"):
                module = model.get_submodule(name.removesuffix(".base_layer.weight"))
                tensor = tensor + module.get_delta_weight(module.active_adapters[0])
            cast[where] = tensor.to("cpu", torch.bfloat16)
        state[name.replace(".base_layer.", ".")] = cast[where]
    return state


def requantised(adapter, base):
    """The adapter on the unquantised base: merging into 4-bit weights would round twice."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    plain = AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16, device_map="cpu")
    return PeftModel.from_pretrained(plain, adapter)


def copied(place, folder):
    """Make a snapshot the end of the training. Returns the adapter's folder."""
    for name in ("weights", "adapter"):
        if (place / name).exists():
            written(folder / name, functools.partial(shutil.copytree, place / name, dirs_exist_ok=True))
    return folder / "adapter" if (place / "adapter").exists() else None


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
