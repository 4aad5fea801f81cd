"""What a checkpoint costs, beside LangGraph's SQLite saver in the same process: `python -m tests.bench_checkpointer`.

Both savers get the same chain of checkpoints of one thread: 4 KB of new state each, ten more channels that do not
change, and two writes of a task. Each put is timed alone; a history is the newest 50 entries, decoded. Both savers wait
for the disk once per put, so the disk's own time is measured too.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.sqlite import SqliteSaver

from memory.checkpoint_rows import CHECKPOINT_SCHEMA
from memory.checkpointer import DuckDBSaver
from memory.database import Database

PUTS = 500
HISTORY = 50
READS = 10
AIMS = {"put": 2.0, f"history of {HISTORY}": 50.0}
"""Milliseconds, median."""


def measure() -> list[dict[str, Any]]:
    """One row per saver and figure: `figure`, `saver`, `p50_ms`, `p99_ms`, and `aim_ms` for the p50 where there is one.

    The p99 of the history is that of ten reads: their maximum.
    """
    with tempfile.TemporaryDirectory() as folder:
        with Database.open(Path(folder) / "run" / "run.duckdb", [CHECKPOINT_SCHEMA]) as database:
            ours = _measure_saver("DuckDBSaver", DuckDBSaver(database), AIMS)
        disk = _row("append, fdatasync", "(the disk)", _sync_disk(Path(folder) / "disk"))
        with SqliteSaver.from_conn_string(f"{folder}/reference.sqlite") as reference:
            theirs = _measure_saver("SqliteSaver", reference, {})
    return [disk, *(row for pair in zip(ours, theirs, strict=True) for row in pair)]


def _measure_saver(name: str, saver: BaseCheckpointSaver[Any], aims: dict[str, float]) -> list[dict[str, Any]]:
    puts, writes = _put_chain(saver)
    thread = {"configurable": {"thread_id": "bench", "checkpoint_ns": ""}}
    reads = [_milliseconds(lambda: list(saver.list(thread, limit=HISTORY))) for _ in range(READS)]
    newest = [_milliseconds(lambda: saver.get_tuple(thread)) for _ in range(READS * 5)]
    timings = {"put": puts, "put_writes": writes, "get_tuple": newest, f"history of {HISTORY}": reads}
    return [_row(figure, name, timing, aims.get(figure)) for figure, timing in timings.items()]


def _row(figure: str, saver: str, timing: list[float], aim: float | None = None) -> dict[str, Any]:
    p99 = quantiles(timing, n=100, method="inclusive")[98]
    p50 = median(timing)
    return {"figure": figure, "saver": saver, "p50_ms": round(p50, 2), "p99_ms": round(p99, 2), "aim_ms": aim}


def _sync_disk(path: Path) -> list[float]:
    """Milliseconds of each append of 4 KB that waits for the disk."""
    with path.open("ab", buffering=0) as file:
        return [_milliseconds(lambda: (file.write(bytes(4096)), os.fdatasync(file.fileno()))) for _ in range(PUTS)]


def _put_chain(saver: BaseCheckpointSaver[Any]) -> tuple[list[float], list[float]]:
    """Milliseconds of each put and of each put_writes."""
    noise = random.Random(0)
    config: Any = {"configurable": {"thread_id": "bench", "checkpoint_ns": ""}}
    checkpoint = empty_checkpoint()
    steady = {f"steady_{number}": {"rows": number, "names": ["a", "b"]} for number in range(10)}
    versions: dict[str, Any] = {channel: saver.get_next_version(None, None) for channel in steady}
    new, puts, writes = dict(versions), [], []
    for step in range(PUTS):
        versions["state"] = new["state"] = saver.get_next_version(versions.get("state"), None)
        state: Checkpoint = {
            **checkpoint,
            "id": str(uuid6(clock_seq=step)),
            "channel_values": {**steady, "state": noise.randbytes(2048).hex()},
            "channel_versions": dict(versions),
        }
        start = time.perf_counter()
        config = saver.put(config, state, {"source": "loop", "step": step, "parents": {}}, new)
        puts.append((time.perf_counter() - start) * 1e3)
        outcome = [("state", {"step": step}), ("branch:to:next", None)]
        start = time.perf_counter()
        saver.put_writes(config, outcome, f"task-{step}", "~__pregel_pull, node")
        writes.append((time.perf_counter() - start) * 1e3)
        new = {}
    return puts, writes


def _milliseconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def main() -> None:
    """Print the table."""
    print(f"{'figure':<19}{'saver':<14}{'p50 ms':>8}{'p99 ms':>8}{'aim p50':>9}")
    for row in measure():
        aim = f"<= {row['aim_ms']:g}" if row["aim_ms"] else ""
        print(f"{row['figure']:<19}{row['saver']:<14}{row['p50_ms']:>8.2f}{row['p99_ms']:>8.2f}{aim:>9}")


if __name__ == "__main__":
    main()
