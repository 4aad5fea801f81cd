"""The vocabulary: frozen records that every floor speaks. Paths in records are relative to the run's folder."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

NodeName = Literal["planner", "data_engineer", "validator", "trainer", "analyst"]

FailureKind = Literal["CONFIG", "DATA", "CONTAMINATION", "TEMPLATE", "OOM", "BUDGET", "ENV", "DIVERGED"]
"""CONFIG: a recipe no engine accepts. DATA: rows that cannot be trained on. CONTAMINATION: held-out text in the data.
TEMPLATE: training and serving render differently. OOM: out of memory. BUDGET: does not fit the time left. ENV: the
machine or an engine. DIVERGED: the loss became NaN, exploded or stalled."""

Decision = Literal["accepted", "rejected", "inconclusive", "failed"]


class Record(BaseModel):
    """Frozen and closed: a misspelt field is an error, and nobody changes a fact afterwards."""

    model_config = ConfigDict(frozen=True, extra="forbid")


# --- the task ---------------------------------------------------------------------------------------------------


class Budget(Record):
    """What a run may spend."""

    seconds: float = Field(gt=0)
    """Wall clock of the whole run in seconds, baseline and sealed test included."""
    max_trials: int | None = Field(default=None, ge=1)
    """At most this many trials, failed ones included; None leaves the clock to decide."""


class Task(Record):
    """What the person asked for."""

    base_model: str
    """`smollm2`, a local folder, or a hub id."""
    benchmark: str
    """A name in the table of benchmarks."""
    description: str = ""
    """What the person says about the task, in words."""
    raw_data: tuple[str, ...] = ()
    """Further training sources (JSONL files) beside the benchmark's own training split."""
    metric: str
    higher_is_better: bool = True
    sample_cap: int | None = Field(default=None, ge=1)
    """At most this many training rows per trial; None leaves the planner to decide."""
    budget: Budget
    seed: int = 0
    """Seeds data selection, training and the sampler; a trial's own seed lies in its recipes."""


class BaseModelCard(Record):
    """The model that is tuned, as it lies on this machine."""

    name: str
    path: str
    """Absolute folder with config.json, weights and tokenizer."""
    chat_template: str
    """`own`, or the name of the default template given to a model without one."""
    sha256: str
    """Hash over the weight files."""
    parameters: int
    """Number of weights."""
    hidden_size: int
    layers: int
    licence: str = "unknown"


# --- the plan ---------------------------------------------------------------------------------------------------


class Filter(Record):
    """Keep the rows for which a SQL condition over the row's columns holds."""

    kind: Literal["filter"] = "filter"
    where: str
    """A DuckDB expression over `prompt, answer, source, prompt_chars, answer_chars` and the benchmark's own columns."""


class MapTemplate(Record):
    """Rewrite prompt and answer by templates with `{prompt}`, `{answer}` and the benchmark's own columns."""

    kind: Literal["map"] = "map"
    prompt: str = "{prompt}"
    answer: str = "{answer}"


class Deduplicate(Record):
    """Drop rows whose prompt and answer are the same after folding case and white space."""

    kind: Literal["deduplicate"] = "deduplicate"


class Mix(Record):
    """Blend in rows of another source until they make up `share` of the result."""

    kind: Literal["mix"] = "mix"
    source: str
    """A JSONL file among the task's raw data."""
    share: float = Field(gt=0, lt=1)


class Select(Record):
    """Take at most `rows` rows."""

    kind: Literal["select"] = "select"
    rows: int = Field(ge=1)
    balance: Literal["none", "answer"] = "none"
    """`answer` takes equally many rows of each answer, as far as they last; for closed answers."""
    seed: int = 0


Operator = Annotated[Filter | MapTemplate | Deduplicate | Mix | Select, Field(discriminator="kind")]


class DataRecipe(Record):
    """How the training file is made: operators, applied in order to the benchmark's training split."""

    operators: tuple[Operator, ...]

    @property
    def rows(self) -> int | None:
        """Rows that the last `select` allows, or None where the recipe takes all."""
        return next((op.rows for op in reversed(self.operators) if isinstance(op, Select)), None)


