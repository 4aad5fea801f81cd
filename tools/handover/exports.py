"""Exports: the tuned model as an adapter, as whole weights or as a GGUF file, in a folder that can be taken elsewhere.

An export is loaded from its own files and checked before it is there. It appears whole under its name, or not at all.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from memory.errors import InputError
from memory.layout import RunFolder, disk, made, read_record, sha256_of, write_record, write_text
from memory.records import BaseModelCard, Record, Trial
from tools.base_models import HUB_ID
from tools.benchmarks.splits import Manifest, manifest_path
from tools.engines import contract
from tools.engines.environments import ENGINES
from tools.handover.export_check import RULE, Compared, Form, ask_again
from tools.handover.folder import model_files, write_lock_files
from tools.handover.model_card import card
from tools.report import RunReport

TOKENIZER = re.compile(r"tokenizer.*|chat_template.*|special_tokens_map\.json|added_tokens\.json|vocab\..*|merges\.txt")
WRITE_SECONDS = 3600.0
"""A limit for what hangs; a small model takes seconds."""


class GgufRequest(Record):
    """Request to the worker; paths are absolute."""

    action: Literal["gguf"] = "gguf"
    weights: str
    file: str
    name: str
    licence: str


class GgufWritten(Record):
    """What it answers."""

    tensors: int
    seconds: float


class Exported(Record):
    """An export that passed its check; lies in it as check.json."""

    run: str
    trial: int
    form: Form
    files: dict[str, str]
    """sha256 of each file that the model consists of."""
    equal: int
    """Answers that are the recorded ones, character for character, of `answers`."""
    rule: str
    """What an export has to fulfil."""
    answers: tuple[Compared, ...]
    seconds: float


@dataclass(frozen=True)
class Source:
    """A finished run with a winner, and what an export needs of the machine."""

    folder: RunFolder
    report: RunReport
    winner: Trial
    base: BaseModelCard
    train: contract.Engine
    """Any engine of the train environment: its interpreter is what counts."""

    @property
    def weights(self) -> Path:
        """The winner's whole weights."""
        assert self.winner.training is not None, "a winner was trained"
        return self.folder.resolve(self.winner.training.weights)


def refuse_existing(destination: Path) -> None:
    """Raises InputError where something is there already: an export never overwrites."""
    if destination.exists() or destination.is_symlink():
        raise InputError(f"{destination} exists already", "Remove it, or name another folder with --to DIR.")


def export(source: Source, form: Form, destination: Path) -> Exported:
    """Write the winner to the folder `destination`, checked.

    Raises InputError where it exists, where the run has no such form or the base model has changed; EngineError CONFIG
    for a model that cannot become a GGUF file; NotReproducedError; StorageError.
    """
    began = time.monotonic()
    refuse_existing(destination)
    partial = destination.with_name(f".{destination.name}.partial")
    work = source.folder.root / "exporting" / form
    for stale in (partial, work):
        shutil.rmtree(stale, ignore_errors=True)
    made(partial)
    try:
        model = WRITERS[form](source, partial, work)
        compared = check(source, form, partial, model, work / "check")
        files = {path.name: sha256_of(path) for path in sorted(partial.iterdir())}
        exported = Exported(
            run=source.folder.id, trial=source.winner.number, form=form, files=files,
            equal=sum(each.equal for each in compared), rule=RULE, answers=compared, seconds=time.monotonic() - began,
        )  # fmt: skip
        write_record(partial / "check.json", exported)
        describe(source, form, partial, model)
        with disk(destination):
            partial.rename(destination)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    shutil.rmtree(work, ignore_errors=True)
    return exported


def check(source: Source, form: Form, folder: Path, model: str, work: Path) -> tuple[Compared, ...]:
    """Have the export give recorded answers of the winner again. Raises NotReproducedError where it does not."""
    assert source.winner.score is not None, "a winner was scored"
    outcomes = source.folder.resolve(source.winner.score.outcomes)
    return ask_again(worker(source), form, folder, model, Path(source.base.path), source.weights, outcomes, work)


# --- the forms --------------------------------------------------------------------------------------------------------


