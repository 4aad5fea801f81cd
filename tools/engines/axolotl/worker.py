"""The Axolotl engine's front door: reads the request, refuses what cannot work, and only then imports Axolotl."""

import sys
import time
from pathlib import Path

from tools.engines import worker_io


def main():
    """worker.py FOLDER: request with `action` preflight or train; see tools/training.py for both."""
    began = time.monotonic()
    folder = Path(sys.argv[1])
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
        answer = action.run(folder, request)
        worker_io.finish(folder, {**answer, "seconds": time.monotonic() - began})


if __name__ == "__main__":
    main()
