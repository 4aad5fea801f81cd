"""The Axolotl engine's front door: reads the request, refuses what cannot work, and only then imports Axolotl.

Kept warm, it imports once and answers each request in a copy of itself (fork), which starts as clean as a new process:
no weights, no random numbers drawn, no memory of the request before.
"""

import os
import sys
import time
from pathlib import Path

from tools.engines import worker_io
from tools.engines.lighteval import inbox


def answer(folder):
    """Answer the request in a folder, with `action` preflight or train; see tools/training/engine.py for both."""
    began = time.monotonic()
    with worker_io.reporting(folder):
        request = worker_io.read_request(folder)
        if request["method"] == "qlora" and request["device"] == "cpu":
            raise worker_io.WorkerFailure(
                "CONFIG",
                "QLoRA needs a CUDA device: its 4-bit kernels do not run on a CPU",
                "Use lora; it fits small models.",
            )
        if request["action"] == "preflight":
            from tools.engines.axolotl import preflight as action
        else:
            from tools.engines.axolotl import training_loop as action
        result = action.run(folder, request)
        worker_io.finish(folder, {**result, "seconds": time.monotonic() - began})


def in_a_copy(folder):
    """Answer in a child process; its exit code, negative where a signal ended it."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        answer(folder)
        code = 0
    finally:  # the child must not go on with its parent's loop, whatever happens; what it was is in the log already
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main():
    """worker.py FOLDER answers one request; worker.py --inbox FILE answers one after the other and never ends."""
    if sys.argv[1] != inbox.INBOX:
        answer(Path(sys.argv[1]))
        return
    from tools.engines.axolotl import preflight, training_loop  # noqa: F401  imported before the first request

    for folder in inbox.folders(sys.argv[1:]):
        code = in_a_copy(folder)
        if code < 0:
            sys.exit(128 - code)  # ended by a signal: the caller sees it as if it had been us


if __name__ == "__main__":
    main()
