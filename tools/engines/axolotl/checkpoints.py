"""Checkpoints of a running training: which is whole, and to which training it belongs."""

import os
import shutil

WHOLE = "whole"
IDENTITY = "identity"


def newest_whole(place, identity):
    """The newest checkpoint that was written to its end, or None. Half-written ones and those of another training go.

    `identity` says what is trained on what; a checkpoint of a different identity must not be continued.
    """
    mark = place / IDENTITY
    if place.exists() and (not mark.exists() or mark.read_text() != identity):
        shutil.rmtree(place)
    place.mkdir(parents=True, exist_ok=True)
    mark.write_text(identity)
    found = sorted(place.glob("checkpoint-*"), key=step_of)
    for half in [path for path in found if not (path / WHOLE).exists()]:
        shutil.rmtree(half)
    return next((path for path in reversed(found) if (path / WHOLE).exists()), None)


def mark_whole(place, step):
    """Call after everything of a checkpoint is written. Flushes it to disk, then drops the older ones."""
    newest = place / f"checkpoint-{step}"
    # A frozen reference is made anew from the start. Kept here, it would be loaded in place of the adapter that learns.
    shutil.rmtree(newest / "ref", ignore_errors=True)
    for path in newest.iterdir():
        with open(path, "rb") as file:
            os.fsync(file.fileno())
    (newest / WHOLE).touch()
    for older in place.glob("checkpoint-*"):
        if older != newest:
            shutil.rmtree(older)


def remove(place):
    """Drop them all: the training is done and its weights are written."""
    shutil.rmtree(place)


def step_of(checkpoint):
    """The optimiser step after which it was taken."""
    return int(checkpoint.name.rpartition("-")[2])
