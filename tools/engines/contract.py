"""The directory contract with an engine: `request.json` in; `progress.jsonl` on the way; `result.json`, or
`failure.json`, and `run.log` out.

A result carries the hash of the request that it answers. Where it is there already it is taken and nothing is run: a
finished training or evaluation is never repeated after a crash, and a stale one is never taken.
"""

from __future__ import annotations

import errno
import getpass
import hashlib
import json
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pydantic import JsonValue, ValidationError

from memory.errors import EngineError, StorageError
from memory.layout import made
from memory.records import FailureKind, Record
from tools import process
from tools.engines import worker_io

REPOSITORY = Path(__file__).resolve().parents[2]

OFFLINE: Mapping[str, str] = {
    "AXOLOTL_DO_NOT_TRACK": "1",
    "DO_NOT_TRACK": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TRACKIO_DISABLE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "WANDB_MODE": "disabled",
}
"""Running needs no network: without these, telemetry and hub retries cost minutes on a machine with no way out."""

FULL_BYTES = 20_000_000
"""A disk with less space than this counts as full when an engine fails: too little for a model or its tokenizer."""
Progress = dict[str, JsonValue]
R = TypeVar("R", bound=Record)


@dataclass(frozen=True)
class Engine:
    """A worker and the interpreter that runs it."""

    name: str
    python: Path
    """Interpreter of the engine's environment."""
    worker: Path
    env: Mapping[str, str] = field(default_factory=dict)
    """Added to the worker's environment; overrides the offline switches."""

    def call(
        self,
        request: Record,
        answer: type[R],
        folder: Path,
        *,
        timeout_s: float,
        on_progress: Callable[[Progress], None] | None = None,
        on_tick: Callable[[], None] | None = None,
    ) -> R:
        """Have it answer the request in `folder` (absolute paths are safest: the worker runs in the repository).

        `on_progress` gets each progress line while the worker runs, `on_tick` is called ten times a second; what they
        raise ends the worker and goes on to the caller. Raises EngineError with the kind that the worker gave, or
        BUDGET on time-out, OOM when it was killed, ENV when it ended without a valid result.
        """
        folder = folder.resolve()
        earlier = finished(request, answer, folder)
        if earlier is not None:
            return earlier
        digest = write_request(self, request, folder)
        follower = Follower(folder / worker_io.PROGRESS, self.name, on_progress)

        def tick() -> None:
            follower.follow()
            if on_tick is not None:
                on_tick()

        try:
            code: int | None = process.run(
                [self.python, "-u", self.worker, folder],
                log=folder / "run.log",
                cwd=REPOSITORY,
                env=worker_env(self),
                timeout_s=timeout_s,
                on_tick=tick,
            )
        except TimeoutError:
            code = None
        follower.follow()
        return judge(self, digest, answer, folder, code, timeout_s)


class Failed(Record):
    """What failure.json says."""

    kind: FailureKind
    message: str
    way_out: str = ""


def worker_env(engine: Engine) -> dict[str, str]:
    """What a worker gets beside the inherited allow-list: the repository to import from, and the offline switches."""
    fixed = {"PYTHONPATH": str(REPOSITORY), "PYTHONNOUSERSITE": "1", "TOKENIZERS_PARALLELISM": "false"}
    # What torch has compiled outlives the temporary folder of one worker.
    fixed["TORCHINDUCTOR_CACHE_DIR"] = str(Path(tempfile.gettempdir()) / f"torchinductor_{getpass.getuser()}")
    return {**fixed, **OFFLINE, **engine.env}


