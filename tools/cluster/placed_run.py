"""A whole run on a node of the cluster, looked at like a process here.

A batch places whole runs, and not their trainings one by one: a run trains and scores on the same GPU, turn by turn, so
that a machine with a GPU can carry it alone, and gigabytes of weights stay where they are until the end. What a task
names by its path (a model's folder, data) has to lie at that place on every machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from memory.errors import SetupError
from tools.cluster.bench import PROCESS_LOG, Bench
from tools.cluster.connection import Cluster, NodeLostError, RemoteBench
from tools.cluster.job import Job, append
from tools.engines.environments import Hardware

TRIES = 3
"""Nodes that a run may lose before it is given up."""
FAILED = 1
"""The exit code of a run that could not be carried."""


class PlacedRun:
    """The run in a folder of ours, on whatever node has room. Its folder comes back when it ends or is stopped."""

    def __init__(
        self, cluster: Cluster, folder: Path, module: str, device: Hardware, say: Callable[[str], None]
    ) -> None:
        """Ask for a place; nothing is sent before there is one. `module` is the front door. Raises SetupError."""
        self.cluster, self.folder, self.module, self.device, self.say = cluster, folder, module, device, say
        self.lost = 0
        self.code: int | None = None
        self.job: Job | None = None
        self.log_bytes = 0
        self.bench: RemoteBench = self._place()

    def poll(self) -> int | None:
        """The exit code once the run has ended and its folder is back, or None. A run whose node is lost begins again
        elsewhere from what we have here: its beginning, or where it was when it was stopped."""
        if self.code is not None:
            return self.code
        try:
            code = self._looked()
        except NodeLostError as error:
            code = self._place_again(error)
        except SetupError as error:
            code = self._failed(str(error))
        if code is not None:
            self._ended(code)
        return self.code

    def stop(self, grace_s: float = 0.0) -> int:
        """End the run and bring its folder back, so that it can be resumed; the exit code. May be repeated."""
        if self.code is None:
            code = 137
            try:
                if self.job is not None:
                    code = self.bench.ask(Bench.stop, grace_s)
                    self._hear()
                    self.job.bring()
            except (NodeLostError, SetupError) as error:
                self.say(f"lost its node while it was stopped ({error})")
            self._ended(code)
        return self.code or 0

    def _looked(self) -> int | None:
        """Begin the run where there is a place now; its exit code once it has ended and came back."""
        if self.job is None:
            if self.bench.is_placed(0.0):
                job = Job(self.bench, self.folder)
                self.say(f"works on node {job.send().node}")
                self.bench.ask(Bench.begin_run, self.module)
                self.job, self.log_bytes = job, 0
            return None
        code = self._hear()
        if code is not None:
            self.job.bring()
        return code

    def _hear(self) -> int | None:
        """Write down what the run's process says."""
        assert self.job is not None, "only a run that was begun says anything"
        seen = self.bench.ask(Bench.look, 0, self.log_bytes)
        self.log_bytes += len(seen.log)
        append(self.folder / PROCESS_LOG, self.job.places.text_here(seen.log, in_json=False))
        return seen.code

    def _place_again(self, error: NodeLostError) -> int | None:
        self.bench.close()
        self.lost += 1
        self.say(f"lost its node ({error})")
        if self.lost == TRIES:
            return self._failed(f"the run lost {TRIES} nodes")
        self.job, self.bench = None, self._place()
        return None

    def _place(self) -> RemoteBench:
        """Ask for a node. The run has the same path on each, so that what it finished is found again by its request."""
        key = hashlib.sha256(str(self.folder).encode()).hexdigest()[:16]
        return self.cluster.place(self.device, key, self.folder.name)

    def _failed(self, why: str) -> int:
        """End the log as the front door of a run ends its own."""
        append(self.folder / PROCESS_LOG, f"tunewright: {why}\n".encode())
        return FAILED

    def _ended(self, code: int) -> None:
        self.code = code
        if self.job is not None:
            self.bench.leave()
        else:
            self.bench.close()
