"""How the analyst measures: prompts, probes, paired comparisons, guards. Each figure comes from outcomes on disk."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from memory.layout import read_rows, write_rows
from memory.lineage import same_recipe
from memory.records import (
    Attribution,
    Baseline,
    Comparison,
    ConstantAnswer,
    DatasetCard,
    GuardScore,
    Outcome,
    Plan,
    Score,
    TrainingRun,
    Trial,
)
from memory.state import State, incumbent
from nodes.deps import SHOTS, Deps
from tools.benchmarks.benchmark import Benchmark, Item, Split
from tools.benchmarks.measures import value_of
from tools.benchmarks.splits import Sizes, read_items, split_path, write_splits
from tools.causes.attribution import attributed
from tools.causes.blame import blame
from tools.causes.signs import Case, kind_of
from tools.data import TrainingRow
from tools.estimates import compared_files, written
from tools.judgement import better
from tools.lengths import shots_that_fit
from tools.operators.rows import item_id
from tools.proposers.llm import patience
from tools.scoring import Evaluation
from tools.statistics import FEWEST_ITEMS, constant_answer
from tools.training.engine import forget_snapshots

PROBE_ROWS = 50
"""Training rows scored beside validation: enough to tell 60 % from 90 %, and a quarter of the cost of validation."""
GUARD_SIZES = Sizes(train=50, validation=200, test=2)
"""Items of a guard: worked examples, and what is scored; its test is never opened."""


def prompts(split: Split, items: Path, examples: Path, benchmark: Benchmark) -> list[Evaluation]:
    """The two ways to ask an untouched model: without worked examples, and with as many as fit, SHOTS at most."""
    first = list(islice(read_rows(examples, Item), SHOTS))
    shots = shots_that_fit(SHOTS, read_items(items), first, benchmark.max_new_tokens, benchmark.window)
    return [
        Evaluation(name="zero_shot", split=split, items=str(items)),
        Evaluation(name="few_shot", split=split, items=str(items), shots=shots, examples=str(examples)),
    ]


def constant(items: Path, benchmark: Benchmark) -> ConstantAnswer | None:
    """What one answer, always given, would get; None where answers are open."""
    if benchmark.closed_answers is None:
        return None
    asked = read_items(items)

    def score(answer: str) -> float:
        value = value_of(benchmark.measure, [benchmark.outcome(item, answer) for item in asked])
        assert value is not None, "a benchmark with closed answers scores them all"
        return value

    return constant_answer(benchmark.closed_answers, len(asked), score, 1.0 if benchmark.higher_is_better else -1.0)


# --- a trial --------------------------------------------------------------------------------------------------------


def score_trial(
    plan: Plan, dataset: DatasetCard, training: TrainingRun, deps: Deps
) -> tuple[TrainingRun, Score, Score | None]:
    """The trial's weights, their score on validation, and their score on some of the rows that they were trained on.

    Where snapshots were kept, the weights are the best of them and the end by the benchmark's metric, not by the loss;
    of equals, the earlier. The other snapshots are removed.
    """
    folder = deps.folder.trial(plan.number)
    validation = deps.validation()
    trained = probe(dataset, folder, deps)
    probes = [Evaluation(name="probe", split="train", items=str(trained))] if trained else []
    if not training.snapshots:
        score, *rest = deps.score(deps.folder.resolve(training.weights), [validation, *probes], folder / "eval")
        return training, score, rest[0] if rest else None
    (end,) = deps.score(deps.folder.resolve(training.weights), [validation], folder / "eval")
    scores = [*(snapshot.score for snapshot in training.snapshots if snapshot.score), end]
    score = better(*scores)
    chosen = next((snapshot for snapshot in training.snapshots if snapshot.score is score), None)
    if chosen is not None:
        training = training.at(chosen)
        deps.events.emit("note", f"the weights after step {chosen.step} score best of {len(scores)}")
    forget_snapshots(folder / "train", deps.folder.resolve(training.weights))
    found = deps.score(deps.folder.resolve(training.weights), probes, folder / "eval" / "probe") if probes else [None]
    return training, score, found[0]


def probe(dataset: DatasetCard, folder: Path, deps: Deps) -> Path | None:
    """Benchmark items among the rows that were trained on, as a file to score; the same ones at every call.

    None where there are too few of them for an error bar, as in a file made of other sources.
    """
    trained = {item_id(row.id) for row in read_rows(deps.folder.resolve(dataset.path), TrainingRow)}
    items = [item for item in read_items(deps.items("train")) if item.id in trained]
    if len(items) < FEWEST_ITEMS:
        return None
    path = folder / "probe.jsonl"
    write_rows(path, random.Random(0).sample(items, min(PROBE_ROWS, len(items))))
    return path


def of_change(plan: Plan, score: Score, comparison: Comparison, state: State, deps: Deps) -> Comparison:
    """What a plan's change did: the trial against the one that it grew from. `comparison`, the one with the incumbent,
    where that is the same, where the parent has no score, and where a recipe was only repeated."""
    parent = next((trial for trial in state.get("trials", []) if trial.number == plan.parent), None)
    if parent is None or parent.score is None or plan.repeats or comparison.against == f"trial {parent.number}":
        return comparison
    return compare([score], [parent.score], f"trial {parent.number}", deps)


def champion(state: State) -> tuple[tuple[Score, ...], str]:
    """What a trial has to beat, and its name: the incumbent over all its seeds, or the base model's better prompt."""
    best, baseline = incumbent(state), state.get("baseline")
    if best is not None and best.score is not None:
        others = repeated(best.plan, state.get("trials", []))
        return (best.score, *others), f"trial {best.number}" + (f" over {1 + len(others)} seeds" if others else "")
    assert baseline is not None, "the baseline comes first"
    return (baseline.better,), "base few-shot" if baseline.better.shots else "base zero-shot"


