"""Where a worker gets its requests: one folder on the command line, or a file that grows by a line for each folder.

The second way keeps the process warm, so that its imports are paid once. Standard library only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

INBOX = "--inbox"
POLL_SECONDS = 0.05


def folders(arguments: Sequence[str]) -> Iterator[Path]:
    """The folders to answer, in order: `FOLDER`, or `--inbox FILE`, which never ends. Output then goes to the run.log
    of the folder at hand, where the caller looks for it."""
    if arguments[0] != INBOX:
        yield Path(arguments[0])
        return
    for line in _lines(Path(arguments[1])):
        folder = Path(line)
        log = os.open(folder / "run.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        yield folder


def _lines(path: Path) -> Iterator[str]:
    with path.open() as file:
        partial = ""
        while True:
            partial += file.readline()
            if partial.endswith("\n"):
                yield partial.rstrip("\n")
                partial = ""
            else:
                time.sleep(POLL_SECONDS)
