"""What a proposer sees before it plans a trial, and the arithmetic of what a trial costs.

A trial costs a fixed part (engine start-ups, preparation, one validation) and a part that grows with the tokens
that are trained on. Both are assumed before the first trial and measured after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Literal

from pydantic import Field

from memory.lineage import last_accepted
from memory.records import (
    Attribution,
    Baseline,
    BaseModelCard,
    DataRecipe,
    Judge,
    Lesson,
    Plan,
    Record,
    Rewrite,
    Sampling,
    Score,
    Task,
    TrainingRecipe,
    Trial,
    Wish,
)

Device = Literal["cpu", "cuda"]

CHARS_PER_TOKEN = 3.2
"""English prose has about 4, names and numbers about 3; on the low side, so that an estimate errs towards too long."""
TEMPLATE_TOKENS = 36
"""Role markers of two messages and the default system prompt that some templates insert."""
TRAINING_FLOPS_PER_WEIGHT = 4.0
"""Adapter training per token and weight: about 2/3 of the 6 of full training (LoRA Without Regret)."""
MICRO_COST: dict[int, float] = {1: 2.2, 2: 1.5, 4: 1.2, 8: 1.0, 16: 0.8}
"""Seconds per token against eight rows in memory at once, by rows in memory (measured: 327, 488, 602, 722 and 896
tokens/s of a 135M model on two cores). More rows at once keep the processor busier; a GPU gains more."""
FLOPS: dict[Device, float] = {"cpu": 3e11, "cuda": 2.5e13}
"""Useful floating-point operations a second before anything is measured. CPU: 560 tokens/s of a 135M model on two
cores; CUDA: a tenth of a data-centre card, for small unpacked batches."""
METHOD_COST: dict[str, float] = {"lora": 1.0, "qlora": 1.3, "full": 1.5}
"""Seconds per token against LoRA: full training also computes the gradients of the weights, QLoRA unpacks them."""
OBJECTIVE_COST: dict[str, float] = {"sft": 1.0, "dpo": 2.5, "grpo": 2.0}
"""Seconds per token of a row against imitation; for GRPO, with each of its answers. DPO runs both answers of a pair
through the model and through the reference; GRPO writes its answers first, token by token. Measured on one machine,
SmolLM2-135M: 9.8 s for 4 rows of 74 tokens, 20.2 s for 4 such pairs (2.6 times in the preflight), 32.7 s for 8 answers
of 8 tokens to such questions. Longer answers cost GRPO more: the micro-run of the validator tells."""
OVERHEAD_SECONDS: dict[Device, float] = {"cpu": 35.0, "cuda": 75.0}
"""What a first trial costs beside its training and its validation, before that is measured: preflight with micro-run
and sweep, the training engine's start, merging, the scorer."""
SNAPSHOT_SECONDS = 2.0
"""Writing whole weights and swapping them into the server, beside their evaluation."""
WRITTEN_ROW_SECONDS = 1.0
"""What a language model takes for a row that it writes or judges, before a rehearsal has measured it: eight at a time,
eight seconds each."""
SAFETY = 0.93
"""Share of the time left that a plan may fill; the rest absorbs the error of the estimate."""


class Stop(Record):
    """No further trial, and why."""

    reason: str
    """One line with the figures behind it, and what the person can do where that helps."""


class Remembered(Record):
    """The training that won in an earlier run with the same benchmark and base model."""

    run: str
    trial: int
    score: Score
    """On that run's validation split. Its sealed test has no say."""
    training: TrainingRecipe


