"""A folder of weights becomes one GGUF file that llama.cpp and what is built on it can run.

Written for models of the Llama architecture with a byte-level BPE tokenizer, bit for bit in bf16; everything else is
refused: a file that nobody has tried is worse than none. Format: https://github.com/ggml-org/ggml, docs/gguf.md.
"""

import json
from pathlib import Path

import gguf
import numpy as np
import torch
from safetensors import safe_open
from transformers import AutoTokenizer

from tools.engines.worker_io import WorkerFailure

PRE_TOKENIZERS = {"ByteLevel": "gpt-2", "Digits ByteLevel": "smollm"}
"""How the tokenizer cuts text before BPE, and what llama.cpp calls that."""
INSTEAD = "Export it with --format merged."


def write(weights, file, name, licence):
    """Write `file` from the weights, config and tokenizer in the folder `weights`; the number of tensors."""
    config = json.loads((weights / "config.json").read_text())
    refuse_other_architectures(config)
    tokenizer = json.loads((weights / "tokenizer.json").read_text())
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_name(name)
    writer.add_license(licence)
    add_sizes(writer, config)
    add_vocabulary(writer, config, tokenizer)
    add_special_tokens(writer, weights, config)
    count = add_tensors(writer, weights, config)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return count


def refuse_other_architectures(config):
    """Raises WorkerFailure CONFIG for what this file does not know how to write."""
    kind = config.get("architectures", ["no architecture"])[0]
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    reasons = {
        f"it is a {kind}, not a LlamaForCausalLM": kind != "LlamaForCausalLM",
        "its attention or its MLP has biases": config.get("attention_bias") or config.get("mlp_bias"),
        f"its positions are scaled ({rope.get('rope_type')})": rope.get("rope_type", "default") != "default",
        f"its activation is {config.get('hidden_act')}": config.get("hidden_act") != "silu",
    }
    refuse([reason for reason, found in reasons.items() if found])


def refuse(reasons):
    """Raises WorkerFailure where there is a reason."""
    if reasons:
        raise WorkerFailure("CONFIG", f"this model cannot be written as GGUF: {'; '.join(reasons)}", INSTEAD)


# --- what describes the model -----------------------------------------------------------------------------------------


def add_sizes(writer, config):
    """Layers, heads, lengths."""
    rope = config.get("rope_parameters") or config
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(kv_heads(config))
    writer.add_rope_dimension_count(config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])
    writer.add_rope_freq_base(rope.get("rope_theta", 10000.0))
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])


def kv_heads(config):
    """Heads of keys and values; as many as of queries where the config says nothing."""
    return config.get("num_key_value_heads") or config["num_attention_heads"]


def add_vocabulary(writer, config, tokenizer):
    """Tokens in the order of their ids, their kinds, and the merges."""
    model = tokenizer["model"]
    cut = pre_tokenizer(tokenizer)
    kinds = {"BPE": model["type"] != "BPE", "byte-level": cut not in PRE_TOKENIZERS}
    refuse([f"its tokenizer is not {kind}" for kind, missing in kinds.items() if missing])
    added = {token["id"]: token for token in tokenizer["added_tokens"]}
    words = {number: word for word, number in model["vocab"].items()}
    words |= {number: token["content"] for number, token in added.items()}
    tokens, types = [], []
    for number in range(config["vocab_size"]):
        tokens.append(words.get(number, f"[PAD{number}]"))
        if number not in words:
            types.append(gguf.TokenType.UNUSED)
        elif number in added:
            special = added[number]["special"]
            types.append(gguf.TokenType.CONTROL if special else gguf.TokenType.USER_DEFINED)
        else:
            types.append(gguf.TokenType.NORMAL)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(PRE_TOKENIZERS[cut])
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]])


def pre_tokenizer(tokenizer):
    """The steps before BPE, by name; "" where one of them is set otherwise than llama.cpp does it."""
    step = tokenizer.get("pre_tokenizer") or {}
    steps = step["pretokenizers"] if step.get("type") == "Sequence" else [step]
    usual = all(
        not each.get("add_prefix_space") and each.get("use_regex", True) and each.get("individual_digits", True)
        for each in steps
    )
    normalised = (tokenizer.get("normalizer") or {}).get("normalizers", tokenizer.get("normalizer"))
    return " ".join(str(each.get("type")) for each in steps) if usual and not normalised else ""


def add_special_tokens(writer, weights, config):
    """The tokens that begin and end, and the chat template. An answer ends with what stops generation here."""
    tokenizer = AutoTokenizer.from_pretrained(weights)
    ends = stops(weights, config)
    template = tokenizer.chat_template
    in_template = [number for number in ends if tokenizer.convert_ids_to_tokens(number) in (template or "")]
    refuse(["it does not say which token ends an answer"] if not ends else [])
    writer.add_eos_token_id((in_template or ends)[0])
    for number, add in (
        (tokenizer.bos_token_id, writer.add_bos_token_id),
        (tokenizer.unk_token_id, writer.add_unk_token_id),
        (tokenizer.pad_token_id, writer.add_pad_token_id),
    ):
        if number is not None:
            add(number)
    encoded = tokenizer("a")["input_ids"]
    writer.add_add_bos_token(encoded[0] == tokenizer.bos_token_id)
    writer.add_add_space_prefix(False)
    if template is not None:
        writer.add_chat_template(template)


def stops(weights, config):
    """Ids of the tokens that end generation."""
    path = weights / "generation_config.json"
    said = json.loads(path.read_text()).get("eos_token_id") if path.exists() else None
    said = config.get("eos_token_id") if said is None else said
    return said if isinstance(said, list) else [] if said is None else [said]


# --- the weights ------------------------------------------------------------------------------------------------------


def add_tensors(writer, weights, config):
    """Every tensor under llama.cpp's name: matrices in bf16, vectors in float32."""
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config["num_hidden_layers"])
    count = 0
    for path in sorted(Path(weights).glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            for name in file.keys():  # noqa: SIM118 - not a mapping
                if config.get("tie_word_embeddings") and name == "lm_head.weight":
                    continue
                target = names.get_name(name, try_suffixes=(".weight",))
                refuse([f"it has a tensor {name}"] if target is None else [])
                add_tensor(writer, target, interleaved(name, file.get_tensor(name), config))
                count += 1
    return count


def interleaved(name, tensor, config):
    """Queries and keys with the two halves of each head's rotation side by side, as llama.cpp rotates them."""
    heads = {"q_proj": config["num_attention_heads"], "k_proj": kv_heads(config)}
    for part, count in heads.items():
        if f".{part}." in name:
            rows = tensor.shape[0]
            return tensor.reshape(count, 2, rows // count // 2, -1).transpose(1, 2).reshape(rows, -1)
    return tensor


def add_tensor(writer, name, tensor):
    """One tensor; bf16 goes in as its bytes, since NumPy has no such type."""
    if tensor.dim() == 1:
        writer.add_tensor(name, tensor.to(torch.float32).numpy())
        return
    raw = tensor.to(torch.bfloat16).contiguous().view(torch.uint8).numpy().view(np.uint8)
    writer.add_tensor(name, raw, raw_dtype=gguf.GGMLQuantizationType.BF16)
