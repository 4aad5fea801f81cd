"""What every node is handed: the run's folder, its engines, its ledger and its one warm server."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from memory.errors import ServerError, TrialError
from memory.events import Events
from memory.layout import RunFolder, made, read_rows, write_rows
from memory.ledger import Ledger
from memory.records import Baseline, BaseModelCard, NodeName, Outcome, Plan, Reading, Score, Trial
from tools.benchmarks.benchmark import Benchmark, Item
from tools.benchmarks.splits import Manifest, read_held_out, read_items, split_path, verify
from tools.cluster.placed_engine import PlacedEngine
from tools.decontamination import Fingerprints
from tools.engines.contract import Engine
from tools.estimates import ITEM_SCORE
from tools.machine import free_memory
from tools.operators.writers import Writers
from tools.proposers.brief import Brief, Stop
from tools.scoring import Evaluation, evaluate
from tools.serving import Server
from tools.training.engine import Axolotl
from tools.training.rewards import Rewards
from tools.warm_engine import WarmEngine
from tools.weights_proof import content_sha256

SHOTS = 5
"""Worked examples of the few-shot baseline; the first rows of the training split."""
REPORT_SECONDS = 15.0
"""Weight swaps, report and model card at the end of a run."""


Propose = Callable[[Brief], Plan | Stop]
"""A proposer: the same brief always gets the same answer."""
ReadOutputs = Callable[[int, Sequence[Outcome], float], Reading | None]
"""Reads the wrong ones among a trial's outputs, within some seconds; None where that failed, which was said."""


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
    axolotl: Axolotl
    """Axolotl, kept warm on a CPU for the same reason, or placed on a cluster."""
    propose: Propose
    """Who plans."""
    writers: Writers | None = None
    """The language models that write and judge rows; None where search plans."""
    guards: tuple[Benchmark, ...] = ()
    """Benchmarks that must not become worse."""
    read_outputs: ReadOutputs | None = None
    """A language model that the person named for it; None where they named none."""
    _node_began: float = 0.0

    def begin(self, node: NodeName, trial: int | None) -> None:
        """Note which node is at work, and since when."""
        self._node_began = time.monotonic()
        self.events.node, self.events.trial = node, trial
        self.events.emit("node", f"{node} at work", phase="start")

    def warm_up(self) -> None:
        """Let Axolotl import while something else is done."""
        if isinstance(self.axolotl, WarmEngine):
            self.axolotl.warm_up()

    def free_memory(self) -> int:
        """Bytes that a training can take, where it will run. Raises TrialError (ENV), SetupError."""
        if isinstance(self.axolotl, PlacedEngine):
            return self.axolotl.free_memory()
        return free_memory(self.device)

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

    def held_out(self) -> list[Fingerprints]:
        """Hashes of validation and test, with which training rows are compared."""
        return read_held_out(self.folder.data)

    def items(self, split: Literal["train", "validation"]) -> Path:
        """The file of a split that is not sealed."""
        return split_path(split, self.folder.data, None)

    def rewards(self) -> Rewards:
        """The run's own scorer over its training items, for a training that learns from scores."""
        return Rewards(self.benchmark, {item.id: item for item in read_items(self.items("train"))})

    def open_test(self) -> Path:
        """The sealed test split, compared with its hash. Only the final analyst may ask. Raises StorageError."""
        verify(self.splits, self.folder.data, self.folder.sealed)
        self.events.emit("note", "opening the sealed test")
        return split_path("test", self.folder.data, self.folder.sealed)

    def score(
        self, weights: Path, evaluations: Sequence[Evaluation], folder: Path, benchmark: Benchmark | None = None
    ) -> list[Score]:
        """Score `weights` on each evaluation; finished ones are found on disk. Score paths come back relative.

        `benchmark` is the run's own where none is given. A server that dies is started once more; dying twice raises
        ServerError, and a failed request raises EngineError: never an empty answer taken for a score.
        """
        benchmark = benchmark or self.benchmark
        try:
            scores = self._score(weights, evaluations, folder, benchmark)
        except ServerError as error:
            self.events.emit("note", f"{error.message}; scoring again with a fresh server")
            scores = self._score(weights, evaluations, folder, benchmark)
        name = "" if benchmark.name == self.benchmark.name else f"{benchmark.name} "
        for score in scores:
            figure = f"{score.metric} {score.value:.3f} ± {score.stderr:.3f}"
            says = f"{name}{score.split} {figure} (n={score.n}, {score.shots}-shot)"
            self.events.emit("score", says, value=score.value, stderr=score.stderr)
        return scores

    def validation(self) -> Evaluation:
        """Validation, without worked examples: how every trial is asked."""
        return Evaluation(name="validation", split="validation", items=str(self.items("validation")))

    def score_snapshot(self, plan: Plan, step: int, weights: Path) -> Score:
        """A training in progress, on validation: its weights after optimiser step `step`."""
        (score,) = self.score(weights, [self.validation()], self.folder.trial(plan.number) / "eval" / f"step-{step}")
        return score

    def sample(
        self, trials: Sequence[Trial], number: int | None, items: Sequence[Item], samples: int, temperature: float
    ) -> list[Outcome]:
        """Several graded outputs to each item, by the base model or the trial `number`. Raises TrialError CONFIG."""
        weights = self.base_weights if number is None else self.weights_of(trials, number)
        # The outcomes are wanted, and no figures over all of them.
        asked = replace(self.benchmark, samples=samples, temperature=temperature, measure=ITEM_SCORE, others=())
        parts = [content_sha256(weights), f"{samples} {temperature}", *(item.model_dump_json() for item in items)]
        content = "\n".join(parts)
        folder = made(self.folder.samples / hashlib.sha256(content.encode()).hexdigest()[:16])
        write_rows(folder / "items.jsonl", items)
        evaluation = Evaluation(name="outputs", split="train", items=str(folder / "items.jsonl"))
        (score,) = self.score(weights, [evaluation], folder, asked)
        return list(read_rows(self.folder.resolve(score.outcomes), Outcome))

    def weights_of(self, trials: Sequence[Trial], number: int) -> Path:
        """Whole weights of a trial that was trained. Raises TrialError CONFIG where there is none of that number."""
        trained = {trial.number: trial.training for trial in trials if trial.training}
        if number not in trained:
            raise TrialError("CONFIG", f"trial {number} has no weights", "Name a trial that was trained.")
        return self.folder.resolve(trained[number].weights)

    def _score(
        self, weights: Path, evaluations: Sequence[Evaluation], folder: Path, benchmark: Benchmark
    ) -> list[Score]:
        pace = Pace()

        def progress(done: int, total: int) -> None:
            self.events.emit("progress", "scoring", done=done, total=total, seconds_left=pace.rest(done, total))

        scores = evaluate(
            self.scorer,
            self.server,
            benchmark,
            weights,
            evaluations,
            folder,
            on_progress=progress,
        )
        return [score.model_copy(update={"outcomes": self.folder.relative(Path(score.outcomes))}) for score in scores]

    def close(self) -> None:
        """End the engines that were kept warm."""
        if not isinstance(self.axolotl, Engine):
            self.axolotl.close()
        self.scorer.close()
        self.server.close()
