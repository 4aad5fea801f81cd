"""An engine on a node of the cluster: the same contract as `Engine.call`, a folder for each request, here.

What the request names is sent to the node, and what the job makes is brought back while it works: at its end this
folder looks as if the engine had run here. A job whose node is lost goes on elsewhere, from what was brought back.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from memory.errors import SetupError
from memory.records import BaseModelCard, Record
from tools.cluster.bench import ANSWERS, RUN_LOG, Bench
from tools.cluster.connection import Cluster, NodeLostError, RemoteBench
from tools.cluster.job import Job, append
from tools.engines import contract, worker_io
from tools.engines.environments import Hardware

R = TypeVar("R", bound=Record)

TRIES = 3
"""Nodes that a job may lose before its run stops."""
LOOK_SECONDS = 0.2
BRING_SECONDS = 30.0
"""Checkpoints are brought back this often, as long as that takes no more than SHARE of the time."""
SHARE = 0.1
FREE_SECONDS = 600.0
"""Longest wait for a node that only has to say how much memory it has."""


@dataclass
class PlacedEngine:
    """An engine that runs wherever the cluster has room."""

    engine: contract.Engine
    cluster: Cluster
    model: BaseModelCard
    device: Hardware
    say: Callable[[str], None]
    """Told what a person wants to know: where a job works, and what was lost."""
    bring_every_s: float = BRING_SECONDS
    """How often checkpoints are brought back."""

    def call(
        self,
        request: Record,
        answer: type[R],
        folder: Path,
        *,
        timeout_s: float,
        on_progress: Callable[[contract.Progress], None] | None = None,
        on_tick: Callable[[], None] | None = None,
    ) -> R:
        """As `Engine.call`; waiting for a node counts against `timeout_s`. `on_tick` is called while a job speaks:
        the silence before its first line is the way to a node. Raises EngineError, and SetupError where the run has
        to stop: no node fits, a node is not set up, or TRIES were lost."""
        folder = folder.resolve()
        earlier = contract.finished(request, answer, folder)
        if earlier is not None:
            return earlier
        digest = contract.write_request(self.engine, request, folder)
        (folder / RUN_LOG).touch()
        until = time.monotonic() + timeout_s
        follower = contract.Follower(folder / worker_io.PROGRESS, self.engine.name, on_progress)
        code: int | None = None
        for number in range(1, TRIES + 1):
            try:
                with self.cluster.bench(self.device, until, self.say) as bench:
                    job = EngineJob(bench, folder, follower, self.bring_every_s)
                    where = job.send_with_inputs(self.model)
                    self.say(f"{self.engine.name} works on node {where.node}{job.from_step}")
                    job.begin(self.engine)
                    code = job.follow(until, on_tick)
                break
            except TimeoutError:
                break
            except NodeLostError as error:
                self.say(f"lost the node of the {self.engine.name} job ({error})")
                if number == TRIES:
                    raise SetupError(f"the {self.engine.name} job lost {TRIES} nodes", "Resume later.") from error
        return contract.judge(self.engine, digest, answer, folder, code, timeout_s)

    def free_memory(self) -> int:
        """Bytes that a training can take on the node that has room now. Raises SetupError."""
        until = time.monotonic() + FREE_SECONDS
        try:
            with self.cluster.bench(self.device, until, self.say) as bench:
                return bench.ask(Bench.free_memory, self.device)
        except (NodeLostError, TimeoutError) as error:
            raise SetupError(f"the cluster does not say how much memory it has ({error})", "Resume later.") from error

    def close(self) -> None:
        """Let go of the cluster."""
        self.cluster.close()


class EngineJob(Job):
    """One attempt at a request, followed while it works."""

    def __init__(self, bench: RemoteBench, folder: Path, follower: contract.Follower, bring_every_s: float) -> None:
        super().__init__(bench, folder)
        self.follower = follower
        self.bring_every_s = bring_every_s
        self.bring_at = time.monotonic() + bring_every_s

    @property
    def from_step(self) -> str:
        """Where the job goes on, in words; empty where it begins."""
        whole = [path.parent.name.rpartition("-")[2] for path in self.folder.glob("checkpoints/checkpoint-*/whole")]
        return f", on from step {max(whole, key=int)}" if whole else ""

    def begin(self, engine: contract.Engine) -> None:
        """Start the worker. Raises SetupError where the node has not what it needs."""
        python = engine.python
        ours = python.parents[2].name == "envs"
        worker = str(engine.worker.relative_to(contract.REPOSITORY))
        interpreter = str(python.relative_to(python.parents[3]) if ours else python)
        trouble = self.bench.ask(Bench.begin, engine.name, interpreter, worker, dict(engine.env))
        if trouble:
            raise SetupError(trouble, "Run `make setup` on that machine, then resume.")

    def keeps(self, found: Collection[str]) -> bool:
        """The last checkpoint stays until the result is here: a training drops it just before it says that it is done,
        and its node may be lost in between."""
        return not any(name in (worker_io.RESULT, worker_io.FAILURE) or name.endswith("/whole") for name in found)

    def follow(self, until: float, on_tick: Callable[[], None] | None) -> int | None:
        """Hand on what the job says until it ends; its exit code, None where it did not end by `until`."""
        progress = log = 0
        while True:
            seen = self.bench.ask(Bench.look, progress, log)
            progress, log = progress + len(seen.progress), log + len(seen.log)
            self._heard(seen.progress, seen.log)
            if on_tick is not None and progress:
                on_tick()
            if seen.code is not None:
                self.bring()
                return seen.code
            if time.monotonic() > until:
                return None
            self._bring_now_and_then()
            time.sleep(LOOK_SECONDS)

    def _heard(self, progress: bytes, log: bytes) -> None:
        """Write down what is new, and hand it on. The files of a snapshot, and answers to score, come before their
        announcement, and what is answered goes back."""
        append(self.folder / RUN_LOG, log)
        if b'"snapshot"' in progress or b'"to_score"' in progress:
            self.bring()
        append(self.follower.path, self.places.text_here(progress, in_json=True))
        self.follower.follow()
        for name in ANSWERS:
            answer = self.folder / name
            if answer.exists():
                self.bench.ask(Bench.answer, name, json.loads(answer.read_text()))
                answer.unlink()

    def _bring_now_and_then(self) -> None:
        began = time.monotonic()
        if began >= self.bring_at:
            self.bring()
            took = time.monotonic() - began
            self.bring_at = time.monotonic() + max(self.bring_every_s, took / SHARE)
