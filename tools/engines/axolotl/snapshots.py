"""Snapshots of a running training: where they lie, and how its caller is asked whether it is to go on.

The worker writes one, announces it, and waits; the caller answers through a file. Both sides use this module, so it
needs the standard library only.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

from tools.engines import worker_io

FOLDER, RECORD, ANSWER = "snapshots", "snapshot.json", "answer.json"
POLL_SECONDS = 0.05


def steps(total: int, wanted: int) -> set[int]:
    """After which of `total` optimiser steps a snapshot is taken: `wanted` of them, evenly spaced, none at the end."""
    return {round(total * at / (wanted + 1)) for at in range(1, wanted + 1)} - {0, total}


def place(folder: Path, step: int) -> Path:
    """Where the snapshot after `step` lies."""
    return folder / FOLDER / str(step)


def keep_until(folder: Path, step: int, wanted: int) -> None:
    """Make room: what a training has that goes on from its checkpoint at `step` stays, and nothing else. One that
    begins anew, because it is another one or has no checkpoint, has none."""
    series = folder / FOLDER
    if series.exists() and not (step and wanted):
        shutil.rmtree(series)
    if wanted:
        series.mkdir(exist_ok=True)
    for each in series.glob("*/"):
        if int(each.name) > step or not (each / RECORD).exists():
            shutil.rmtree(each)


def record(folder: Path, step: int, fields: dict[str, Any]) -> None:
    """Call after everything of a snapshot is written: from now on it is whole."""
    worker_io.write_json(place(folder, step) / RECORD, {"step": step, **fields})


def made(folder: Path) -> list[dict[str, Any]]:
    """The whole snapshots, oldest first, as the fields of `Snapshot`; paths are absolute."""
    found = []
    for path in (folder / FOLDER).glob(f"*/{RECORD}"):
        fields = json.loads(path.read_text())
        adapter = path.with_name("adapter") if fields.pop("has_adapter") else None
        found.append(
            {**fields, "weights": str(path.with_name("weights")), "adapter": str(adapter) if adapter else None}
        )
    return sorted(found, key=lambda fields: int(fields["step"]))


def ask(folder: Path, fields: dict[str, Any]) -> bool:
    """Announce a snapshot and wait for the caller's answer: whether the training goes on.

    There is no limit to the wait: if the caller is gone, the supervisor ends this process.
    """
    answer = folder / FOLDER / ANSWER
    answer.unlink(missing_ok=True)
    worker_io.progress(folder, snapshot=fields)
    while not answer.exists():
        time.sleep(POLL_SECONDS)
    goes_on: bool = json.loads(answer.read_text())["go"]
    answer.unlink()
    return goes_on


def ask_again(folder: Path) -> int | None:
    """After a crash: announce every earlier snapshot once more, since the caller may have lost its answers too. The
    step at which it says stop, or None."""
    return next((int(fields["step"]) for fields in made(folder) if not ask(folder, fields)), None)


def answer(folder: Path, *, go: bool) -> None:
    """The caller's side of `ask`."""
    worker_io.write_json(folder / FOLDER / ANSWER, {"go": go})
