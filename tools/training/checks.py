"""What must hold before a training is paid for, as checks with figures, cheap ones first: whoever is about to train
looks at them one by one, and ends at the first that fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from memory.errors import TrialError
from memory.records import BaseModelCard, Check, FailureKind, TrainingRecipe, Verdict
from tools.benchmarks.benchmark import Benchmark
from tools.benchmarks.splits import read_held_out, read_items, split_path
from tools.data import TrainingRow, read_training_rows, texts
from tools.decontamination import check
from tools.row_checks import check_rows
from tools.training.config import Device
from tools.training.memory import estimate_memory, what_fits
from tools.training.requests import Preflight, Sample

IGNORED = -100
"""The label of a token that carries no loss."""
TEMPLATE_TOKENS = 128
"""What a chat template may add to a row: special tokens, names of roles, a system prompt of its own."""
MARGIN = 1.05
"""A training may be predicted to fill the time left, not to overrun it by more than the micro-run's own error."""

Tokenize = Callable[[list[dict[str, str]]], list[int]]
"""Token ids of a conversation as the server sees it."""


class Finding(NamedTuple):
    """A check, and what it means where it did not pass."""

    check: Check
    kind: FailureKind
    way_out: str = ""

    @property
    def error(self) -> TrialError:
        """The failure to raise."""
        return TrialError(self.kind, f"{self.check.name}: {self.check.says}", self.way_out)


def data_findings(path: Path, recipe: TrainingRecipe, benchmark: Benchmark, data: Path) -> Iterator[Finding]:
    """What the rows themselves tell: schema, golds, duplicates, spellings, and held-out text among them. `data` is the
    folder of the splits. Raises TrialError DATA for a malformed row."""
    items = {item.id: item for item in read_items(split_path("train", data, None))}
    for found in check_rows(path, benchmark, items, pairs=recipe.objective == "dpo"):
        yield Finding(found, "DATA", "Change the data recipe.")
    report = check(texts(read_training_rows(path)), read_held_out(data))
    says = f"{len(report.hits)} of {report.rows} rows repeat one of {report.held_out} held-out items"
    passed = not report.hits
    found = Check(name="contamination", figure=len(report.hits), unit="rows", passed=passed, says=says)
    yield Finding(found, "CONTAMINATION", "Build the file with the data recipe's operators.")


def memory_finding(
    recipe: TrainingRecipe, model: BaseModelCard, path: Path, benchmark: Benchmark, device: Device, free: int
) -> Finding:
    """The training fits into what is free, by an estimate for the longest that a row can be: a token is a byte or
    more. `free` are bytes, where the training will run."""
    rows = read_training_rows(path)
    longest = max(map(longest_bytes, rows)) + TEMPLATE_TOKENS
    if recipe.objective == "grpo":
        longest += benchmark.max_new_tokens
    bound = min(recipe.sequence_len, longest)
    needed = estimate_memory(recipe, model, bound, device)
    fits = needed < free
    says = f"about {needed / 1e9:.1f} GB needed for rows of up to {bound} tokens, {free / 1e9:.1f} GB free"
    way_out = "" if fits else what_fits(recipe, model, bound, device, free)
    found = Check(name="memory", figure=needed, unit="bytes", passed=fits, says=says if fits else f"{says}; {way_out}")
    return Finding(found, "OOM", "Change one of these.")


def longest_bytes(row: TrainingRow) -> int:
    """Of a row's question and its answer, the longer one of a pair."""
    return len(row.prompt.encode()) + max(len(row.answer.encode()), len((row.rejected or "").encode()))


def engine_findings(measured: Preflight, recipe: TrainingRecipe, path: Path, tokenize: Tokenize) -> Iterator[Finding]:
    """What only the engine can tell: configuration, tokens, template parity."""
    says = "Axolotl accepts the recipe"
    config = Check(name="configuration", figure=measured.total_steps, unit="steps", passed=True, says=says)
    yield Finding(config, "CONFIG")
    yield lengths_finding(measured, recipe)
    yield supervised_finding(measured)
    yield template_finding(measured, read_training_rows(path), tokenize)


def lengths_finding(measured: Preflight, recipe: TrainingRecipe) -> Finding:
    """Every row is short enough to be trained on whole."""
    longest, limit = max(measured.lengths), recipe.sequence_len
    too_long = sum(length > limit for length in measured.lengths)
    says = f"the longest of {len(measured.lengths)} rows has {longest} tokens, {too_long} are over {limit}"
    passed = too_long == 0 and measured.dropped == 0
    found = Check(name="lengths", figure=longest, unit="tokens", passed=passed, says=says)
    return Finding(found, "DATA", f"Raise sequence_len to {longest}, or filter the longest rows out.")


def supervised_finding(measured: Preflight) -> Finding:
    """Every row has tokens that carry a loss."""
    silent = sum(count == 0 for count in measured.supervised)
    says = f"{fmean(measured.supervised):.1f} tokens a row carry a loss; {silent} rows have none"
    total = sum(measured.supervised)
    found = Check(name="supervised tokens", figure=total, unit="tokens", passed=silent == 0, says=says)
    return Finding(found, "TEMPLATE", "The chat template marks no answer in these rows.")


def template_finding(measured: Preflight, rows: Sequence[TrainingRow], tokenize: Tokenize) -> Finding:
    """Training sees, token by token, the prompt that vLLM will serve, and learns the answer and its end."""
    odd = [sample.row for sample in measured.samples if not same_prompt(sample, rows[sample.row], tokenize)]
    same = len(measured.samples) - len(odd)
    says = f"{same} of {len(measured.samples)} rows have the tokens that the server will see"
    if odd:
        says += f"; row {odd[0] + 1} differs"
    found = Check(name="template", figure=same, unit="rows", passed=not odd, says=says)
    return Finding(found, "TEMPLATE", "The model's chat template renders differently in training and serving.")


def same_prompt(sample: Sample, row: TrainingRow, tokenize: Tokenize) -> bool:
    """Whether the tokens without a loss are what the server makes of the question, and something to learn follows."""
    served = tokenize([{"role": "user", "content": row.prompt}])
    unlearned = [label == IGNORED for label in sample.labels].index(False)
    return sample.input_ids[:unlearned] == tuple(served) and unlearned == len(served)


def time_finding(measured: Preflight, left: float) -> Finding:
    """The training fits into the seconds that are left for it."""
    predicted = measured.predicted_seconds
    says = f"{predicted:.0f} s of training predicted ({measured.timed}), {left:.0f} s left for it"
    found = Check(name="time", figure=predicted, unit="seconds", passed=predicted < left * MARGIN, says=says)
    return Finding(found, "BUDGET", "Use fewer rows or epochs, or give the run more time.")


def verdict_of(
    done: Sequence[Check], recipe: TrainingRecipe, measured: Preflight | None, model: BaseModelCard, device: Device
) -> Verdict:
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
        memory_bytes=estimate_memory(recipe, model, longest, device),
        sweep=measured.sweep,
        diverges_at=measured.diverges_at,
    )
