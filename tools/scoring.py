"""Scores: lighteval asks the server, and the per-item outcomes become a value with its error bar.

All evaluations of one call are measured on the same weights by one engine process. A finished one is found again by the
hash of what decides it (weights, items, examples, settings of the benchmark), also where the run's folder was moved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Literal

from memory.errors import EngineError, InputError, ServerError
from memory.layout import made, read_rows, sha256_of
from memory.records import Outcome, OwnTask, Record, Score, Subset
from tools import statistics, weights_proof
from tools.benchmarks.benchmark import Benchmark
from tools.benchmarks.measures import value_of
from tools.engines import contract, worker_io
from tools.engines.contract import Engine, Progress
from tools.estimates import estimated, reported
from tools.serving import AGAIN, SERVED_NAME, Server
from tools.warm_engine import WarmEngine

OnProgress = Callable[[int, int], None]
"""Told samples done and samples in all."""
LONGEST_SECONDS = 24 * 3600.0
"""A limit for what hangs; the run's budget ends an evaluation long before, through `on_progress`."""


class Evaluation(Record):
    """Items to be scored, and how they are asked."""

    name: str
    """Unique in one call; the evaluation's folder is called so."""
    split: Literal["train", "validation", "test"]
    items: str
    """Absolute path of a JSONL file of `Item`."""
    shots: int = 0
    """Worked examples in the prompt: the first of `examples`."""
    examples: str | None = None
    """Absolute path of a JSONL file of `Item`; wanted where `shots` is not 0."""
    limit: int | None = None
    """Only the first items of the file; None takes all."""


class Wanted(Record):
    """An evaluation by content."""

    name: str
    items_sha256: str
    shots: int
    examples_sha256: str | None
    limit: int | None


class ScoreRequest(Record):
    """What decides the outcomes; the lighteval worker reads it."""

    benchmark: str
    own: OwnTask | None = None
    """The person's own task of that name; None for a benchmark of the table."""
    weights_sha256: str
    served_name: str
    max_new_tokens: int
    temperature: float
    samples: int
    seed: int
    evaluations: tuple[Wanted, ...]


class Measured(Record):
    """What the worker says of one evaluation; the outcomes lie in its folder."""

    name: str
    value: float
    """Mean score of the items, as lighteval aggregates it."""
    n: int
    outcomes_sha256: str
    seconds: float
    generation_seconds: float


class ScoreResult(Record):
    """What the worker answers."""

    evaluations: tuple[Measured, ...]


def evaluate(
    engine: Engine | WarmEngine,
    server: Server,
    benchmark: Benchmark,
    weights: Path,
    evaluations: Sequence[Evaluation],
    folder: Path,
    *,
    weights_sha256: str | None = None,
    timeout_s: float = LONGEST_SECONDS,
    on_progress: OnProgress | None = None,
    seed: int = 0,
) -> list[Score]:
    """Score the weights in a folder: one Score for each evaluation, its outcomes at FOLDER/NAME/outcomes.jsonl.

    The weights are loaded into the server, which is started where it is not up; neither happens where the scores are
    there already. `weights_sha256` is their hash where it is known; it is computed otherwise. `timeout_s` limits the
    engine, not the server's start. Paths are absolute. Raises ServerError where the server fails or dies (the
    evaluation is void), EngineError where lighteval does, InputError for evaluations that make no sense.
    """
    folder = folder.resolve()
    request = _request(benchmark, evaluations, weights_sha256 or weights_proof.content_sha256(weights), seed)
    if not _intact(request, folder):
        (folder / worker_io.RESULT).unlink(missing_ok=True)
        if isinstance(engine, WarmEngine):
            engine.warm_up()  # its imports run while the server starts
        server.load(weights)
        files = {wanted.name: {"items": wanted.items, "examples": wanted.examples} for wanted in evaluations}
        worker_io.write_json(made(folder) / "inputs.json", {"socket": str(server.socket), "files": files})
    result = _call(engine, server, request, folder, timeout_s, on_progress)
    by_name = {measured.name: measured for measured in result.evaluations}
    return [_score(benchmark, wanted, by_name[wanted.name], folder / wanted.name) for wanted in evaluations]


