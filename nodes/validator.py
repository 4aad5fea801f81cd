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
from tools.row_checks import check_rows
from tools.training import Preflight, Sample, estimate_memory, preflight

IGNORED = -100
"""The label of a token that carries no loss."""
MARGIN = 1.05
"""A training may be predicted to fill the time left, not to overrun it by more than the micro-run's own error."""
PREFLIGHT_SECONDS = 600.0


def validator(state: State, deps: Deps) -> Changes:
    """Check training file and recipe. The first check that fails closes the trial; its figures stay on record."""
    plan, dataset = plan_at_work(state), state.get("dataset")
    assert dataset is not None, "the validator comes after the data engineer"
    done: list[Check] = []
    measured: Preflight | None = None
    failure: TrialError | None = None
    try:
        check_data(done, dataset, deps)
        measured = check_training(done, plan, dataset, seconds_left(state), deps)
        check_time(done, measured, state, deps)
    except TrialError as error:
        failure = error
    verdict = verdict_of(done, measured)
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


def check_data(done: list[Check], dataset: DatasetCard, deps: Deps) -> None:
    """What the rows themselves tell: schema, golds, duplicates, spellings, and held-out text among them."""
    path = deps.folder.resolve(dataset.path)
    items = {item.id: item for item in read_items(deps.items("train"))}
    for found in check_rows(path, deps.benchmark, items):
        note(done, found, "DATA", deps, "Change the data recipe.")
    report = check(texts(read_training_rows(path)), deps.held_out())
    says = f"{len(report.hits)} of {report.rows} rows repeat one of {report.held_out} held-out items"
    passed = not report.hits
    found = Check(name="contamination", figure=len(report.hits), unit="rows", passed=passed, says=says)
    note(done, found, "CONTAMINATION", deps, "Build the file with the data recipe's operators.")


def check_training(done: list[Check], plan: Plan, dataset: DatasetCard, seconds: float, deps: Deps) -> Preflight:
    """What only the engine can tell: memory, configuration, tokens, template parity. Costs one engine start."""
    needed, free = (
        estimate_memory(plan.training, deps.model, plan.training.sequence_len, deps.device),
        free_memory(deps.device),
    )
    says = f"about {needed / 1e9:.1f} GB needed, {free / 1e9:.1f} GB free"
    found = Check(name="memory", figure=needed, unit="bytes", passed=needed < free, says=says)
    note(done, found, "OOM", deps, "Use a smaller micro-batch or shorter rows.")
    path = deps.folder.resolve(dataset.path)
    deps.server.sleep()
    measured = preflight(
        deps.engines.axolotl,
        plan.training,
        deps.model,
        path,
        deps.folder.trial(plan.number) / "preflight",
        device=deps.device,
        timeout_s=min(seconds, PREFLIGHT_SECONDS),
    )
    config = Check(
        name="configuration", figure=measured.total_steps, unit="steps", passed=True, says="Axolotl accepts the recipe"
    )
    note(done, config, "CONFIG", deps)
    check_tokens(done, measured, plan, deps)
    check_template(done, measured, read_training_rows(path), deps)
    return measured


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


def check_time(done: list[Check], measured: Preflight, state: State, deps: Deps) -> None:
    """The training fits into what is left when the sealed test has its share."""
    baseline = state.get("baseline")
    assert baseline is not None, "the baseline comes first"
    kept = deps.reserve_seconds(baseline) + baseline.zero_shot.seconds
    left = seconds_left(state) - deps.node_seconds() - kept
    predicted = measured.predicted_seconds
    says = f"{predicted:.0f} s of training predicted ({measured.timed}), {left:.0f} s left for it"
    found = Check(name="time", figure=predicted, unit="seconds", passed=predicted < left * MARGIN, says=says)
    note(done, found, "BUDGET", deps, "Use fewer rows or epochs, or give the run more time.")


def verdict_of(done: list[Check], measured: Preflight | None) -> Verdict:
    """The record of all checks so far."""
    return Verdict(
        checks=tuple(done),
        step_seconds=measured.step_seconds if measured else 0.0,
        predicted_seconds=measured.predicted_seconds if measured else 0.0,
        tokens=sum(measured.lengths) if measured else 0,
        supervised_tokens=sum(measured.supervised) if measured else 0,
        longest_row=max(measured.lengths) if measured else 0,
    )
