"""The validator measures whether a trial can succeed before it is paid for: cheap checks first, the micro-run last."""

from __future__ import annotations

from statistics import fmean

from memory.errors import TrialError
from memory.layout import write_record
from memory.records import Check, DatasetCard, FailureKind, Plan, Verdict
from memory.state import Changes, State, failed, plan_at_work, seconds_left
from nodes.deps import Deps
from tools.benchmarks.splits import read_items
from tools.data import TrainingRow, read_training_rows, texts
from tools.decontamination import check
from tools.machine import free_memory
from tools.proposers.brief import SNAPSHOT_SECONDS
from tools.row_checks import check_rows
from tools.training.engine import MICRO_STEPS, Preflight, Sample, estimate_memory, preflight
from tools.training.memory import what_fits
from tools.training.pace import known_pace
from tools.training.start import Start, start_of

IGNORED = -100
"""The label of a token that carries no loss."""
MARGIN = 1.05
"""A training may be predicted to fill the time left, not to overrun it by more than the micro-run's own error."""
PREFLIGHT_SECONDS = 600.0
TEMPLATE_TOKENS = 128
"""What a chat template may add to a row: special tokens, names of roles, a system prompt of its own."""
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
        check_data(done, plan, dataset, deps)
        check_memory(done, plan, dataset, deps)
        measured = check_training(done, plan, dataset, state, deps)
        check_time(done, plan, measured, state, deps)
    except TrialError as error:
        failure = error
    verdict = verdict_of(done, plan, measured, deps)
    write_record(deps.folder.trial(plan.number) / "checks.json", verdict)
    if failure is not None:
        deps.events.emit("decision", f"trial {plan.number} refused: {failure.kind}: {failure}")
        return failed(state, failure.failure("validator"), deps.node_seconds(), verdict)
    return {"verdict": verdict}


def note(done: list[Check], found: Check, kind: FailureKind, deps: Deps, way_out: str = "") -> None:
    """Put a check on record. Raises TrialError of `kind` where it did not pass."""
    done.append(found)
    deps.events.emit("check", f"{'ok' if found.passed else 'FAILED'} {found.name}: {found.says}", value=found.figure)
    if not found.passed:
        raise TrialError(kind, f"{found.name}: {found.says}", way_out)


def check_data(done: list[Check], plan: Plan, dataset: DatasetCard, deps: Deps) -> None:
    """What the rows themselves tell: schema, golds, duplicates, spellings, and held-out text among them."""
    path = deps.folder.resolve(dataset.path)
    items = {item.id: item for item in read_items(deps.items("train"))}
    for found in check_rows(path, deps.benchmark, items, pairs=plan.training.objective == "dpo"):
        note(done, found, "DATA", deps, "Change the data recipe.")
    report = check(texts(read_training_rows(path)), deps.held_out())
    says = f"{len(report.hits)} of {report.rows} rows repeat one of {report.held_out} held-out items"
    passed = not report.hits
    found = Check(name="contamination", figure=len(report.hits), unit="rows", passed=passed, says=says)
    note(done, found, "CONTAMINATION", deps, "Build the file with the data recipe's operators.")


def check_memory(done: list[Check], plan: Plan, dataset: DatasetCard, deps: Deps) -> None:
    """The training fits into what is free, by an estimate for the longest that a row can be: a token is a byte or
    more."""
    rows = read_training_rows(deps.folder.resolve(dataset.path))
    longest = max(longest_bytes(row) for row in rows) + TEMPLATE_TOKENS
    if plan.training.objective == "grpo":
        longest += deps.benchmark.max_new_tokens
    bound = min(plan.training.sequence_len, longest)
    needed, free = estimate_memory(plan.training, deps.model, bound, deps.device), free_memory(deps.device)
    fits = needed < free
    says = f"about {needed / 1e9:.1f} GB needed for rows of up to {bound} tokens, {free / 1e9:.1f} GB free"
    way_out = "" if fits else what_fits(plan.training, deps.model, bound, deps.device, free)
    found = Check(name="memory", figure=needed, unit="bytes", passed=fits, says=says if fits else f"{says}; {way_out}")
    note(done, found, "OOM", deps, "Change one of these.")


def longest_bytes(row: TrainingRow) -> int:
    """Of a row's question and its answer, the longer one of a pair."""
    return len(row.prompt.encode()) + max(len(row.answer.encode()), len((row.rejected or "").encode()))