def repeated(plan: Plan, trials: Sequence[Trial]) -> tuple[Score, ...]:
    """Scores of the other trials that ran this plan's recipe, under other seeds."""
    return tuple(trial.score for trial in same_recipe(plan, trials) if trial.score and trial.number != plan.number)


def compare(
    ours: Iterable[Score], theirs: Iterable[Score], against: str, deps: Deps, benchmark: Benchmark | None = None
) -> Comparison:
    """Paired comparison over the same items by the benchmark's measure, the run's own benchmark where none is given;
    several scores of one recipe count by their mean."""
    left, right = (tuple(written(deps.folder.resolve(score.outcomes)) for score in side) for side in (ours, theirs))
    return compared_files((benchmark or deps.benchmark).measure, left, right, against)


def outcomes(score: Score, deps: Deps) -> list[Outcome]:
    """The per-sample outcomes behind a score."""
    return list(read_rows(deps.folder.resolve(score.outcomes), Outcome))


def blamed(trial: Trial, found: Sequence[Outcome], seconds_left: float, deps: Deps) -> Trial:
    """The trial with what is to blame for its wrong outputs, and what a language model reads in them where there is
    one."""
    score, dataset, closed = trial.score, trial.dataset, deps.benchmark.closed_answers
    assert score is not None and dataset is not None, "a trial that was scored"
    items = {item.id: item for item in read_items(deps.items("train"))}
    trained = read_rows(deps.folder.resolve(dataset.path), TrainingRow)
    own = (items[item_id(row.id)] for row in trained if item_id(row.id) in items)
    rows = Counter(kind_of(item.answer, item.subset, closed) for item in own)
    told = blame(Case(trial, score, outcomes=found, closed_answers=closed, rows=rows))
    if deps.read_outputs is not None:
        told = told.model_copy(update={"reading": deps.read_outputs(trial.number, found, patience(seconds_left))})
    deps.events.emit("note", f"trial {trial.number}, still wrong: {told.says}")
    return trial.model_copy(update={"blame": told})


def attribution(state: State, deps: Deps) -> Attribution:
    """What each change of the run did, and how good the plans' expectations were."""
    baseline = state.get("baseline")
    assert baseline is not None, "the baseline comes first"
    return attributed(state.get("trials", []), baseline, partial(compare, deps=deps))


# --- guards ---------------------------------------------------------------------------------------------------------


def guards_before(deps: Deps) -> tuple[GuardScore, ...]:
    """The untouched model on every guard, in the prompt that suits it better."""
    found = []
    for guard in deps.guards:
        folder = deps.folder.guard(guard.name)
        write_splits(guard, folder / "data", folder / "sealed", GUARD_SIZES, deps.splits.seed)
        items, examples = (split_path(split, folder / "data", None) for split in ("validation", "train"))
        scores = deps.score(deps.base_weights, prompts("validation", items, examples, guard), folder / "base", guard)
        found.append(GuardScore(benchmark=guard.name, score=better(*scores)))
    return tuple(found)


def guards_after(baseline: Baseline, training: TrainingRun, number: int, deps: Deps) -> tuple[GuardScore, ...]:
    """A trial's weights on every guard, in the same prompt as the untouched model, and compared with it."""
    found = []
    for guard, before in zip(deps.guards, baseline.guards, strict=True):
        data = deps.folder.guard(guard.name) / "data"
        items, examples = (split_path(split, data, None) for split in ("validation", "train"))
        asked = next(one for one in prompts("validation", items, examples, guard) if one.shots == before.score.shots)
        folder = deps.folder.trial(number) / "guards" / guard.name
        (score,) = deps.score(deps.folder.resolve(training.weights), [asked], folder, guard)
        comparison = compare([score], [before.score], "the base model", deps, guard)
        found.append(GuardScore(benchmark=guard.name, score=score, comparison=comparison))
    return tuple(found)