def write_adapter(source: Source, target: Path, work: Path) -> str:
    """The adapter in PEFT's format, and the tokenizer. One adapter, however many trials it was trained in."""
    assert source.winner.training is not None, "a winner was trained"
    if source.winner.training.adapter is None:
        way_out = "Export whole weights: --format merged."
        raise InputError(f"trial {source.winner.number} tuned all weights; there is no adapter", way_out)
    if source.base.sha256 != source.report.baseline.model.sha256:
        raise InputError(
            f"the weights of {source.base.name} have changed since the run, and an adapter fits only the old ones",
            "Put the old weights back, or export whole weights: --format merged.",
        )
    copy_files(source.folder.resolve(source.winner.training.adapter), target)
    for file in source.weights.iterdir():
        if TOKENIZER.fullmatch(file.name):
            copy(file, target)
    config = target / "adapter_config.json"
    base = source.base.name if HUB_ID.fullmatch(source.base.name) else source.base.path
    values = json.loads(config.read_text()) | {"base_model_name_or_path": base}
    write_text(config, json.dumps(values, indent=2) + "\n")
    return "adapter_config.json"


def write_merged(source: Source, target: Path, work: Path) -> str:
    """Whole weights with configuration, tokenizer and chat template."""
    copy_files(source.weights, target)
    return "config.json"


def write_gguf(source: Source, target: Path, work: Path) -> str:
    """One file for llama.cpp and what is built on it."""
    base, benchmark = source.report.baseline.model, source.report.task.benchmark
    name = re.sub(r"[^\w.-]+", "-", f"{Path(base.name).name}-{benchmark}")
    request = GgufRequest(
        weights=str(source.weights), file=str(target / f"{name}-bf16.gguf"), name=name, licence=base.licence
    )
    worker(source).call(request, GgufWritten, work / "write", timeout_s=WRITE_SECONDS)
    return f"{name}-bf16.gguf"


WRITERS: Mapping[Form, Callable[[Source, Path, Path], str]] = {
    "adapter": write_adapter,
    "merged": write_merged,
    "gguf": write_gguf,
}
"""Each writes the files of a form, and names the one that stands for it."""


def copy_files(source: Path, target: Path) -> None:
    """Copy the files of a model's folder. Raises StorageError."""
    with disk(source):
        files = model_files(source)
    for file in files:
        copy(file, target)


def copy(file: Path, target: Path) -> None:
    """Copy one file into a folder. Raises StorageError."""
    with disk(target):
        shutil.copyfile(file, target / file.name)


def worker(source: Source) -> contract.Engine:
    """The worker that knows transformers, PEFT and GGUF."""
    return replace(source.train, name="export", worker=ENGINES / "axolotl" / "export.py")


# --- what lies beside it ----------------------------------------------------------------------------------------------


def describe(source: Source, form: Form, target: Path, model: str) -> None:
    """The card, the engines' lock files, and the trial's plan and configuration. Raises StorageError."""
    manifest = read_record(manifest_path(source.folder.data), Manifest)
    use = USES[form].format(model=model, base=source.base.name, window=source.report.window)
    write_text(target / "README.md", card(source.report, source.winner, manifest, use))
    write_lock_files(source.report.lineage.engines, target)
    trained = source.folder.trial(source.winner.number) / "train" / "axolotl.yml"
    write_text(target / "recipe" / "axolotl.yml", trained.read_text(encoding="utf-8"))
    write_record(target / "recipe" / "plan.json", source.winner.plan)


USES: dict[Form, str] = {
    "adapter": """\
The adapter in this folder, on the base model named above and no other:

```python
from peft import AutoPeftModelForCausalLM
from transformers import AutoTokenizer

model = AutoPeftModelForCausalLM.from_pretrained(".", dtype="bfloat16")
tokenizer = AutoTokenizer.from_pretrained(".")
```

Questions go through the tokenizer's chat template, as one user message. If {base} lies elsewhere, change
`base_model_name_or_path` in `{model}`.""",
    "merged": """\
Whole weights, for transformers (`AutoModelForCausalLM.from_pretrained(".", dtype="bfloat16")`) and for a server:

```sh
vllm serve . --served-model-name tuned --host 127.0.0.1 --dtype bfloat16 --max-model-len {window}
```

Questions go through the tokenizer's chat template, as one user message.""",
    "gguf": """\
One file, bf16, with tokenizer and chat template, for llama.cpp and what is built on it:

```sh
llama-server --model {model} --host 127.0.0.1 --jinja
```

transformers reads it too (`from_pretrained(".", gguf_file="{model}")`). Questions go through the chat template, as one
user message.""",
}