class TrainingRecipe(Record):
    """The dozen settings of a training that a planner reasons about."""

    method: Literal["lora", "qlora", "full"] = "lora"
    learning_rate: float = Field(gt=0)
    epochs: float = Field(gt=0)
    batch_size: int = Field(default=8, ge=1)
    """Effective batch in rows: micro-batch times accumulation."""
    micro_batch: int = Field(default=8, ge=1)
    """Rows in memory at once; the out-of-memory ladder halves it and keeps the effective batch."""
    lora_rank: int = Field(default=16, ge=1)
    lora_alpha: int = Field(default=32, ge=1)
    lora_dropout: float = Field(default=0.0, ge=0, lt=1)
    warmup_ratio: float = Field(default=0.05, ge=0, le=0.5)
    schedule: Literal["cosine", "linear", "constant"] = "cosine"
    weight_decay: float = Field(default=0.0, ge=0)
    sequence_len: int = Field(default=512, ge=16)
    """Longest training row in tokens; longer rows are refused by the validator, never cut."""
    seed: int = 0


class Change(Record):
    """The one factor in which a plan differs from its parent."""

    factor: str
    """A field of the recipes (`learning_rate`, `epochs`, `rows`, ...), or `several`."""
    before: str
    after: str


class Plan(Record):
    """One trial, decided before anything is spent on it."""

    number: int = Field(ge=1)
    parent: int | None
    """The trial this one grows from; None grows from the base model."""
    diagnosis: str
    """What the parent's figures show; the reason for the change."""
    hypothesis: str
    change: Change | None
    """None for a first trial, which has nothing to differ from."""
    expected_gain: float
    """Expected difference of the validation metric against the incumbent, in units of the metric."""
    data: DataRecipe
    training: TrainingRecipe
    proposer: Literal["search", "llm"]
    predicted_seconds: float = Field(ge=0)
    """What the planner thinks the whole trial costs."""


# --- what was built, checked and trained --------------------------------------------------------------------------


class RowGroup(Record):
    """Provenance: rows that took the same way into the training file."""

    source: str
    rows: int
    steps: tuple[str, ...]
    """Operators that the rows passed, in order, in words."""


class Dropped(Record):
    """Rows that did not make it, and why."""

    reason: str
    rows: int
    examples: tuple[str, ...] = ()


class DatasetCard(Record):
    """A training file: JSONL of `{"id", "messages", "source"}` with one user and one assistant message a row."""

    path: str
    sha256: str
    rows: int
    mean_answer_chars: float
    groups: tuple[RowGroup, ...]
    dropped: tuple[Dropped, ...] = ()


class Check(Record):
    """One thing that the validator measured."""

    name: str
    figure: float
    """The measured figure; `unit` says of what."""
    unit: str
    passed: bool
    says: str
    """One line for a person."""


class Failure(Record):
    """A typed failure of a trial."""

    kind: FailureKind
    node: NodeName
    message: str
    way_out: str = ""


class Verdict(Record):
    """The validator's checks, cheap ones first; the first failed check ends the list."""

    checks: tuple[Check, ...]
    step_seconds: float = Field(ge=0)
    """Seconds of one optimiser step, measured by the micro-run."""
    predicted_seconds: float = Field(ge=0)
    """Training time extrapolated from the micro-run."""
    tokens: int = Field(ge=0)
    """Tokens of one epoch."""
    supervised_tokens: int = Field(ge=0)
    """Tokens of one epoch that carry a loss."""
    longest_row: int = Field(ge=0)
    """Tokens of the longest row."""


class LossPoint(Record):
    """A point of the training curve."""

    step: int
    epoch: float
    loss: float
    learning_rate: float
    grad_norm: float | None
    seconds: float
    """Since the first optimiser step."""


class TrainingRun(Record):
    """What Axolotl made."""

    weights: str
    """Folder with whole weights that vLLM can load: the merged adapter, or the full model."""
    adapter: str | None
    """Folder with the adapter; None for full tuning."""
    weights_sha256: str
    config_sha256: str
    """Hash of the Axolotl YAML."""
    losses: tuple[LossPoint, ...]
    steps: int
    step_seconds: float
    """Median seconds of an optimiser step."""
    tokens: int
    """Tokens seen, all epochs."""
    seconds: float
    """Wall clock of the engine, start-up and merge included."""
    train_seconds: float
    """Wall clock from the first to the last optimiser step."""
    peak_memory_bytes: int
    micro_batch: int
    """Rows in memory at once, after the out-of-memory ladder."""
    ladder: tuple[str, ...] = ()
    """Steps of the out-of-memory ladder that were taken, in words; empty where the recipe fitted."""
    resumed_from_step: int = 0
    """The checkpoint from which a crashed training went on; 0 where it ran through."""
    seed: int = 0


