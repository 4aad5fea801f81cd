"""The analyst measures: the untouched model, then each trial against the incumbent, and the sealed test at the end."""

import random
from pathlib import Path

from memory.layout import read_rows, write_record, write_rows
from memory.origin import read_origin
from memory.records import (
    Baseline,
    Comparison,
    ConstantAnswer,
    DatasetCard,
    Lesson,
    Outcome,
    Score,
    SealedTest,
    Trial,
)
from memory.state import Changes, State, ended, incumbent, plan_at_work, trial_seconds
from nodes.deps import SHOTS, Deps
from tools import handover, report
from tools.benchmarks.benchmark import Split
from tools.benchmarks.splits import read_items
from tools.data import TrainingRow
from tools.judgement import classify_errors, decide, expectation_met
from tools.scoring import Evaluation
from tools.statistics import constant_answer, item_means, paired

PROBE_ROWS = 50
"""Training rows scored beside validation: enough to tell 60 % from 90 %, and a quarter of the cost of validation."""

FEWEST_PROBED = 2
"""A single item has no error bar."""


def analyst(state: State, deps: Deps) -> Changes:
    """Do what the state calls for: baseline, judgement of the trial in progress, or the sealed test."""
    if state.get("baseline") is None:
        return measure_baseline(deps)
    if state.get("stop") is not None:
        return open_sealed_test(state, deps)
    return judge_trial(state, deps)


# --- baseline -----------------------------------------------------------------------------------------------------


def measure_baseline(deps: Deps) -> Changes:
    """Score the untouched model on validation, without and with worked examples."""
    zero, few = deps.score(
        deps.base_weights, prompts("validation", deps.items("validation"), deps), deps.folder.baseline
    )
    baseline = Baseline(
        model=deps.model, zero_shot=zero, few_shot=few, constant=constant(deps.items("validation"), deps)
    )
    deps.ledger.record_baseline(baseline)
    return {"baseline": baseline}


def prompts(split: Split, items: Path, deps: Deps) -> list[Evaluation]:
    """The two ways to ask an untouched model."""
    return [
        Evaluation(name="zero_shot", split=split, items=str(items)),
        Evaluation(name="few_shot", split=split, items=str(items), shots=SHOTS, examples=str(deps.items("train"))),
    ]


def constant(items: Path, deps: Deps) -> ConstantAnswer | None:
    """What one answer, always given, would get; None where answers are open."""
    if deps.benchmark.closed_answers is None:
        return None
    grade = deps.benchmark.grade
    return constant_answer(
        deps.benchmark.closed_answers, read_items(items), lambda answer, item: grade(answer, item).score
    )


# --- a trial ------------------------------------------------------------------------------------------------------


def judge_trial(state: State, deps: Deps) -> Changes:
    """Score the trial, compare it item by item with the incumbent, and let the arithmetic decide."""
    plan, dataset, training = plan_at_work(state), state.get("dataset"), state.get("training")
    assert dataset is not None and training is not None, "the analyst comes after the trainer"
    folder = deps.folder.trial(plan.number)
    evaluations = [Evaluation(name="validation", split="validation", items=str(deps.items("validation")))]
    if (trained := probe(dataset, folder, deps)) is not None:
        evaluations.append(Evaluation(name="probe", split="train", items=str(trained)))
    score, *rest = deps.score(deps.folder.resolve(training.weights), evaluations, folder / "eval")
    rival, against = champion(state)
    comparison = compare(score, rival, against, deps)
    baseline = state.get("baseline")
    decision, arithmetic = decide(score, comparison, baseline.constant if baseline else None)
    trial = Trial(
        plan=plan,
        decision=decision,
        arithmetic=arithmetic,
        dataset=dataset,
        verdict=state.get("verdict"),
        training=training,
        score=score,
        train_score=rest[0] if rest else None,
        comparison=comparison,
        errors=classify_errors(outcomes(score, deps), deps.benchmark.closed_answers),
        expectation_met=expectation_met(plan, comparison),
        seconds=trial_seconds(state) + deps.node_seconds(),
    )
    write_record(folder / "verdict.json", trial)
    deps.events.emit("decision", f"trial {plan.number} {decision}: {arithmetic}")
    return ended(trial) | {"lessons": [lesson(trial)]}


def champion(state: State) -> tuple[Score, str]:
    """The score that a trial has to beat, and its name: the incumbent's, or the better prompt of the base model."""
    best, baseline = incumbent(state), state.get("baseline")
    if best is not None and best.score is not None:
        return best.score, f"trial {best.number}"
    assert baseline is not None, "the baseline comes first"
    return baseline.better, "base few-shot" if baseline.better.shots else "base zero-shot"


