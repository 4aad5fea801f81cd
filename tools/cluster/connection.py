"""The Ray cluster: a connection to one that runs, and a bench on a free node of it.

Ray is an optional package. It is imported here and nowhere else, and only where a cluster was asked for; it is told to
say nothing, and to report nothing to anybody. No cluster is started: one machine needs none.
"""

from __future__ import annotations

import importlib
import shutil
import signal
import tempfile
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from memory.errors import InputError, SetupError
from tools.cluster.bench import Bench
from tools.engines.contract import REPOSITORY
from tools.engines.environments import Hardware

P = ParamSpec("P")
T = TypeVar("T")

RAY = "ray[client]==2.60.0"
ASK_SECONDS = 120.0
"""A node that does not answer for so long is lost; a piece of a file is written in far less."""
PLACE_SECONDS = 60.0
"""Between two lines that say that no node has become free."""
SOURCE = ("graph", "memory", "nodes", "tests", "tools")
"""Folders of ours that the nodes get, so that all run the same release; the tests bring quick engines."""
START = (
    "On one machine: ray start --head --disable-usage-stats --include-dashboard=false; on each other one: "
    "ray start --address=HOST:6379"
)

SAME = "Run `make setup` with this release on that machine, and `ray start` from its .venv."


class NodeLostError(Exception):
    """The node, or the process on it, is gone or does not answer. Says nothing about the job."""


@dataclass(frozen=True)
class Need:
    """What a job takes of a node."""

    cpus: float
    gpus: float


