"""The analyst measures: the untouched model, then each trial against the incumbent, and the sealed test at the end."""

from memory.layout import read_record, write_record
from memory.lineage import rose
from memory.origin import read_origin
from memory.records import Baseline, GuardScore, Research, SealedTest, Trial
from memory.state import Changes, State, ended, plan_at_work, seconds_left, trial_seconds, winner
from nodes.deps import Deps
from nodes.measurement import (
    attribution,
    blamed,
    champion,
    compare,
    constant,
    guards_after,
    guards_before,
    of_change,
    outcomes,
    prompts,
    repeated,
    score_trial,
)
from tools import report
from tools.benchmarks.splits import read_findings
from tools.handover.folder import hand_over_model, serve_command, write_report
from tools.judgement import classify_errors, decide, expectation_met, guarded
from tools.lessons import distilled, taught
from tools.llm.meter import all_calls, uses
from tools.scoring import Evaluation


def analyst(state: State, deps: Deps) -> Changes:
    """Do what the state calls for: baseline, judgement of the trial in progress, or the sealed test."""
    if state.get("baseline") is None:
        return measure_baseline(deps)
    if state.get("stop") is not None:
        return open_sealed_test(state, deps)
    return judge_trial(state, deps)


# --- baseline -----------------------------------------------------------------------------------------------------


def measure_baseline(deps: Deps) -> Changes:
    """Score the untouched model on validation, without and with worked examples, and on the guards."""
    items = deps.items("validation")
    zero, few = deps.score(
        deps.base_weights, prompts("validation", items, deps.items("train"), deps.benchmark), deps.folder.baseline
    )
    baseline = Baseline(
        model=deps.model,
        zero_shot=zero,
        few_shot=few,
        constant=constant(items, deps.benchmark),
        guards=guards_before(deps),
    )
    deps.ledger.record_baseline(baseline)
    return {"baseline": baseline}


# --- a trial ------------------------------------------------------------------------------------------------------


def judge_trial(state: State, deps: Deps) -> Changes:
    """Score the trial, compare it item by item with the incumbent, and let the arithmetic decide."""
    plan, dataset, training = plan_at_work(state), state.get("dataset"), state.get("training")
    baseline = state.get("baseline")
    assert dataset is not None and training is not None and baseline is not None, "the analyst comes last"
    training, score, train_score = score_trial(plan, dataset, training, deps)
    rivals, against = champion(state)
    comparison = compare([score, *repeated(plan, state.get("trials", []))], rivals, against, deps)
    judgement = decide(score, comparison, baseline.constant)
    guards: tuple[GuardScore, ...] = ()
    if rose(judgement.decision, comparison):
        guards = guards_after(baseline, training, plan.number, deps)
        judgement = guarded(judgement, guards, state["task"].guard_margin)
    found = outcomes(score, deps)
    trial = Trial(
        plan=plan,
        decision=judgement.decision,
        arithmetic=judgement.arithmetic,
        dataset=dataset,
        verdict=state.get("verdict"),
        training=training,
        score=score,
        train_score=train_score,
        comparison=comparison,
        guards=guards,
        errors=classify_errors(found, deps.benchmark.closed_answers),
        expectation_met=expectation_met(plan, comparison),
        seconds=trial_seconds(state) + deps.node_seconds(),
    )
    trial = blamed(trial, found, seconds_left(state), deps)
    write_record(deps.folder.trial(plan.number) / "verdict.json", trial)
    deps.events.emit("decision", f"trial {plan.number} {trial.decision}: {trial.arithmetic}")
    return ended(trial) | {"lessons": [taught(trial, of_change(plan, score, comparison, state, deps))]}


# --- the end ------------------------------------------------------------------------------------------------------


def open_sealed_test(state: State, deps: Deps) -> Changes:
    """Open the sealed test: the base model with both prompts, then the winner. Writes the report and the model."""
    items = deps.open_test()
    examples = deps.items("train")
    zero, few = deps.score(
        deps.base_weights, prompts("test", items, examples, deps.benchmark), deps.folder.test / "base"
    )
    best, tuned = winner(state), None
    if best is not None and best.training is not None:
        evaluation = Evaluation(name="tuned", split="test", items=str(items))
        (tuned,) = deps.score(deps.folder.resolve(best.training.weights), [evaluation], deps.folder.test / "tuned")
    test = SealedTest(
        zero_shot=zero,
        few_shot=few,
        tuned=tuned,
        winner=best.number if best else None,
        against_zero=compare([tuned], [zero], "base zero-shot", deps) if tuned else None,
        against_few=compare([tuned], [few], "base few-shot", deps) if tuned else None,
        constant=constant(items, deps.benchmark),
    )
    deps.ledger.record_test(test)
    closed: State = {**state, "test": test}
    write_up(closed, deps, state.get("spent_seconds", 0.0) + deps.node_seconds())
    return {"test": test}


def origin_of(deps: Deps) -> str | None:
    """The run and checkpoint that this run was forked from; its sealed test is then a second look at the same items."""
    origin = read_origin(deps.folder)
    return str(origin) if origin else None


def still_wrong(state: State, deps: Deps) -> tuple[report.Example, ...]:
    """Wrong outputs of the winner on validation, or of the best trial where nothing was accepted."""
    scored = [trial for trial in state.get("trials", []) if trial.score]
    best = winner(state) or max(scored, key=lambda trial: trial.score.oriented if trial.score else 0.0, default=None)
    return report.examples(best, outcomes(best.score, deps)) if best and best.score else ()


def write_up(state: State, deps: Deps, seconds: float) -> None:
    """Write the report, and hand the winning model over with its card."""
    best, test, baseline = winner(state), state.get("test"), state.get("baseline")
    assert test is not None and baseline is not None, "the report comes last"
    model = deps.folder.model if best else deps.base_weights
    splits: dict[str, str] = {split: entry.sha256 for split, entry in deps.splits.splits.items()}
    written = report.RunReport(
        run_id=deps.folder.id,
        task=state["task"],
        baseline=baseline,
        trials=tuple(state.get("trials", [])),
        lessons=distilled(state.get("lessons", [])),
        test=test,
        decision=report.judge(test, state.get("stop") or ""),
        budget=report.spent(state, seconds, deps.server.starts),
        lineage=report.lineage(state, splits, dict(deps.locks), forked_from=origin_of(deps)),
        data=f"{deps.splits.source}, licence {deps.splits.licence}",
        findings=read_findings(deps.folder.data),
        attribution=attribution(state, deps),
        examples=still_wrong(state, deps),
        models=uses(all_calls(deps.folder.llm)),
        research=read_record(deps.folder.research, Research) if deps.folder.research.exists() else None,
        serve=serve_command(deps.engines.vllm.python, model, deps.device, deps.server.max_model_len),
        window=deps.server.max_model_len,
    )
    write_report(deps.folder, written)
    if best is not None:
        hand_over_model(deps.folder, best, written)
