"""Base models: a whole folder is described, an incomplete one refused with what it lacks, the embedded one answers."""

from __future__ import annotations

import json
import os
import struct
import sys
from pathlib import Path

import pytest

from memory.errors import InputError
from memory.records import BaseModelCard
from tools import base_models, process
from tools.engines import environments

NOBODY = Path(sys.executable)
"""Stands where the train environment's interpreter is not needed."""


def write_weights(file: Path, tensors: dict[str, tuple[int, ...]]) -> None:
    """A bf16 safetensors file of zeros."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, shape in tensors.items():
        size = 2
        for dimension in shape:
            size *= dimension
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + b"\0" * offset)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder that looks like a tiny model with a chat template of its own."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"hidden_size": 8, "num_hidden_layers": 2}))
    (folder / "tokenizer.json").write_text("{}")
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages }}"}))
    (folder / "README.md").write_text("---\nlanguage: en\nlicense: mit\n---\n# A model\n")
    write_weights(folder / "model.safetensors", {"embed": (16, 8), "norm": (8,)})
    return folder


def resolve(name: str | Path, tmp_path: Path) -> BaseModelCard:
    return base_models.resolve(str(name), cache=tmp_path / "cache", train_python=NOBODY, say=lambda line: None)


def refused(name: str | Path, tmp_path: Path) -> str:
    with pytest.raises(InputError) as caught:
        resolve(name, tmp_path)
    assert caught.value.way_out
    assert "\n" not in str(caught.value)
    return caught.value.message


def test_a_whole_folder_is_described(model: Path, tmp_path: Path) -> None:
    card = resolve(model, tmp_path)
    assert (card.parameters, card.hidden_size, card.layers) == (136, 8, 2)
    assert (card.path, card.chat_template, card.licence) == (str(model), "own", "mit")


def test_the_hash_follows_the_weights(model: Path, tmp_path: Path) -> None:
    before = resolve(model, tmp_path).sha256
    assert resolve(model, tmp_path).sha256 == before
    with (model / "model.safetensors").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\1")
    os.utime(model / "model.safetensors", ns=(1, 1))
    assert resolve(model, tmp_path).sha256 != before


def test_shards_count_together(model: Path, tmp_path: Path) -> None:
    (model / "model.safetensors").unlink()
    write_weights(model / "a.safetensors", {"x": (4,)})
    write_weights(model / "b.safetensors", {"y": (5,)})
    index = {"weight_map": {"x": "a.safetensors", "y": "b.safetensors"}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    assert resolve(model, tmp_path).parameters == 9
    (model / "b.safetensors").unlink()
    assert "lacks 1 of 2 weight files, b.safetensors" in refused(model, tmp_path)


@pytest.mark.parametrize(
    ("lost", "says"),
    [
        ("config.json", "no config.json"),
        ("model.safetensors", "no *.safetensors weights"),
        ("tokenizer.json", "no tokenizer"),
        ("tokenizer_config.json", "no tokenizer_config.json"),
    ],
)
def test_what_is_missing_is_named(model: Path, tmp_path: Path, lost: str, says: str) -> None:
    (model / lost).unlink()
    assert says in refused(model, tmp_path)


def test_damaged_files_are_named(model: Path, tmp_path: Path) -> None:
    weights = model / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-4])
    assert "cut short" in refused(model, tmp_path)
    for garbage in (b"", b"\xff" * 64, whole[:20]):
        weights.write_bytes(garbage)
        assert "is no safetensors file" in refused(model, tmp_path)
    (model / "config.json").write_text("{")
    assert "config.json cannot be read" in refused(model, tmp_path)
    (model / "config.json").write_text("{}")
    assert "hidden_size" in refused(model, tmp_path)


def test_names_that_lead_nowhere(model: Path, tmp_path: Path) -> None:
    assert refused("smollm3", tmp_path) == "there is no base model smollm3"
    assert refused("./not/there", tmp_path) == "there is no base model ./not/there"
    assert "is a file" in refused(model / "config.json", tmp_path)


def test_a_model_without_a_template_is_seen_with_ours(model: Path, tmp_path: Path) -> None:
    (model / "tokenizer_config.json").write_text("{}")
    card = resolve(model, tmp_path)
    assert card.chat_template == "chatml"
    seen = Path(card.path)
    assert seen != model
    assert (seen / "chat_template.jinja").read_text() == base_models.DEFAULT_TEMPLATE.read_text()
    assert (seen / "model.safetensors").samefile(model / "model.safetensors")
    assert not (model / "chat_template.jinja").exists()
    assert resolve(model, tmp_path) == card


ASK = """
import sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
model = AutoModelForCausalLM.from_pretrained(sys.argv[1])
assert model.dtype == torch.bfloat16, model.dtype
assert tokenizer.eos_token == tokenizer.pad_token == "<|im_end|>", tokenizer
assert tokenizer.eos_token_id == model.generation_config.eos_token_id
assert tokenizer.decode(tokenizer("Is it , or isn't it ?")["input_ids"]) == "Is it , or isn't it ?"
asked = tokenizer.apply_chat_template(
    [{"role": "user", "content": "What is the capital of France?"}], add_generation_prompt=True, return_tensors="pt",
    return_dict=True)
print(tokenizer.decode(model.generate(**asked, max_new_tokens=12, do_sample=False)[0][asked["input_ids"].shape[1]:]))
"""


@pytest.fixture(scope="module")
def train_python() -> Path:
    cache = environments.cache_folder(os.environ)
    return environments.ensure_all(cache, environments.detect_hardware(), print)["train"].python


@pytest.mark.engine
def test_the_embedded_model_is_converted_once_and_answers(tmp_path: Path, train_python: Path) -> None:
    lines: list[str] = []

    def embedded() -> BaseModelCard:
        return base_models.resolve("SmolLM2-135M-Instruct", cache=tmp_path, train_python=train_python, say=lines.append)

    card = embedded()
    assert (card.parameters, card.hidden_size, card.layers) == (134_515_008, 576, 30)
    assert (card.chat_template, card.licence) == ("own", "apache-2.0")
    assert embedded() == card
    assert len(lines) == 1
    assert not list(tmp_path.glob("models/*.partial"))
    log = tmp_path / "ask.log"
    assert process.run([train_python, "-c", ASK, card.path], log=log, timeout_s=200) == 0, log.read_text()
    assert "The capital of France is Paris." in log.read_text()


@pytest.mark.engine
def test_a_hub_model_out_of_reach_is_one_line(tmp_path: Path, train_python: Path) -> None:
    with pytest.raises(InputError, match="nobody/no-such-model") as caught:
        base_models.resolve("nobody/no-such-model", cache=tmp_path, train_python=train_python, say=lambda line: None)
    assert "\n" not in str(caught.value)
