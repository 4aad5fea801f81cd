"""What every node is handed: the run's folder, its engines, its ledger and its one warm server."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from memory.errors import ServerError
from memory.events import Events
from memory.layout import RunFolder, read_record
from memory.ledger import Ledger
from memory.records import Baseline, BaseModelCard, NodeName, Plan, Score
from tools.benchmarks.benchmark import Benchmark
from tools.benchmarks.splits import FINGERPRINTS, Manifest, split_path, verify
from tools.decontamination import Fingerprints
from tools.engines.contract import Engine
from tools.proposers.brief import Brief, Stop
from tools.scoring import Evaluation, evaluate
from tools.serving import Server
from tools.warm_engine import WarmEngine

SHOTS = 5
"""Worked examples of the few-shot baseline; the first rows of the training split."""
CONTEXT = 2048
"""Tokens that the server takes, prompt and answer together."""

REPORT_SECONDS = 15.0
"""Weight swaps, report and model card at the end of a run."""


Propose = Callable[[Brief], Plan | Stop]
"""A proposer: the same brief always gets the same answer."""


@dataclass(frozen=True)
class Engines:
    """The three engines; the tests hand in real processes that are quick."""

    axolotl: Engine
    vllm: Engine
    lighteval: Engine


class Pace:
    """Estimates the rest of a job from what was done since it was first heard of; start-ups do not count."""

    def __init__(self) -> None:
        self.first: tuple[float, int] | None = None

    def rest(self, done: int, total: int) -> float | None:
        """Seconds left; None while nothing can be said."""
        now = time.monotonic()
        self.first = self.first or (now, done)
        since, before = self.first
        return (now - since) / (done - before) * (total - done) if done > before else None


@dataclass
class Deps:
    """The hands of the nodes. One per process and run; nothing in it is state that a resume would miss."""

    folder: RunFolder
    benchmark: Benchmark
    model: BaseModelCard
    splits: Manifest
    engines: Engines
    locks: Mapping[str, str]
    """Hash of each engine environment's lock file, for the lineage."""
    device: Literal["cpu", "cuda"]
    ledger: Ledger
    events: Events
    server: Server
    """Starts at its first use, and again after a death."""
    scorer: WarmEngine
    """lighteval, kept warm so that its imports are paid once."""
    propose: Propose
    """Who plans."""
    _node_began: float = 0.0

    def begin(self, node: NodeName, trial: int | None) -> None:
        """Note which node is at work, and since when."""
        self._node_began = time.monotonic()
        self.events.node, self.events.trial = node, trial
        self.events.emit("node", f"{node} at work", phase="start")

    def node_seconds(self) -> float:
        """Wall clock of the node at work, in seconds."""
        return time.monotonic() - self._node_began

    @property
    def base_weights(self) -> Path:
        """Folder of the untouched weights."""
        return Path(self.model.path)

    def reserve_seconds(self, baseline: Baseline) -> float:
        """Seconds kept for the sealed test: both base prompts and the tuned model at the baseline's measured pace."""
        zero, few = baseline.zero_shot, baseline.few_shot
        return (2 * zero.seconds / zero.n + few.seconds / few.n) * self.splits.sizes.test + REPORT_SECONDS

    def items(self, split: Literal["train", "validation"]) -> Path:
        """The file of a split that is not sealed."""
        return split_path(split, self.folder.data, None)

    def open_test(self) -> Path:
        """The sealed test split, compared with its hash. Only the final analyst may ask. Raises StorageError."""
        verify(self.splits, self.folder.data, self.folder.sealed)
        self.events.emit("note", "opening the sealed test")
        return split_path("test", self.folder.data, self.folder.sealed)

    def held_out(self) -> list[Fingerprints]:
        """Hashes of validation and test, with which training rows are compared."""
        return [read_record(self.folder.data / name, Fingerprints) for name in FINGERPRINTS.values()]

    def score(self, weights: Path, evaluations: Sequence[Evaluation], folder: Path) -> list[Score]:
        """Score `weights` on each evaluation; finished ones are found on disk. Score paths come back relative.

        A server that dies is started once more; dying twice raises ServerError, and a failed request raises
        EngineError: never an empty answer taken for a score.
        """
        try:
            scores = self._score(weights, evaluations, folder)
        except ServerError as error:
            self.events.emit("note", f"{error.message}; scoring again with a fresh server")
            scores = self._score(weights, evaluations, folder)
        for score in scores:
            says = (
                f"{score.split} {score.metric} {score.value:.3f} ± {score.stderr:.3f} (n={score.n}, {score.shots}-shot)"
            )
            self.events.emit("score", says, value=score.value, stderr=score.stderr)
        return scores

    def _score(self, weights: Path, evaluations: Sequence[Evaluation], folder: Path) -> list[Score]:
        pace = Pace()

        def progress(done: int, total: int) -> None:
            self.events.emit("progress", "scoring", done=done, total=total, seconds_left=pace.rest(done, total))

        scores = evaluate(
            self.scorer,
            self.server,
            self.benchmark,
            weights,
            evaluations,
            folder,
            on_progress=progress,
        )
        return [score.model_copy(update={"outcomes": self.folder.relative(Path(score.outcomes))}) for score in scores]

    def close(self) -> None:
        """End the engines that were kept warm."""
        self.scorer.close()
        self.server.close()
