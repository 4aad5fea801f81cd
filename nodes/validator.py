"""The validator measures whether a trial can succeed before it is paid for: cheap checks first, the micro-run last."""

from __future__ import annotations

from memory.errors import TrialError
from memory.layout import write_record
from memory.records import Check, DatasetCard, Plan
from memory.state import Changes, State, failed, plan_at_work, seconds_left
from nodes.deps import Deps
from tools.proposers.brief import SNAPSHOT_SECONDS
from tools.training.checks import Finding, data_findings, engine_findings, memory_finding, time_finding, verdict_of
from tools.training.engine import MICRO_STEPS, Preflight, preflight
from tools.training.pace import known_pace
from tools.training.start import Start, start_of

PREFLIGHT_SECONDS = 600.0
SWEEP_STEPS = 24
"""Learning rates that a sweep tries: 10 s on two idle cores (SmolLM2-135M, batch 4, rows of 75 tokens)."""
SWEEP_SHARE = 0.03
"""A sweep may cost this share of the time that is left."""


def validator(state: State, deps: Deps) -> Changes:
    """Check training file and recipe. The first check that fails closes the trial; its figures stay on record."""
    plan, dataset = plan_at_work(state), state.get("dataset")
    assert dataset is not None, "the validator comes after the data engineer"
    done: list[Check] = []
    measured: Preflight | None = None
    failure: TrialError | None = None
    try:
        path = deps.folder.resolve(dataset.path)
        for found in data_findings(path, plan.training, deps.benchmark, deps.folder.data):
            note(done, found, deps)
        free = deps.free_memory()
        note(done, memory_finding(plan.training, deps.model, path, deps.benchmark, deps.device, free), deps)
        measured = check_training(done, plan, dataset, state, deps)
        check_time(done, plan, measured, state, deps)
    except TrialError as error:
        failure = error
    verdict = verdict_of(done, plan.training, measured, deps.model, deps.device)
    write_record(deps.folder.trial(plan.number) / "checks.json", verdict)
    if failure is not None:
        deps.events.emit("decision", f"trial {plan.number} refused: {failure.kind}: {failure}")
        return failed(state, failure.failure("validator"), deps.node_seconds(), verdict)
    return {"verdict": verdict}


def note(done: list[Check], found: Finding, deps: Deps) -> None:
    """Put a check on record. Raises TrialError of its kind where it did not pass."""
    done.append(found.check)
    says = f"{'ok' if found.check.passed else 'FAILED'} {found.check.name}: {found.check.says}"
    deps.events.emit("check", says, value=found.check.figure)
    if not found.check.passed:
        raise found.error


def check_training(done: list[Check], plan: Plan, dataset: DatasetCard, state: State, deps: Deps) -> Preflight:
    """What only the engine can tell: configuration, tokens, template parity, pace. Costs one engine start."""
    start = start_of(plan.training, state.get("trials", []), deps.folder)
    deps.server.sleep()
    measured = measure(plan, dataset, state, start, deps)
    for found in engine_findings(measured, plan.training, deps.folder.resolve(dataset.path), deps.server.tokenize):
        note(done, found, deps)
    if measured.sweep:
        note(done, Finding(sweep_check(measured, plan), "DIVERGED"), deps)
    return measured


def measure(plan: Plan, dataset: DatasetCard, state: State, start: Start | None, deps: Deps) -> Preflight:
    """The preflight: with a micro-run, unless an earlier trial has shown the pace; with a sweep of the learning rate
    where the run has none yet and it is cheap."""
    trials, left = state.get("trials", []), seconds_left(state)
    pace = known_pace(plan.training, trials)
    swept = any(trial.verdict and trial.verdict.sweep for trial in trials)

    def ask(steps: int) -> Preflight:
        return preflight(
            deps.axolotl,
            plan.training,
            deps.model,
            deps.folder.resolve(dataset.path),
            deps.folder.trial(plan.number) / "preflight",
            device=deps.device,
            start=start,
            rewards=deps.rewards(),
            steps=steps,
            sweep_steps=0 if swept or plan.training.objective != "sft" else SWEEP_STEPS,
            sweep_seconds=SWEEP_SHARE * left,
            timeout_s=min(left, PREFLIGHT_SECONDS),
        )

    if pace is not None:
        tokenised = ask(steps=0)
        if pace.applies_to(tokenised):
            return pace.predict(tokenised, plan.training)
    return ask(MICRO_STEPS)


def sweep_check(measured: Preflight, plan: Plan) -> Check:
    """What the sweep says of the recipe's learning rate. It only informs: a short sweep reads high."""
    limit, rate = measured.diverges_at or measured.sweep[-1].rate, plan.training.learning_rate
    says = f"the loss leaves its best at {limit:.1e}" if measured.diverges_at else f"the loss holds up to {limit:.1e}"
    says += f" in {len(measured.sweep)} steps of a rising rate; the recipe's {rate:.1e} is {rate / limit:.0%} of that"
    return Check(name="learning rate", figure=limit, unit="learning rate", passed=True, says=says)


def check_time(done: list[Check], plan: Plan, measured: Preflight, state: State, deps: Deps) -> None:
    """The training fits into what is left when its scores and the sealed test have their share."""
    baseline = state.get("baseline")
    assert baseline is not None, "the baseline comes first"
    kept = deps.reserve_seconds(baseline) + baseline.zero_shot.seconds
    kept += plan.training.snapshots * (baseline.zero_shot.seconds + SNAPSHOT_SECONDS)
    left = seconds_left(state) - deps.node_seconds() - kept
    note(done, time_finding(measured, left), deps)
