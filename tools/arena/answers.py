"""What the environment answers. No record here has a field that could hold a test row, a held-out gold, a hash of a
held-out file, or the place where one lies."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from memory.records import Check, Comparison, ErrorClass, FailureKind, LossPoint, Record, Subset, TrainingRecipe

Text = str | int | float | bool


class TaskLine(Record):
    """A task in a list."""

    name: str
    title: str
    domain: str
    metric: str
    sizes: str
    """Items of validation and test, in words."""
    licence: str
    raw_data_here: bool
    """False where something may have to be fetched when the task is opened."""


class Graded(Record):
    """What the scorer makes of one output to the example question."""

    kind: str
    """What sort of output this is."""
    output: str
    score: float
    read_as: str | None
    """The answer that was extracted; None where the output holds none."""


class TaskView(Record):
    """A task as an agent should know it before it spends anything."""

    name: str
    title: str
    source: str
    licence: str
    metric: str
    higher_is_better: bool
    closed_answers: tuple[str, ...] | None
    """All answers there are, where they are few; None where answers are open."""
    max_new_tokens: int
    samples: int
    """Outputs per item; an item's score is their mean."""
    temperature: float
    base_model: str
    sizes: dict[str, int]
    """Items of `train`, `validation` and `test`."""
    example_prompt: str
    """A question of the training split as the model is asked it; the chat template is put around it."""
    example_answer: str
    scorer: tuple[Graded, ...]
    """What the scorer says to four outputs to that question."""
    budget_seconds: float
    seconds_left: float
    final_test_allowed: bool


class SystemInfo(Record):
    """The machine and the engines."""

    processors: str
    memory_bytes: int
    memory_free_bytes: int
    """Of the largest GPU where `device` is cuda, else of the machine."""
    device: Literal["cpu", "cuda"]
    disk_free_bytes: int
    engines: dict[str, str]
    """Version of each library that trains, serves and scores."""
    sandbox: str
    """What holds generated code, in words."""


class RawFileView(Record):
    """A file of raw training data in figures; its rows are to be had from the training split, which holds none of the
    held-out questions."""

    name: str
    source: str
    licence: str
    rows: int
    columns: tuple[str, ...]
    median_tokens: int
    longest_tokens: int


class DataView(Record):
    """The training data at a glance."""

    rows: int
    """Of the training split."""
    columns: tuple[str, ...]
    """Further columns of its rows."""
    median_tokens: int
    """Of prompt and answer together, about."""
    longest_tokens: int
    answers: dict[str, int]
    """The most frequent answers of several rows; empty where answers hardly repeat."""
    raw_files: tuple[RawFileView, ...]
    """Files that the training split was made of; empty where a generator makes the items."""


class TrainRow(Record):
    """A row of the training split."""

    id: str
    prompt: str
    answer: str
    columns: dict[str, Text]


class RowPage(Record):
    """Rows of the training split, in its order."""

    rows: tuple[TrainRow, ...]
    total: int


class NewRow(Record):
    """A row to train on, whoever wrote it."""

    prompt: str
    """What the user says."""
    answer: str
    """What the model shall say."""


class DatasetView(Record):
    """A training file of the session."""

    name: str
    rows: int
    graded: int
    """Rows whose question is one of the training split: validation checks their answers with the scorer."""
    sha256: str
    dropped: int = 0
    """Rows of the source for which the function returned nothing."""
    sample: tuple[NewRow, ...] = ()
    """Its first rows."""


class Validation(Record):
    """Whether a training can succeed, measured before it is paid for. The first check that fails ends the list."""

    dataset: str
    passed: bool
    checks: tuple[Check, ...]
    kind: FailureKind | None = None
    """How it failed."""
    way_out: str = ""
    predicted_seconds: float = 0.0
    """Of all optimiser steps; start-up and merge left out."""
    memory_bytes: int = 0
    """Peak memory of the training by estimate."""
    tokens: int = 0
    """Of one epoch."""


class Training(Record):
    """A finished training of the session."""

    number: int
    """Its name in later calls, and in a recipe's `continue_from`."""
    dataset: str
    recipe: TrainingRecipe
    steps: int
    tokens: int
    seconds: float
    """Wall clock of the engine, start-up and merge included."""
    first_loss: float | None
    last_loss: float | None
    peak_memory_bytes: int
    snapshots: tuple[int, ...]
    """Optimiser steps whose weights were kept; each can be evaluated."""
    ladder: tuple[str, ...]
    """What was changed to make it fit into memory; empty where the recipe fitted."""


class Figures(Record):
    """A score with its error bar."""

    metric: str
    higher_is_better: bool
    value: float
    n: int
    stderr: float
    ci_low: float
    ci_high: float
    """95 % interval."""
    parsed: int
    """Items whose output held an answer; the others score 0 and stay in n."""
    truncated: int
    """Items whose output hit the token limit."""
    shots: int
    subsets: dict[str, Subset] = Field(default_factory=dict)
    others: dict[str, float] = Field(default_factory=dict)
    """Further measures, which decide nothing."""


class Evaluation(Record):
    """A model on validation."""

    id: str
    """Its name in later calls."""
    training: int | None
    """None for the untouched model."""
    step: int | None
    """The snapshot that was scored; None for the end of the training."""
    score: Figures
    seconds: float


class ItemOutcome(Record):
    """One output on validation, without the gold."""

    id: str
    sample: int
    prompt: str
    output: str
    answer: str | None
    """What was extracted from the output."""
    score: float
    error: str | None
    """The class of the error; None where the output is right."""
    finish: str


class OutcomePage(Record):
    """Outcomes of an evaluation, in the order of the items."""

    outcomes: tuple[ItemOutcome, ...]
    total: int


class Feedback(Record):
    """What an evaluation teaches."""

    evaluation: str
    score: Figures
    errors: tuple[ErrorClass, ...]
    against: tuple[Comparison, ...]
    """Paired comparisons with the other evaluations of the session on the same items."""
    losses: tuple[LossPoint, ...]
    """The training's curve, thinned; empty for the untouched model."""


class FinalTest(Record):
    """The sealed test, opened once."""

    training: int
    step: int | None
    base: Figures
    """The untouched model, zero-shot."""
    base_few_shot: Figures
    tuned: Figures
    against_base: Comparison
    """The tuned model against the better of the two."""


class SessionView(Record):
    """Where a session stands."""

    task: str
    budget_seconds: float
    spent_seconds: float
    datasets: tuple[str, ...]
    trainings: tuple[Training, ...]
    evaluations: tuple[Evaluation, ...]
    final_test: FinalTest | None
    """Once it is there the session has ended: nothing more is trained or scored."""


class Job(Record):
    """Work that takes longer than a call should."""

    id: str
    kind: Literal["validation", "training", "evaluation", "final test"]
    state: Literal["waiting", "running", "done", "failed"]
    says: str
    """Where it stands, in words; of a failure, what happened and what can be done."""
    seconds: float
    """Since it began to run."""
    validation: Validation | None = None
    training: Training | None = None
    evaluation: Evaluation | None = None
    final_test: FinalTest | None = None
