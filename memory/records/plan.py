"""A trial as it is decided before anything is spent on it: its data, its training, and why."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from memory.records.operators import Augment, Operator, Preferences, Select, SelfDistil, Synthesise
from memory.records.record import Record


class DataRecipe(Record):
    """How the training file is made: operators, applied in order to the benchmark's training split."""

    operators: tuple[Operator, ...]

    @property
    def rows(self) -> int | None:
        """Rows that the recipe allows, or None where it takes all there are."""
        rows: int | None = None
        for operator in self.operators:
            if isinstance(operator, Select):
                rows = operator.rows if rows is None else min(rows, operator.rows)
            elif isinstance(operator, Augment) and rows is not None:
                rows *= 1 + operator.copies
            elif isinstance(operator, SelfDistil) and operator.unsolved == "drop":
                rows = min(rows or operator.rows, operator.rows) * operator.keep
            elif isinstance(operator, Preferences):
                rows = min(rows or operator.rows, operator.rows)
            elif isinstance(operator, Synthesise) and rows is not None:
                rows += operator.rows
        return rows

    @property
    def synthesised(self) -> int:
        """Rows that are to be written anew, beside those of the training split."""
        return sum(operator.rows for operator in self.operators if isinstance(operator, Synthesise))


class TrainingRecipe(Record):
    """The dozen settings of a training that a planner reasons about."""

    method: Literal["lora", "qlora", "full"] = "lora"
    objective: Literal["sft", "dpo", "grpo"] = "sft"
    """What is trained towards. `sft`: the answers of the rows. `dpo`: the preferred answer of each pair against the
    rejected one (Rafailov et al. 2023, arXiv 2305.18290). `grpo`: answers that the model samples in training, each
    against the others to its question by the benchmark's own score (Shao et al. 2024, arXiv 2402.03300)."""
    beta: float = Field(default=0.1, ge=0)
    """How dear it is to leave the model that the training begins with, for `dpo` and `grpo`: its KL divergence counts
    this many times. 0.1 is the usual value for DPO; GRPO takes 0.04 in its paper, and 0 keeps no reference at all."""
    generations: int = Field(default=8, ge=2, le=64)
    """Answers that `grpo` samples to each question; if all score the same, the question teaches nothing."""
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
    order: Literal["shuffled", "file"] = "shuffled"
    """`file` trains the rows in the order of the training file, each epoch anew: a curriculum."""
    continue_from: int | None = None
    """The trial whose trained weights this training goes on from, with a fresh optimiser; None starts from the base
    model."""
    snapshots: int = Field(default=0, ge=0, le=8)
    """How often, evenly over the training and before its end, the weights are kept and scored on validation: the best
    of them and the end is the trial's model, and a score that falls twice ends the training. 0 scores the end only."""
    seed: int = 0

    @property
    def approach(self) -> str:
        """Method and, where it is not imitation, objective: `lora`, or `lora dpo`."""
        return self.method if self.objective == "sft" else f"{self.method} {self.objective}"


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
    repeats: int | None = None
    """The trial whose recipe this one runs again under another seed, to tell its gain from noise; None for a new
    recipe."""
    wishes: tuple[int, ...] = ()
    """Numbers of the person's wishes that this plan carries; a wish is carried once."""
    expected_gain: float
    """Expected difference of the validation metric against the incumbent, in units of the metric."""
    data: DataRecipe
    training: TrainingRecipe
    proposer: Literal["search", "llm", "default", "random"]
    """Who proposed it: ours, a language model, one default fine-tune, or random draws (the last two are references)."""
    tuned: tuple[str, ...] = ()
    """Factors whose values Optuna drew from the scores so far; all others are the proposer's, or its parent's."""
    cites: tuple[str, ...] = ()
    """What of the things that were looked up the plan rests on, each with licence and size."""
    predicted_seconds: float = Field(ge=0)
    """What the planner thinks the whole trial costs."""

    def cites_number(self, number: int) -> bool:
        """Whether it rests on the entry of that number of what was looked up."""
        return any(cite.startswith(f"R{number} ") for cite in self.cites)