class RemoteBench:
    """A bench on some node."""

    def __init__(self, ray: Any, actor: Any) -> None:
        self.ray, self.actor = ray, actor
        self.ready: Any = None

    def is_placed(self, seconds: float) -> bool:
        """Whether a node has taken the bench, after so many seconds at most. Raises NodeLostError, SetupError."""
        self.ready = self.ready or self.actor.__ray_ready__.remote()
        try:
            self._get(self.ready, seconds)
        except self.ray.exceptions.GetTimeoutError:
            return False
        return True

    def ask(self, method: Callable[Concatenate[Bench, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What that method of the bench answers. Raises NodeLostError, and SetupError for an error of its own."""
        try:
            return cast(T, self._get(getattr(self.actor, method.__name__).remote(*args, **kwargs), ASK_SECONDS))
        except self.ray.exceptions.GetTimeoutError as error:
            raise NodeLostError(f"no answer within {ASK_SECONDS:.0f} s") from error

    def _get(self, asked: Any, seconds: float) -> Any:
        errors = self.ray.exceptions
        try:
            return self.ray.get(asked, timeout=seconds)
        except errors.GetTimeoutError:
            raise
        except errors.RayTaskError as error:
            raise SetupError(f"a node of the cluster failed: {error.cause}") from error
        except errors.RayError as error:
            if isinstance(error, errors.RuntimeEnvSetupError) or "creation task" in str(error):
                raise SetupError(f"a node cannot start our part: {last_line(error)}", SAME) from error
            raise NodeLostError(first_line(error)) from error

    def leave(self) -> None:
        """Have the node remove the job's files, and close. What fails now is done by the next job there."""
        try:
            self.ask(Bench.close)
        except (NodeLostError, SetupError):
            pass
        self.close()

    def close(self) -> None:
        """Kill the bench's process; its supervisor ends the job."""
        self.ray.kill(self.actor)


class Cluster:
    """A connection to a cluster that runs. A process has one."""

    def __init__(self, address: str) -> None:
        """Connect to `auto`, the cluster that this machine belongs to, or to `ray://HOST:PORT`. Raises InputError."""
        try:
            self.ray: Any = importlib.import_module("ray")
        except ModuleNotFoundError:
            way_out = f'Install it: python -m uv pip install --python .venv/bin/python "{RAY}"'
            raise InputError("--cluster needs Ray, which is not installed", way_out) from None
        # Else pages of Ray's own log stand in our output when a node dies. It is the switch of Ray's debugger.
        output: Any = importlib.import_module("ray._private.worker")
        output._worker_logs_enabled = False
        before = signal.getsignal(signal.SIGTERM)
        try:
            with source() as folder, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.ray.init(
                    address,
                    namespace="tunewright",
                    log_to_driver=False,
                    logging_level="CRITICAL",
                    runtime_env={"working_dir": folder},
                )
        except (ConnectionError, RuntimeError, ValueError) as error:
            where = "this machine belongs to no Ray cluster" if address == "auto" else f"no Ray cluster is at {address}"
            raise InputError(f"{where} ({first_line(error)})", START) from error
        finally:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, before)  # Ray's own would end us without closing anything

    def nodes(self) -> list[dict[str, float]]:
        """What each living node has in all: CPU, GPU and more."""
        return [node["Resources"] for node in self.ray.nodes() if node["Alive"]]

    def need(self, device: Hardware) -> Need:
        """What a job takes: one GPU and its share of the cores; or, where there is none, as many cores as the smallest
        node has, so that no two jobs share one. Raises SetupError where no node could ever give it."""
        gpus = 1.0 if device == "cuda" else 0.0
        able = [node for node in self.nodes() if node.get("CPU") and node.get("GPU", 0.0) >= gpus]
        if not able:
            what = "a GPU" if gpus else "cores to give"
            raise SetupError(f"no node of the cluster has {what}", "Start one, then resume. " + START)
        return Need(cpus=min(node["CPU"] // (node["GPU"] if gpus else 1.0) for node in able), gpus=gpus)

    def hardware(self) -> Hardware:
        """What the nodes work with: GPUs, where any has one."""
        return "cuda" if any(node.get("GPU") for node in self.nodes()) else "cpu"

    def jobs_at_once(self, device: Hardware) -> int:
        """How many jobs find room on the cluster when it has nothing else to do. Raises SetupError where none does."""
        need = self.need(device)
        name, each = ("GPU", need.gpus) if need.gpus else ("CPU", need.cpus)
        return sum(int(node.get(name, 0.0) // each) for node in self.nodes())

    def place(self, device: Hardware, key: str, name: str = "work") -> RemoteBench:
        """A bench for the job `key` on the next node with room, as soon as there is one; its folder has that name.
        Raises SetupError."""
        need = self.need(device)
        options = {"num_cpus": need.cpus, "num_gpus": need.gpus, "max_restarts": 0}
        return RemoteBench(self.ray, self.ray.remote(Bench).options(**options).remote(key, name))

    @contextmanager
    def bench(self, device: Hardware, until: float, say: Callable[[str], None]) -> Iterator[RemoteBench]:
        """A bench on a node with room for a job, until the block is left; whatever it started ends then.

        `until` is a time of the monotonic clock. Raises TimeoutError where no node became free, NodeLostError.
        """
        bench, began = self.place(device, uuid.uuid4().hex), time.monotonic()
        try:
            while not bench.is_placed(min(PLACE_SECONDS, max(0.0, until - time.monotonic()))):
                if time.monotonic() > until:
                    raise TimeoutError("no node of the cluster became free")
                say(f"no node has room yet; waiting since {time.monotonic() - began:.0f} s")
            yield bench
        except BaseException:  # Ctrl-C during the wait, too: no node keeps a job of ours
            bench.close()
            raise
        bench.leave()

    def close(self) -> None:
        """Let go of the cluster; what we had placed ends."""
        self.ray.shutdown()


@contextmanager
def source() -> Iterator[str]:
    """A folder with our own source and nothing else, for Ray to hand to the nodes."""
    with tempfile.TemporaryDirectory(prefix="tunewright-") as folder:
        for name in SOURCE:
            if (REPOSITORY / name).is_dir():
                shutil.copytree(REPOSITORY / name, Path(folder, name), ignore=shutil.ignore_patterns("__pycache__"))
        yield folder


def last_line(error: BaseException) -> str:
    """What an error of another process says at its end."""
    return str(error).strip().splitlines()[-1][:200]


def first_line(error: BaseException) -> str:
    """What an error of Ray says, without its pages of advice."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
