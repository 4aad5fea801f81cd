"""`make bench`: our figures, each beside its reference, measured here and now; about half an hour on two cores."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests import bench_checkpointer, bench_estimates, bench_page, bench_serving, bench_training

DEFAULT_RUN = ("--benchmark", "syllogism", "--base-model", "smollm2", "--budget", "14m")
"""What `make run` does."""
BUSY_AIM = 0.75


def measure_run() -> dict[str, Any]:
    """The default run: its share of wall clock spent training and generating, and how often it started a server."""
    with tempfile.TemporaryDirectory() as runs:
        argv = [sys.executable, "-m", "graph.run", *DEFAULT_RUN, "--run-dir", runs, "--json"]
        subprocess.run(argv, check=False, stdout=subprocess.DEVNULL)
        (report,) = Path(runs).glob("*/report.json")
        spent = json.loads(report.read_text())["budget"]
    busy = spent["training_seconds"] + spent["generating_seconds"]
    return {
        "busy_share": busy / spent["spent_seconds"],
        "spent_seconds": spent["spent_seconds"],
        "trials": spent["trials"],
        "server_starts": spent["server_starts"],
    }


def main() -> None:
    """Print every table; nothing else should be running."""
    print("Checkpoints, beside LangGraph's SQLite saver", flush=True)
    bench_checkpointer.main()
    print("\nThe page: an update of the run view with 500 trials and 50,000 losses", flush=True)
    bench_page.main()
    print("\nServing, a swap beside a start", flush=True)
    bench_serving.main()
    print("\nTraining, beside a bare axolotl train", flush=True)
    bench_training.main()
    print("\nEstimates, beside what happened", flush=True)
    bench_estimates.main()
    print(f"\nThe default run: {' '.join(DEFAULT_RUN)}", flush=True)
    run = measure_run()
    print(f"training and generating  {run['busy_share']:.0%} of {run['spent_seconds']:.0f} s   aim >= {BUSY_AIM:.0%}")
    print(f"server starts            {run['server_starts']}   aim 1")
    print(f"trials                   {run['trials']}")


if __name__ == "__main__":
    main()