class Brief(Record):
    """Everything a planner may know. The same brief always gets the same answer."""

    task: Task
    model: BaseModelCard
    baseline: Baseline
    trials: tuple[Trial, ...] = ()
    """All ended trials, oldest first, failed ones included."""
    lessons: tuple[Lesson, ...] = ()
    attribution: Attribution = Attribution()
    """What each change did, and how good expectations were; for a language model, so empty where search plans."""
    remembered: Remembered | None = None
    """What a first trial may start from; None later, and where no earlier run did the same work."""
    wishes: tuple[Wish, ...] = ()
    """What the person wishes of the next plan, oldest first."""
    declined: tuple[Plan, ...] = ()
    """Plans that the person refused; they were never trials."""
    seconds_left: float = Field(ge=0)
    """Wall clock of the budget that is left, the reserve included."""
    trials_left: int | None = None
    """Trials that the budget still allows; None where only the clock decides."""
    train_rows: int = Field(ge=0)
    """Rows of the training split."""
    row_tokens: float = Field(gt=0)
    """Mean tokens of a training row, template included: estimated (`tools/lengths.py`), or `measured_row_tokens`."""
    longest_row: int = Field(ge=1)
    """Tokens of the longest training row: estimated or measured."""
    closed_answers: tuple[str, ...] | None = None
    """All possible answers, or None where answers are open."""
    answer_chars: float = Field(default=0.0, ge=0)
    """Mean characters of a gold answer."""
    generated: bool = False
    """Whether questions come from a template, so that two that differ in a word are two questions."""
    reserve_seconds: float = Field(ge=0)
    """Kept for the sealed test and the report."""
    evaluation_seconds: float = Field(ge=0)
    """One validation, measured on the baseline."""
    overhead_seconds: float = Field(ge=0)
    """The rest of a trial's fixed cost: `OVERHEAD_SECONDS`, or `measured_overhead`."""
    seconds_per_token: float | None = Field(default=None, gt=0)
    """Training seconds per token with LoRA: `measured_seconds_per_token`; None before the first measurement."""
    device: Device
    no_code: str = ""
    """Why generated code cannot run here; empty where it can."""
    min_trials: int = Field(default=3, ge=1)
    """The first trial leaves room for at least this many, where the budget allows."""

    @property
    def number(self) -> int:
        """Number of the trial to be planned."""
        return max((trial.number for trial in self.trials), default=0) + 1

    @property
    def spendable(self) -> float:
        """Seconds that trials may take: what is left without the reserve; never negative."""
        return max(0.0, self.seconds_left - self.reserve_seconds)

    @property
    def fixed_seconds(self) -> float:
        """What any trial costs, however little it trains."""
        return self.overhead_seconds + self.evaluation_seconds

    @property
    def training_room(self) -> float:
        """Training seconds that the next trial may plan with: `(spendable - fixed) * SAFETY`; never negative."""
        return max(0.0, self.spendable - self.fixed_seconds) * SAFETY

    @property
    def speed(self) -> float:
        """Seconds per token with LoRA: measured, or assumed from the model's size and the device."""
        if self.seconds_per_token is not None:
            return self.seconds_per_token
        return TRAINING_FLOPS_PER_WEIGHT * self.model.parameters / FLOPS[self.device]

    @property
    def rows_available(self) -> int:
        """Rows that a trial may use: the training split under the sample cap."""
        cap = self.task.sample_cap
        return self.train_rows if cap is None else min(cap, self.train_rows)

    @property
    def scored(self) -> tuple[Trial, ...]:
        """Trials that reached a validation score, oldest first."""
        return tuple(trial for trial in self.trials if trial.score is not None)

    @property
    def incumbent(self) -> Trial | None:
        """The best model so far, or None while the base model holds the place."""
        return last_accepted(self.trials)

    def value(self, trial: Trial) -> float:
        """The trial's validation score, turned so that more is better; minus infinity where nothing was scored."""
        return float("-inf") if trial.score is None else self.turned(trial.score.value)

    def turned(self, value: float) -> float:
        """A value of the metric, turned so that more is better."""
        return value if self.task.higher_is_better else -value

    @property
    def ceiling(self) -> float | None:
        """The best value that the metric can have, turned; None where it cannot be known. 0 for errors; 1 for
        shares."""
        if not self.task.higher_is_better:
            return 0.0
        values = [trial.score.value for trial in self.trials if trial.score is not None]
        return 1.0 if max([self.baseline.better.value, *values]) <= 1.0 else None

    def headroom(self, value: float) -> float:
        """Distance of a turned value to the ceiling; where that is unknown, the value's own size."""
        return max(abs(value), 1.0) if self.ceiling is None else max(0.0, self.ceiling - value)

    def tokens(self, data: DataRecipe, training: TrainingRecipe) -> float:
        """Tokens of the whole training: `rows * row_tokens * epochs`."""
        rows = self.rows_available if data.rows is None else min(data.rows, self.train_rows + data.synthesised)
        return rows * self.row_tokens * training.epochs

    def training_seconds(self, data: DataRecipe, training: TrainingRecipe) -> float:
        """Seconds of the optimiser steps: `tokens * seconds per token * cost of the method`."""
        return self.tokens(data, training) * self.speed * cost_of(training)

    def trial_seconds(self, data: DataRecipe, training: TrainingRecipe) -> float:
        """Seconds of the whole trial: `overhead + evaluation + training`, sampling, and an evaluation for each
        snapshot."""
        looks = training.snapshots * (self.evaluation_seconds + SNAPSHOT_SECONDS)
        return self.fixed_seconds + self.training_seconds(data, training) + looks + self.sampling_seconds(data)

    def sampling_seconds(self, data: DataRecipe) -> float:
        """Seconds of asking a model for outputs to training questions, at the baseline's measured pace, and those of
        language models that write or judge rows."""
        outputs = sum(op.rows * op.samples for op in data.operators if isinstance(op, Sampling))
        own = outputs * self.baseline.zero_shot.seconds / self.baseline.zero_shot.n
        return own + written_seconds(data, self.rows_available)

    def row_visits(self, seconds: float, training: TrainingRecipe | None = None) -> int:
        """How many rows, each epoch counted, `seconds` of training can see; with LoRA and eight rows at once where no
        recipe is given."""
        cost = 1.0 if training is None else cost_of(training)
        return int(max(0.0, seconds) / (self.row_tokens * self.speed * cost))


