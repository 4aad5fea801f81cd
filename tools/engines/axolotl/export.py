"""The front door of exports in the train environment: writes a GGUF file, or loads an export and lets it answer.

Requests stand in `tools/handover/exports.py`. Greedy, one question at a time, with the template in the export.
"""

import sys
import time
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tools.engines import worker_io

DTYPE = torch.bfloat16


def write_gguf(request):
    """{"weights", "file", "name", "licence"} -> {"tensors"}."""
    from tools.engines.axolotl import gguf_file

    count = gguf_file.write(Path(request["weights"]), Path(request["file"]), request["name"], request["licence"])
    return {"tensors": count}


def check(request):
    """{"form", "folder", "file", "base", "tokenizer", "asked", "max_new_tokens"} -> {"answers"}."""
    model, tokenizer = load(request)
    own = AutoTokenizer.from_pretrained(request["tokenizer"])
    answers = []
    for asked in request["asked"]:
        ids = rendered(tokenizer, asked["prompt"])
        if ids != rendered(own, asked["prompt"]):
            raise worker_io.WorkerFailure("TEMPLATE", "the export renders a question otherwise than the training did")
        output = generated(model, tokenizer, ids, request["max_new_tokens"])
        margin = None if output == asked["output"] else doubt(model, tokenizer, ids, asked)
        answers.append({"output": output, "margin": margin})
    return {"answers": answers}


def load(request):
    """The model and the tokenizer of an export."""
    if request["form"] == "gguf":
        place = {"pretrained_model_name_or_path": request["folder"], "gguf_file": request["file"]}
        return AutoModelForCausalLM.from_pretrained(**place, dtype=DTYPE).eval(), AutoTokenizer.from_pretrained(**place)
    tokenizer = AutoTokenizer.from_pretrained(request["folder"])
    if request["form"] == "merged":
        return AutoModelForCausalLM.from_pretrained(request["folder"], dtype=DTYPE).eval(), tokenizer
    from peft import PeftModel

    base = AutoModelForCausalLM.from_pretrained(request["base"], dtype=DTYPE)
    return PeftModel.from_pretrained(base, request["folder"]).eval(), tokenizer


def rendered(tokenizer, prompt):
    """Token ids of a question as a chat that waits for its answer."""
    chat = [{"role": "user", "content": prompt}]
    text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    return tokenizer(text, add_special_tokens=False)["input_ids"]


@torch.inference_mode()
def generated(model, tokenizer, ids, max_new_tokens):
    """The greedy answer."""
    prompt = torch.tensor([ids])
    whole = model.generate(
        input_ids=prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=max_new_tokens
    )
    return tokenizer.decode(whole[0, len(ids) :], skip_special_tokens=True)


@torch.inference_mode()
def doubt(model, tokenizer, ids, asked):
    """How much the model minds the recorded answer: the most nats by which it prefers another token to one of the
    answer's, its end included."""
    wanted = tokenizer(asked["output"], add_special_tokens=False)["input_ids"]
    after = model(input_ids=torch.tensor([ids + wanted])).logits[0, len(ids) - 1 :].float()
    taken = [after[place, token] for place, token in enumerate(wanted)]
    if asked["stopped"]:
        taken.append(after[len(wanted), ends(model)].max())
    return max((float(row.max() - value) for row, value in zip(after, taken, strict=False)), default=0.0)


def ends(model):
    """Ids of the tokens that end generation."""
    said = model.generation_config.eos_token_id
    return said if isinstance(said, list) else [said]


def main():
    """export.py FOLDER: request with `action` gguf or check."""
    folder = sys.argv[1]
    began = time.monotonic()
    with worker_io.reporting(folder):
        request = worker_io.read_request(folder)
        result = write_gguf(request) if request["action"] == "gguf" else check(request)
        worker_io.finish(folder, {**result, "seconds": time.monotonic() - began})


if __name__ == "__main__":
    main()
