"""What a run needs from the machine before it starts: engine environments, the base model, the accelerator."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from graph.planning import Access
from memory.records import BaseModelCard, Task
from nodes.deps import Engines, Propose
from tools import base_models, benchmarks
from tools.benchmarks.benchmark import Benchmark
from tools.benchmarks.preparation import fetch, install
from tools.benchmarks.splits import Sizes
from tools.engines import environments
from tools.engines.contract import Engine
from tools.engines.environments import Hardware
from tools.proposers import search
from tools.raw_data.store import Store, store_of

Say = Callable[[str], None]


@dataclass(frozen=True)
class Workshop:
    """Engines and model, ready for use."""

    engines: Engines
    model: BaseModelCard
    device: Hardware
    locks: Mapping[str, str]
    """Hash of each environment's lock file, for the lineage."""
    propose: Propose = search.propose
    """Who plans, and whom a language model falls back on."""
    access: Access = field(default_factory=Access)
    """How to reach an OpenAI-compatible server; the front door hands it in."""
    cluster: str = ""
    """The Ray cluster on which trainings are placed; empty for this machine."""
    sizes: Sizes = field(default_factory=Sizes)
    """Items in the splits of a new run."""
    store: Store | None = None
    """Where raw data of benchmarks lies; None where no benchmark of this run has any."""
    fetch: Callable[[], None] = lambda: None
    """Fetch raw data that is missing, before a new run begins; a run that exists has its splits."""


Equip = Callable[[Task, Path, Say], Workshop]
"""Task, cache folder and listener for lines become a workshop; the tests bring engines that are quick."""


def workshop(task: Task, cache: Path, say: Say) -> Workshop:
    """Set up what is missing and find the base model. Raises InputError and SetupError."""
    hardware = environments.detect_hardware()
    store = store_of(task.data_dir, cache)
    ready = environments.ensure_all(cache, hardware, say)
    train, score = ready["train"], ready["score"]
    workers = environments.ENGINES
    for benchmark in asked(task, store):
        for python in (Path(sys.executable), score.python):
            install(benchmark, python, cache / "extras.log", say)
    return Workshop(
        engines=Engines(
            axolotl=Engine("axolotl", train.python, workers / "axolotl" / "worker.py"),
            vllm=Engine("vllm", score.python, workers / "vllm" / "worker.py"),
            lighteval=Engine("lighteval", score.python, workers / "lighteval" / "worker.py"),
        ),
        model=base_models.resolve(task.base_model, cache=cache, train_python=train.python, say=say),
        device=hardware,
        locks={name: environment.ready.lock_sha256 for name, environment in ready.items()},
        store=store,
        fetch=partial(fetch, asked(task, store), store, say),
    )


def asked(task: Task, store: Store) -> tuple[Benchmark, ...]:
    """The benchmark of a task, and its guards."""
    return (benchmarks.of(task, store), *(benchmarks.get(name, store) for name in task.guards))
