"""What a run hands over: the winning weights in `model/` with a card, the report, and the command that serves them."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping
from pathlib import Path

from memory.layout import RunFolder, disk, link_or_copy, made, read_record, write_record, write_text
from memory.records import Trial
from tools.benchmarks.splits import Manifest, manifest_path
from tools.engines.environments import ENGINES
from tools.handover.model_card import card, serving
from tools.report import RunReport
from tools.report_text import markdown
from tools.serving import WINDOW

SERVED_AS = "tuned"
"""The model's name at the endpoint."""
HOST = "127.0.0.1"
"""Loopback: nobody outside this machine can ask."""
PORT = 8000
NOT_OF_THE_MODEL = frozenset({"card.json", "README.md"})
"""Files about the base model that lie among the weights, and would be taken for files about the tuned one."""


def serve_arguments(python: Path, model: Path, device: str, port: int = PORT, window: int = WINDOW) -> list[str]:
    """The command line of the endpoint, without its environment; `python` has vLLM."""
    argv = [str(python), "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
    argv += ["--served-model-name", SERVED_AS, "--host", HOST, "--port", str(port)]
    argv += ["--max-model-len", str(window), "--dtype", "bfloat16"]
    if device == "cpu":
        # A prompt is taken whole: the seeds of sampled requests fail on a CPU where a prompt is cut into chunks.
        argv += ["--enforce-eager", "--no-enable-chunked-prefill", "--max-num-batched-tokens", str(window)]
    return argv


def serve_environment(device: str) -> dict[str, str]:
    """What vLLM reads beside its arguments: no hub, no telemetry, and on a CPU little memory for the cache."""
    env = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    return env | ({"VLLM_CPU_KVCACHE_SPACE": "2"} if device == "cpu" else {})


def serve_command(python: Path, model: Path, device: str, window: int = WINDOW) -> str:
    """The command that serves `model` with an OpenAI-compatible endpoint on loopback, ready to be pasted."""
    env = [f"{name}={value}" for name, value in serve_environment(device).items()]
    return shlex.join(["env", *env, *serve_arguments(python, model, device, window=window)])


def write_report(folder: RunFolder, report: RunReport) -> None:
    """`report.json` and `report.md`, each whole or not at all. Raises StorageError."""
    write_record(folder.root / "report.json", report)
    write_text(folder.root / "report.md", markdown(report))


def hand_over_model(folder: RunFolder, winner: Trial, report: RunReport) -> None:
    """Put the winner's weights into `model/` (hard links where the disk allows), with a card and the lock files of the
    engines beside them. Raises StorageError."""
    assert winner.training is not None, "a winner was trained"
    source, target = folder.resolve(winner.training.weights), made(folder.model)
    with disk(target):
        for file in model_files(source):
            (target / file.name).unlink(missing_ok=True)
            link_or_copy(file, target / file.name)
    write_lock_files(report.lineage.engines, target)
    manifest = read_record(manifest_path(folder.data), Manifest)
    write_text(target / "README.md", card(report, winner, manifest, serving(report)))


def model_files(folder: Path) -> list[Path]:
    """The files of a model, by name. Call it where an OSError becomes a StorageError."""
    return sorted(path for path in folder.iterdir() if path.is_file() and path.name not in NOT_OF_THE_MODEL)


def write_lock_files(locks: Mapping[str, str], target: Path) -> None:
    """Copy the lock files of these hashes to `target/requirements/NAME.txt`; one that is not part of this release is
    left out, and the card still has its hash. Raises StorageError."""
    known = {hashlib.sha256(path.read_bytes()).hexdigest(): path for path in ENGINES.glob("*/requirements-*.txt")}
    for name, sha256 in locks.items():
        if sha256 in known:
            write_text(target / "requirements" / f"{name}.txt", known[sha256].read_text(encoding="utf-8"))