def _request(benchmark: Benchmark, evaluations: Sequence[Evaluation], weights_sha256: str, seed: int) -> ScoreRequest:
    if len({wanted.name for wanted in evaluations}) != len(evaluations):
        raise InputError(f"evaluations share a name: {', '.join(wanted.name for wanted in evaluations)}")
    if any(wanted.shots and wanted.examples is None for wanted in evaluations):
        raise InputError("a few-shot evaluation was asked for without a file of examples")
    return ScoreRequest(
        benchmark=benchmark.name,
        own=benchmark.own,
        weights_sha256=weights_sha256,
        served_name=SERVED_NAME,
        max_new_tokens=benchmark.max_new_tokens,
        temperature=benchmark.temperature,
        samples=benchmark.samples,
        seed=seed,
        evaluations=tuple(
            Wanted(
                name=wanted.name,
                items_sha256=sha256_of(Path(wanted.items)),
                shots=wanted.shots,
                examples_sha256=sha256_of(Path(wanted.examples)) if wanted.shots and wanted.examples else None,
                limit=wanted.limit,
            )
            for wanted in evaluations
        ),
    )


def _intact(request: ScoreRequest, folder: Path) -> bool:
    """Whether the result of this request lies there, outcomes included."""
    earlier = contract.finished(request, ScoreResult, folder)
    return earlier is not None and all(_has_outcomes(folder, measured) for measured in earlier.evaluations)


def _has_outcomes(folder: Path, measured: Measured) -> bool:
    path = folder / measured.name / "outcomes.jsonl"
    return path.exists() and sha256_of(path) == measured.outcomes_sha256


def _call(
    engine: Engine | WarmEngine,
    server: Server,
    request: ScoreRequest,
    folder: Path,
    timeout_s: float,
    on_progress: OnProgress | None,
) -> ScoreResult:
    def progress(fields: Progress) -> None:
        done, total = fields.get("done"), fields.get("total")
        if on_progress is not None and isinstance(done, int) and isinstance(total, int):
            on_progress(done, total)

    try:
        return engine.call(request, ScoreResult, folder, timeout_s=timeout_s, on_progress=progress)
    except EngineError as error:
        if server.alive():
            raise
        raise ServerError(f"the vLLM server died during an evaluation ({error.message})", AGAIN) from error


def _score(benchmark: Benchmark, wanted: Evaluation, measured: Measured, folder: Path) -> Score:
    path = folder / "outcomes.jsonl"
    outcomes = list(read_rows(path, Outcome))
    means = statistics.item_means((outcome.id, outcome.score) for outcome in outcomes)
    mean = fmean(means.values()) if means else 0.0
    complete = len(outcomes) == measured.n * benchmark.samples and len(means) == measured.n
    if not complete or abs(mean - measured.value) > 1e-9:
        what = f"lighteval says {measured.value} on {measured.n} items, its outcomes {mean} on {len(means)}"
        raise EngineError("ENV", what, f"Remove {folder} and score again")
    return score_of(benchmark, outcomes, wanted.split, wanted.shots).model_copy(
        update={
            "outcomes": str(path),
            "seconds": measured.seconds,
            "generation_seconds": measured.generation_seconds,
        }
    )


def score_of(
    benchmark: Benchmark,
    outcomes: Sequence[Outcome],
    split: Literal["train", "validation", "test"],
    shots: int,
) -> Score:
    """What outcomes come to, with error bars. Raises InputError where fewer than two items count."""
    estimate = estimated(benchmark.measure, outcomes)
    others, unmeasured = reported(benchmark.others, outcomes)
    return Score(
        metric=benchmark.metric,
        higher_is_better=benchmark.higher_is_better,
        split=split,
        shots=shots,
        value=estimate.value,
        n=estimate.n,
        stderr=estimate.stderr,
        ci_low=estimate.low,
        ci_high=estimate.high,
        parsed=len({outcome.id for outcome in outcomes if outcome.answer is not None}),
        truncated=len({outcome.id for outcome in outcomes if outcome.finish == "length"}),
        samples=benchmark.samples,
        subsets=_subsets(benchmark, outcomes),
        others=others,
        unmeasured=unmeasured,
        outcomes="",
        seconds=0.0,
    )


def _subsets(benchmark: Benchmark, outcomes: Sequence[Outcome]) -> dict[str, Subset]:
    """The score of each part of which it says something, in the order of their names; none where no item names its
    part."""
    members: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        if outcome.subset:
            members.setdefault(outcome.subset, []).append(outcome)
    values = {name: value_of(benchmark.measure, own) for name, own in sorted(members.items())}
    return {
        name: Subset(value=value, n=len({outcome.id for outcome in members[name]}))
        for name, value in values.items()
        if value is not None
    }
