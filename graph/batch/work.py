"""The work of a batch: each task is a run in a process of its own, as many at once as there are GPUs.

One GPU, or the CPU, cannot be shared by two runs that are both measured by the clock: without several GPUs the tasks
run one after the other. On a cluster each run is carried by a node (tools/cluster/placed_run.py says why). A run that
has finished is kept, any other one goes on where it stopped.
"""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from graph.background import ROOT, Launch, argv_of
from graph.batch.table import Row, cells, lines, row_of
from graph.live import people, tell
from graph.settings import BatchTask, Settings
from graph.values import in_words
from memory.errors import InputError
from memory.layout import RunFolder, made, read_record, write_record
from memory.records import Task
from tools import process
from tools.cluster.connection import Cluster
from tools.cluster.placed_run import PlacedRun
from tools.machine import gpus

FINISHED, SOME_FAILED = 0, 1
GRAPH_RUN = Launch()
STOP_SECONDS = 25.0
"""A run ends its engines and closes its database in less."""


@dataclass(frozen=True)
class Place:
    """Where a run may work while it holds the place."""

    gpu: str = ""
    """Its number, or however CUDA_VISIBLE_DEVICES names it; empty for the machine as it is."""
    number: int = 0
    """Of places that are alike: those of a cluster, where Ray finds the node."""

    @property
    def env(self) -> dict[str, str]:
        """Added to the run's environment."""
        return {"CUDA_VISIBLE_DEVICES": self.gpu} if self.gpu else {}

    @property
    def words(self) -> str:
        """The same for a person."""
        return f" on GPU {self.gpu}" if self.gpu else ""


def batch(settings: Settings, launch: Launch = GRAPH_RUN, places: Sequence[Place] = ()) -> int:
    """Run every task that has not finished, then show the table. The exit code: 0 all finished, 1 some did not.

    `places` are those of this machine, or of the cluster, where none is given. Raises InputError where a folder holds
    another task, or where there is no such cluster.
    """
    for wanted in settings.batch:
        check(wanted, settings)
    cluster = Cluster(settings.cluster) if settings.cluster else None
    processes = Processes(settings, launch, cluster)
    try:
        processes.work_off(places or places_of(cluster))
    finally:
        processes.stop()
        if cluster is not None:
            cluster.close()
        rows = [row_of(wanted, settings.runs, processes.ended.get(wanted.name)) for wanted in settings.batch]
        show(settings, rows)
    return FINISHED if all(row.status == "finished" for row in rows) else SOME_FAILED


def places_of(cluster: Cluster | None) -> list[Place]:
    """One for each GPU, of this machine or of the cluster; without any, one for this machine, or for each node."""
    if cluster is not None:
        return [Place(number=number) for number in range(cluster.jobs_at_once(cluster.hardware()))]
    return [Place(gpu) for gpu in gpus()] or [Place()]


class Processes:
    """The processes of a batch, and the exit codes of those that have ended."""

    def __init__(self, settings: Settings, launch: Launch, cluster: Cluster | None) -> None:
        self.settings, self.launch, self.cluster = settings, launch, cluster
        self.ended: dict[str, int] = {}
        self.at_work: dict[Place, tuple[BatchTask, process.Process | PlacedRun]] = {}
        self.out = people(settings.json_output)

    def work_off(self, places: Sequence[Place]) -> None:
        """Give each free place the next task, until all have ended."""
        left = deque(one for one in self.settings.batch if row_of(one, self.settings.runs).status != "finished")
        done = len(self.settings.batch) - len(left)
        tell(self.out, f"{len(self.settings.batch)} tasks, {done} have finished; {min(len(places), len(left))} at once")
        while left or self.at_work:
            for place in places:
                if place not in self.at_work and left:
                    self.begin(left.popleft(), place)
            time.sleep(process.TICK_SECONDS)
            self.look()

    def begin(self, wanted: BatchTask, place: Place) -> None:
        """Start the process of a task's run."""
        folder = RunFolder(self.settings.runs / wanted.name)
        if not folder.task.exists():
            made(folder.root, mode=0o700)
            write_record(folder.task, wanted.task)
        tell(self.out, f"{wanted.name} begins{place.words}, its log is {folder.process_log}")
        self.at_work[place] = (wanted, self.started(folder, place))

    def started(self, folder: RunFolder, place: Place) -> process.Process | PlacedRun:
        """A run in a process, here or on a node."""
        if self.cluster is not None:
            return PlacedRun(
                self.cluster,
                folder.root,
                self.launch.module,
                self.cluster.hardware(),
                lambda says: tell(self.out, f"{folder.id} {says}"),
            )
        env = {**self.launch.environment, **place.env}
        return process.start(argv_of(folder, self.launch), log=folder.process_log, cwd=ROOT, env=env, ours=True)

    def look(self) -> None:
        """Take note of the processes that have ended."""
        for place, (wanted, started) in list(self.at_work.items()):
            code = started.poll()
            if code is not None:
                started.stop()
                del self.at_work[place]
                self.ended[wanted.name] = code
                tell(self.out, "  ".join(part for part in cells(row_of(wanted, self.settings.runs, code)) if part))

    def stop(self) -> None:
        """End the runs at work, all at once; they can be resumed."""
        running = [started for _, started in self.at_work.values()]
        if running:
            tell(self.out, "stopping the runs at work; the same command goes on")
            with ThreadPoolExecutor(len(running)) as pool:
                list(pool.map(lambda started: started.stop(STOP_SECONDS), running))


def check(wanted: BatchTask, settings: Settings) -> None:
    """Say what is not done as it was written. Raises InputError where the task's folder holds another task."""
    out, folder = people(settings.json_output), RunFolder(settings.runs / wanted.name)
    for words in wanted.ignored:
        tell(out, f"{wanted.name}: {words}")
    if not folder.task.exists():
        return
    begun = read_record(folder.task, Task)
    if begun.model_copy(update={"budget": wanted.task.budget}) != wanted.task:
        raise InputError(
            f"{folder.root} holds a run of another task than {wanted.name}",
            "Give the task another name, or name another folder with --run-dir.",
        )
    if begun.budget != wanted.task.budget:
        tell(out, f"{wanted.name} keeps the budget with which it began, {in_words(begun.budget.seconds)}")


def show(settings: Settings, rows: Sequence[Row]) -> None:
    """The table for a person, or the same as JSON."""
    if settings.json_output:
        tell(sys.stdout, json.dumps([row.model_dump() for row in rows], indent=2))
        return
    for line in ["", *lines(rows)]:
        tell(sys.stdout, line)
