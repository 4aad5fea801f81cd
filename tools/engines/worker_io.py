"""The worker's side of the directory contract; standard library only, so that every environment can import it.

A worker reads `request.json`, appends whole JSON lines to `progress.jsonl`, and as its very last act writes
`result.json` or `failure.json`, both atomically. Typical use:

    with worker_io.reporting(folder):
        request = worker_io.read_request(folder)
        worker_io.progress(folder, step=1, loss=2.5)
        worker_io.finish(folder, {"weights": "model"})
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

REQUEST, RESULT, FAILURE, PROGRESS = "request.json", "result.json", "failure.json", "progress.jsonl"


def read_request(folder: str | Path) -> dict[str, Any]:
    """The request as plain JSON; `Record.model_validate` makes the record of it where pydantic is at hand."""
    request: dict[str, Any] = _envelope(folder)["request"]
    return request


def progress(folder: str | Path, **fields: Any) -> None:
    """Append one JSON object to progress.jsonl; the caller sees it within about 0.1 s. Raises ValueError on NaN: say it
    in words (`loss="nan"`)."""
    line = json.dumps(fields, allow_nan=False) + "\n"
    with open(Path(folder) / PROGRESS, "ab", buffering=0) as file:
        file.write(line.encode())


def finish(folder: str | Path, result: Mapping[str, Any]) -> None:
    """Write result.json: the work is done. Nothing may follow but the exit."""
    write_json(Path(folder) / RESULT, {"request_sha256": _envelope(folder)["sha256"], "result": dict(result)})


def fail(folder: str | Path, kind: str, message: str, way_out: str = "") -> None:
    """Write failure.json (a result is taken back); the worker must then exit non-zero. `kind`: a FailureKind."""
    (Path(folder) / RESULT).unlink(missing_ok=True)
    one_line = " ".join(message.split())[:500]
    write_json(Path(folder) / FAILURE, {"kind": kind, "message": one_line, "way_out": way_out})


class WorkerFailure(Exception):
    """Raised inside `reporting` to fail with a kind of one's own choice."""

    def __init__(self, kind: str, message: str, way_out: str = "") -> None:
        super().__init__(message)
        self.kind, self.way_out = kind, way_out


@contextmanager
def reporting(folder: str | Path) -> Iterator[None]:
    """Turn whatever escapes the block into failure.json and exit code 1, with the traceback in run.log."""
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if isinstance(error, SystemExit) and error.code in (None, 0):
            raise
        traceback.print_exc()
        if isinstance(error, WorkerFailure):
            fail(folder, error.kind, str(error), error.way_out)
        elif isinstance(error, SystemExit):
            fail(folder, "ENV", f"the engine exited with {error.code}")
        else:
            fail(folder, kind_of(error), f"{type(error).__name__}: {error}")
        sys.exit(1)


def kind_of(error: BaseException) -> str:
    """OOM for the many ways in which Python, torch and CUDA say that memory ran out; ENV otherwise."""
    text = f"{type(error).__name__} {error}".lower()
    signs = ("memoryerror", "outofmemory", "out of memory", "can't allocate memory", "cannot allocate memory")
    return "OOM" if any(sign in text for sign in signs) else "ENV"


def write_json(path: Path, value: Any) -> None:
    """Write a file whole or not at all, also when the machine stops half-way."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    with open(partial, "w") as file:
        json.dump(value, file, allow_nan=False, indent=1)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def _envelope(folder: str | Path) -> dict[str, Any]:
    envelope: dict[str, Any] = json.loads((Path(folder) / REQUEST).read_text())
    return envelope