def written_seconds(data: DataRecipe, rows_available: int) -> float:
    """Seconds that language models take for their steps of a recipe, as far as that can be known before a rehearsal."""
    judged = sum(isinstance(operator, Judge | Rewrite) for operator in data.operators)
    rows = data.synthesised + judged * (rows_available if data.rows is None else data.rows)
    return rows * WRITTEN_ROW_SECONDS


def cost_of(training: TrainingRecipe) -> float:
    """Seconds per token against LoRA with eight rows in memory at once."""
    at_once = max((rows for rows in MICRO_COST if rows <= training.micro_batch), default=1)
    answers = training.generations if training.objective == "grpo" else 1
    return METHOD_COST[training.method] * MICRO_COST[at_once] * OBJECTIVE_COST[training.objective] * answers


def measured_row_tokens(trials: Sequence[Trial]) -> float | None:
    """Mean tokens of a row by the newest verdict, or None where no trial was validated."""
    for trial in reversed(trials):
        if trial.verdict and trial.dataset and trial.verdict.tokens and trial.dataset.rows:
            return trial.verdict.tokens / trial.dataset.rows
    return None


def measured_longest_row(trials: Sequence[Trial]) -> int | None:
    """Tokens of the longest row that any verdict saw, or None where no trial was validated."""
    return max(
        (trial.verdict.longest_row for trial in trials if trial.verdict and trial.verdict.longest_row), default=None
    )


def measured_seconds_per_token(trials: Sequence[Trial]) -> float | None:
    """Training seconds per token, as if all were LoRA with eight rows at once: the median over trainings, else over the
    validator's micro-runs. Other objectives than imitation pay something else for a token and are left out.

    A training counts `train_seconds / tokens`, a micro-run `predicted_seconds / (tokens * epochs)`; None without
    either.
    """
    trained, predicted = [], []
    for trial in trials:
        if trial.plan.training.objective != "sft":
            continue
        cost = cost_of(trial.plan.training)
        if trial.training and trial.training.tokens and trial.training.train_seconds:
            trained.append(trial.training.train_seconds / trial.training.tokens / cost)
        elif trial.verdict and trial.verdict.tokens and trial.verdict.predicted_seconds:
            seen = trial.verdict.tokens * trial.plan.training.epochs
            predicted.append(trial.verdict.predicted_seconds / seen / cost)
    return median(trained or predicted) if trained or predicted else None


def measured_overhead(trials: Sequence[Trial]) -> float | None:
    """Fixed seconds of a trial beside its validation: the mean of `seconds - train_seconds - score.seconds` over scored
    trials, or None before the first; those that ask a model first are left out."""
    rests = [
        max(0.0, trial.seconds - trial.training.train_seconds - trial.score.seconds)
        for trial in trials
        if trial.training and trial.score and trial.plan.training.objective == "sft"
    ]
    return sum(rests) / len(rests) if rests else None