# --- scores and judgement -----------------------------------------------------------------------------------------


class Subset(Record):
    """A score over one part of the items."""

    value: float
    n: int


class Score(Record):
    """A measured metric. It always has n and an error bar; without them it is not a score."""

    metric: str
    higher_is_better: bool = True
    split: Literal["train", "validation", "test"]
    shots: int = Field(ge=0)
    """Worked examples in the prompt."""
    value: float
    n: int = Field(ge=1)
    stderr: float = Field(ge=0)
    """Standard error of `value` over items."""
    ci_low: float
    ci_high: float
    """95 % interval: Wilson for right-or-wrong items, bootstrap otherwise."""
    parsed: int = Field(ge=0)
    """Items whose output held an answer at all; the others score 0 and stay in n."""
    truncated: int = Field(default=0, ge=0)
    """Items whose output hit the token limit."""
    samples: int = Field(default=1, ge=1)
    """Samples per item; an item's score is their mean (avg@k)."""
    subsets: dict[str, Subset] = {}
    outcomes: str
    """JSONL of `Outcome`, relative to the run's folder."""
    seconds: float = Field(ge=0)
    """Wall clock of the evaluation."""
    generation_seconds: float = Field(default=0.0, ge=0)
    """Part of it in which the server generated."""


class Outcome(Record):
    """One output to one item."""

    id: str
    sample: int = 0
    prompt: str
    output: str
    answer: str | None
    """What was extracted from the output; None where nothing was."""
    gold: str
    score: float
    subset: str = ""
    finish: str
    """`stop`, or `length` where the token limit cut the output."""
    output_tokens: int


class ConstantAnswer(Record):
    """The best score that one answer, always given, would get: the floor of a closed-answer task."""

    answer: str
    value: float
    n: int


class Comparison(Record):
    """Two scores on the same items, paired."""

    against: str
    """`base zero-shot`, `base few-shot`, or `trial N`."""
    n: int
    difference: float
    """Mean of the per-item differences; positive is better."""
    ci_low: float
    ci_high: float
    wins: int
    losses: int
    p_value: float
    """Two-sided: exact McNemar for right-or-wrong items, paired bootstrap otherwise."""
    method: Literal["mcnemar", "bootstrap"]


class ErrorClass(Record):
    """Wrong outputs of one kind."""

    name: Literal["unparsable", "truncated", "wrong answer", "repetition", "right answer, wrong format"]
    count: int
    examples: tuple[str, ...] = ()
    """Ids of validation items."""


class Lesson(Record):
    """What a trial taught, with the figures that show it."""

    text: str
    trials: tuple[int, ...]
    evidence: str


class Trial(Record):
    """A plan and all that came of it. A failed trial is a trial like any other."""

    plan: Plan
    decision: Decision
    arithmetic: str
    """The numbers that made the decision, in one line."""
    dataset: DatasetCard | None = None
    verdict: Verdict | None = None
    training: TrainingRun | None = None
    score: Score | None = None
    """On validation."""
    train_score: Score | None = None
    """On a sample of the rows that were trained on: tells under-fitting from over-fitting."""
    comparison: Comparison | None = None
    """Against the incumbent of that moment."""
    errors: tuple[ErrorClass, ...] = ()
    expectation_met: bool | None = None
    """Whether the gain reached the plan's expectation; None where nothing was scored."""
    failure: Failure | None = None
    seconds: float = Field(ge=0)
    """Wall clock from plan to decision."""

    @property
    def number(self) -> int:
        """The trial's number, from 1."""
        return self.plan.number


class Baseline(Record):
    """The untouched model on validation: what every trial has to beat."""

    model: BaseModelCard
    zero_shot: Score
    few_shot: Score
    constant: ConstantAnswer | None = None
    """None where answers are open."""

    @property
    def better(self) -> Score:
        """The better of the two prompts; a first trial is compared with it."""
        sign = 1 if self.zero_shot.higher_is_better else -1
        return max(self.zero_shot, self.few_shot, key=lambda score: sign * score.value)


class SealedTest(Record):
    """The sealed test, opened once."""

    zero_shot: Score
    few_shot: Score
    tuned: Score | None
    """None where no trial was accepted."""
    incumbent: int | None
    """The accepted trial that was scored."""
    against_zero: Comparison | None
    against_few: Comparison | None
    constant: ConstantAnswer | None