def compare(ours: Score, theirs: Score, against: str, deps: Deps) -> Comparison:
    """Paired comparison of two scores over the same items."""
    return paired(
        means(ours, deps), means(theirs, deps), against=against, higher_is_better=deps.benchmark.higher_is_better
    )


def means(score: Score, deps: Deps) -> dict[str, float]:
    """Mean score of each item over its samples, by id."""
    return item_means((outcome.id, outcome.score) for outcome in outcomes(score, deps))


def outcomes(score: Score, deps: Deps) -> list[Outcome]:
    """The per-sample outcomes behind a score."""
    return list(read_rows(deps.folder.resolve(score.outcomes), Outcome))


def probe(dataset: DatasetCard, folder: Path, deps: Deps) -> Path | None:
    """Benchmark items among the rows that were trained on, as a file to score; the same ones at every call.

    None where there are too few of them for an error bar, as in a file made of other sources.
    """
    trained = {row.id for row in read_rows(deps.folder.resolve(dataset.path), TrainingRow)}
    items = [item for item in read_items(deps.items("train")) if item.id in trained]
    if len(items) < FEWEST_PROBED:
        return None
    path = folder / "probe.jsonl"
    write_rows(path, random.Random(0).sample(items, min(PROBE_ROWS, len(items))))
    return path


def lesson(trial: Trial) -> Lesson:
    """What the trial taught, in one sentence with its figures."""
    change = trial.plan.change
    what = f"{change.factor} {change.before} -> {change.after}" if change else "the starting recipe"
    comparison = trial.comparison
    assert comparison is not None, "a judged trial was compared"
    verdict = {"accepted": "helped", "rejected": "hurt"}.get(
        trial.decision, "made no difference that can be told from noise"
    )
    return Lesson(
        text=f"{what} {verdict}",
        trials=(trial.number,) if trial.plan.parent is None else (trial.plan.parent, trial.number),
        evidence=f"{comparison.difference:+.3f} [{comparison.ci_low:+.3f}, {comparison.ci_high:+.3f}] against "
        f"{comparison.against}, n={comparison.n}, p={comparison.p_value:.2g}",
    )


# --- the end ------------------------------------------------------------------------------------------------------


def open_sealed_test(state: State, deps: Deps) -> Changes:
    """Open the sealed test: the base model with both prompts, then the incumbent. Writes the report and the model."""
    items = deps.open_test()
    zero, few = deps.score(deps.base_weights, prompts("test", items, deps), deps.folder.test / "base")
    best, tuned = incumbent(state), None
    if best is not None and best.training is not None:
        evaluation = Evaluation(name="tuned", split="test", items=str(items))
        (tuned,) = deps.score(deps.folder.resolve(best.training.weights), [evaluation], deps.folder.test / "tuned")
    test = SealedTest(
        zero_shot=zero,
        few_shot=few,
        tuned=tuned,
        incumbent=best.number if best else None,
        against_zero=compare(tuned, zero, "base zero-shot", deps) if tuned else None,
        against_few=compare(tuned, few, "base few-shot", deps) if tuned else None,
        constant=constant(items, deps),
    )
    deps.ledger.record_test(test)
    closed: State = {**state, "test": test}
    write_up(closed, deps, state.get("spent_seconds", 0.0) + deps.node_seconds())
    return {"test": test}


def origin_of(deps: Deps) -> str | None:
    """The run and checkpoint that this run was forked from; its sealed test is then a second look at the same items."""
    origin = read_origin(deps.folder)
    return str(origin) if origin else None


def write_up(state: State, deps: Deps, seconds: float) -> None:
    """Write the report, and hand the winning model over with its card."""
    best, test, baseline = incumbent(state), state.get("test"), state.get("baseline")
    assert test is not None and baseline is not None, "the report comes last"
    model = deps.folder.model if best else deps.base_weights
    splits: dict[str, str] = {split: entry.sha256 for split, entry in deps.splits.splits.items()}
    written = report.RunReport(
        run_id=deps.folder.id,
        task=state["task"],
        baseline=baseline,
        trials=tuple(state.get("trials", [])),
        lessons=tuple(state.get("lessons", [])),
        test=test,
        decision=report.judge(test, state.get("stop") or ""),
        budget=report.spent(state, seconds, deps.server.starts),
        lineage=report.lineage(state, splits, dict(deps.locks), forked_from=origin_of(deps)),
        serve=handover.serve_command(deps.engines.vllm.python, model, deps.device),
    )
    handover.write_report(deps.folder, written)
    if best is not None:
        handover.hand_over_model(deps.folder, best, written)