def request_sha256(request: Record) -> str:
    """Hash of the request's canonical JSON (sorted keys, no white space)."""
    canonical = json.dumps(request.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def finished(request: Record, answer: type[R], folder: Path) -> R | None:
    """The result of an earlier call for this very request, or None."""
    path = folder / worker_io.RESULT
    if not path.exists() or (folder / worker_io.FAILURE).exists():
        return None
    try:
        envelope = json.loads(path.read_text())
        if envelope["request_sha256"] != request_sha256(request):
            return None
        return answer.model_validate_json(json.dumps(envelope["result"]))
    except (ValueError, KeyError, TypeError):
        return None


def write_request(engine: Engine, request: Record, folder: Path) -> str:
    """Put a request where its worker reads it, and remove what an earlier one left; the request's hash. Raises
    StorageError."""
    made(folder)
    for stale in (worker_io.RESULT, worker_io.FAILURE, worker_io.PROGRESS):
        (folder / stale).unlink(missing_ok=True)
    digest = request_sha256(request)
    envelope = {"engine": engine.name, "sha256": digest, "request": request.model_dump(mode="json")}
    worker_io.write_json(folder / worker_io.REQUEST, envelope)
    return digest


def judge(engine: Engine, digest: str, answer: type[R], folder: Path, code: int | None, timeout_s: float) -> R:
    """The result, or the reason why there is none.

    `code` is the exit code, None after a time-out. The worker's last act decides: failure.json, then a valid
    result.json (written last and atomically, so that a crash of the interpreter on its way out spoils nothing), then
    `code`. Raises EngineError, or StorageError where the engine failed on a full disk.
    """
    log = folder / "run.log"
    failure = folder / worker_io.FAILURE
    if not (folder / worker_io.RESULT).exists():
        _refuse_full_disk(engine, folder, failure.read_text() if failure.exists() else "")
    if failure.exists():
        try:
            failed = Failed.model_validate_json(failure.read_text())
        except ValidationError as error:
            raise _error(engine, "ENV", f"left a failure.json that says nothing valid ({first(error)})", log) from None
        raise EngineError(failed.kind, f"{engine.name}: {failed.message}", failed.way_out or pointer(log), str(log))
    result = folder / worker_io.RESULT
    if result.exists():
        return _read_result(engine, digest, answer, result, log)
    if code is None:
        raise _error(engine, "BUDGET", f"did not finish within {timeout_s:.0f} s and was ended", log)
    if code == 128 + signal.SIGKILL:
        raise _error(engine, "OOM", "was killed (SIGKILL), most likely because memory ran out", log)
    if 128 < code < 128 + 65:
        name = signal.Signals(code - 128).name if code - 128 in set(signal.Signals) else f"signal {code - 128}"
        raise _error(engine, "ENV", f"died by {name}", log)
    if code == 0:
        raise _error(engine, "ENV", "ended without an error but left no result.json", log)
    raise _error(engine, "ENV", f"exited with {code} and left no failure.json", log)


def _refuse_full_disk(engine: Engine, folder: Path, said: str) -> None:
    """A full disk is nothing that another trial could mend: it stops the run, which can go on. Raises StorageError.

    `said` is the engine's own account: it may have cleared away what did not fit, so that there is space again.
    """
    free = shutil.disk_usage(folder).free
    if free < FULL_BYTES or os.strerror(errno.ENOSPC) in said:
        raise StorageError(
            f"the {engine.name} engine failed because the disk of {folder} is full ({free / 1e6:.0f} MB are free)",
            "Free some space, then resume.",
        )


def _read_result(engine: Engine, digest: str, answer: type[R], path: Path, log: Path) -> R:
    try:
        envelope = json.loads(path.read_text())
        claimed, result = envelope["request_sha256"], envelope["result"]
    except (ValueError, KeyError, TypeError):
        raise _error(engine, "ENV", "left a result.json that is not an answer to a request", log) from None
    if claimed != digest:
        raise _error(engine, "ENV", "left a result.json that answers another request", log)
    try:
        return answer.model_validate_json(json.dumps(result))
    except ValidationError as error:
        what = f"left a result.json that is no valid {answer.__name__} ({first(error)})"
        raise _error(engine, "ENV", what, log) from None


class Follower:
    """Reads progress.jsonl as it grows; a line counts once its newline is there."""

    def __init__(self, path: Path, engine: str, on_progress: Callable[[Progress], None] | None) -> None:
        self.path = path
        self.engine = engine
        self.on_progress = on_progress
        self.offset = 0

    def follow(self) -> None:
        """Hand over the lines that are new. Raises EngineError (ENV) on a line that is no JSON object."""
        if self.on_progress is None or not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self.offset)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        for line in whole.splitlines(keepends=True):
            self.offset += len(line)
            self.on_progress(self._parse(line))

    def _parse(self, line: bytes) -> Progress:
        try:
            value = json.loads(line)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            shown = line.decode(errors="replace").strip()[:120]
            raise EngineError("ENV", f"{self.engine}: a progress line is no JSON object: {shown}", "", str(self.path))
        return value


def log_tail(log: Path, lines: int = 3, width: int = 200) -> str:
    """The last lines of a log that say something, in one line; progress bars and blank lines left out."""
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 65536))
        text = file.read().decode(errors="replace")
    last = [piece.rsplit("\r", 1)[-1].strip() for piece in text.rstrip("\r").split("\n")]
    useful = [piece for piece in last if piece and "it/s]" not in piece and "s/it]" not in piece]
    return " | ".join(piece[:width] for piece in useful[-lines:])


def pointer(log: Path) -> str:
    """The way out of an engine's failure: where its log is and how it ends."""
    tail = log_tail(log)
    return f"See {log}, which ends: {tail}" if tail else f"Its log {log} is empty"


def first(error: ValidationError) -> str:
    """The first complaint of a validation, with the field."""
    complaint = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in complaint["loc"])
    return f"{where}: {complaint['msg']}" if where else complaint["msg"]


def _error(engine: Engine, kind: FailureKind, what: str, log: Path) -> EngineError:
    return EngineError(kind, f"the {engine.name} engine {what}", pointer(log), str(log))