def check_training(done: list[Check], plan: Plan, dataset: DatasetCard, state: State, deps: Deps) -> Preflight:
    """What only the engine can tell: configuration, tokens, template parity, pace. Costs one engine start."""
    start = start_of(plan.training, state.get("trials", []), deps.folder)
    deps.server.sleep()
    measured = measure(plan, dataset, state, start, deps)
    config = Check(
        name="configuration", figure=measured.total_steps, unit="steps", passed=True, says="Axolotl accepts the recipe"
    )
    note(done, config, "CONFIG", deps)
    check_tokens(done, measured, plan, deps)
    check_template(done, measured, read_training_rows(deps.folder.resolve(dataset.path)), deps)
    if measured.sweep:
        note(done, sweep_check(measured, plan), "DIVERGED", deps)
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


def check_tokens(done: list[Check], measured: Preflight, plan: Plan, deps: Deps) -> None:
    """Every row is short enough to be trained on whole, and has tokens that carry a loss."""
    longest, limit = max(measured.lengths), plan.training.sequence_len
    too_long = sum(length > limit for length in measured.lengths)
    says = f"the longest of {len(measured.lengths)} rows has {longest} tokens, {too_long} are over {limit}"
    found = Check(
        name="lengths", figure=longest, unit="tokens", passed=too_long == 0 and measured.dropped == 0, says=says
    )
    note(done, found, "DATA", deps, f"Raise sequence_len to {longest}, or filter the longest rows out.")
    silent = sum(count == 0 for count in measured.supervised)
    says = f"{fmean(measured.supervised):.1f} tokens a row carry a loss; {silent} rows have none"
    found = Check(
        name="supervised tokens", figure=sum(measured.supervised), unit="tokens", passed=silent == 0, says=says
    )
    note(done, found, "TEMPLATE", deps, "The chat template marks no answer in these rows.")


def check_template(done: list[Check], measured: Preflight, rows: list[TrainingRow], deps: Deps) -> None:
    """Training sees, token by token, the prompt that vLLM will serve, and learns the answer and its end."""
    odd = [sample.row for sample in measured.samples if not same_prompt(sample, rows[sample.row], deps)]
    says = (
        f"{len(measured.samples) - len(odd)} of {len(measured.samples)} rows have the tokens that the server will see"
    )
    if odd:
        says += f"; row {odd[0] + 1} differs"
    found = Check(name="template", figure=len(measured.samples) - len(odd), unit="rows", passed=not odd, says=says)
    note(done, found, "TEMPLATE", deps, "The model's chat template renders differently in training and serving.")


def same_prompt(sample: Sample, row: TrainingRow, deps: Deps) -> bool:
    """Whether the tokens without a loss are what the server makes of the question, and something to learn follows."""
    served = deps.server.tokenize([{"role": "user", "content": row.prompt}])
    unlearned = [label == IGNORED for label in sample.labels].index(False)
    return sample.input_ids[:unlearned] == tuple(served) and unlearned == len(served)


def check_time(done: list[Check], plan: Plan, measured: Preflight, state: State, deps: Deps) -> None:
    """The training fits into what is left when its scores and the sealed test have their share."""
    baseline = state.get("baseline")
    assert baseline is not None, "the baseline comes first"
    kept = deps.reserve_seconds(baseline) + baseline.zero_shot.seconds
    kept += plan.training.snapshots * (baseline.zero_shot.seconds + SNAPSHOT_SECONDS)
    left = seconds_left(state) - deps.node_seconds() - kept
    predicted = measured.predicted_seconds
    says = f"{predicted:.0f} s of training predicted ({measured.timed}), {left:.0f} s left for it"
    found = Check(name="time", figure=predicted, unit="seconds", passed=predicted < left * MARGIN, says=says)
    note(done, found, "BUDGET", deps, "Use fewer rows or epochs, or give the run more time.")


def verdict_of(done: list[Check], plan: Plan, measured: Preflight | None, deps: Deps) -> Verdict:
    """The record of all checks so far."""
    if measured is None:
        return Verdict(
            checks=tuple(done), step_seconds=0, predicted_seconds=0, tokens=0, supervised_tokens=0, longest_row=0
        )
    longest = max(measured.lengths)
    return Verdict(
        checks=tuple(done),
        step_seconds=measured.step_seconds,
        predicted_seconds=measured.predicted_seconds,
        tokens=sum(measured.lengths),
        supervised_tokens=sum(measured.supervised),
        longest_row=longest,
        padded_tokens=measured.padded_tokens,
        memory_bytes=estimate_memory(plan.training, deps.model, longest, deps.device),
        sweep=measured.sweep,
        diverges_at=measured.diverges_at,
    )
