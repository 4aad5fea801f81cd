"""The forms in which a language model proposes a trial: flat, with simple fields, so that small models can fill them.

Where the numbers are the model's own it fills in `ProposedPlan`; where Optuna tunes them, `StructuredPlan`.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from memory.records import Record
from tools.proposers.tuning import Tunable


class ProposedStructure(Record):
    """The next trial without its numbers, or the end of the run."""

    diagnosis: str = Field(max_length=240, description="what the figures so far show, with the figure")
    hypothesis: str = Field(max_length=240, description="the one change, and why it should help")
    decision: Literal["train", "stop"] = Field(description="train, or stop where no trial can be expected to help")
    parent: int | None = Field(default=None, ge=0, description="trial to grow from; 0 is the starting recipe")
    expected_gain: float | None = Field(
        default=None, ge=-1, le=1, description="expected change of the metric against the best so far"
    )
    method: Literal["lora", "qlora", "full"] | None = Field(default=None, description="qlora needs a GPU")
    objective: Literal["dpo", "grpo"] | None = Field(
        default=None,
        description="go on from the parent's weights: dpo with pairs of its right and wrong answers, grpo with scores "
        "of answers that it samples",
    )
    lora_alpha: int | None = Field(default=None, ge=1, le=512)
    lora_dropout: float | None = Field(default=None, ge=0, le=0.5)
    warmup_ratio: float | None = Field(default=None, ge=0, le=0.5)
    schedule: Literal["cosine", "linear", "constant"] | None = None
    weight_decay: float | None = Field(default=None, ge=0, le=0.2)
    balance: Literal["none", "answer", "length"] | None = Field(default=None, description="equally many rows of each")
    curriculum: Literal["length"] | None = Field(default=None, description="short rows first")
    filter: str | None = Field(
        default=None, max_length=200, description="SQL over prompt, answer, prompt_chars, answer_chars and the columns"
    )
    mix: int | None = Field(default=None, ge=1, description="number of a further source; it makes up 30 % of the rows")
    own_words: bool | None = Field(default=None, description="true: the parent's own right answers replace the file's")
    drop_near_copies: bool | None = Field(default=None, description="true: of rows that nearly repeat, one stays")
    synthesise: str | None = Field(
        default=None, max_length=600, description="what new rows a model shall write, shown training rows as examples"
    )
    synthesise_rows: int | None = Field(default=None, ge=1, le=20_000, description="how many; 100 where open")
    rewrite: str | None = Field(
        default=None,
        max_length=600,
        description="how a model shall rewrite each row; the scorer drops wrong ones",
    )
    rewrite_field: Literal["answer", "prompt"] | None = Field(default=None, description="answer where open")
    judge: str | None = Field(
        default=None,
        max_length=600,
        description="rubric by which a model scores rows 1 to 5; under 4 is dropped",
    )
    data_model: Literal["strong", "weak"] | None = Field(
        default=None, description="which model does these; where open, strong writes and weak judges"
    )
    transform: str | None = Field(
        default=None,
        max_length=6_000,
        description="Python source of transform(row): a dict with prompt, answer, columns; returns one, a list, None",
    )
    go_on: bool | None = Field(
        default=None, description="true: go on from the parent's weights with rows that they have not seen"
    )

    @property
    def sets_anything(self) -> bool:
        """Whether it says more than words: a parent or a setting."""
        words = {
            "diagnosis",
            "hypothesis",
            "decision",
            "expected_gain",
            "synthesise_rows",
            "rewrite_field",
            "data_model",
        }
        return any(value not in (None, False) for name, value in self if name not in words)


class ProposedPlan(ProposedStructure):
    """The next trial, or the end of the run."""

    learning_rate: float | None = Field(default=None, ge=1e-6, le=0.1)
    epochs: float | None = Field(default=None, ge=0.25, le=20, description="passes over the rows")
    rows: int | None = Field(default=None, ge=1, le=10_000_000, description="training rows")
    batch_size: int | None = Field(default=None, ge=1, le=256, description="rows an optimiser step")
    lora_rank: int | None = Field(default=None, ge=1, le=256)


class StructuredPlan(ProposedStructure):
    """The next trial, or the end of the run; what a number is set to is not asked."""

    tune: Tunable | Literal["all"] | None = Field(
        default=None, description="number to change; its value is drawn for you. null where another setting changes"
    )
    towards: Literal["lower", "higher"] | None = Field(default=None, description="way in which that number shall go")


SETTINGS = (
    "learning_rate", "epochs", "rows", "batch_size", "method", "lora_rank", "lora_alpha", "lora_dropout",
    "warmup_ratio", "schedule", "weight_decay", "balance", "curriculum", "filter",
)  # fmt: skip
"""Fields of the form that are factors of a recipe."""
DATA_STEPS = frozenset(
    {"synthesise", "synthesise_rows", "rewrite", "rewrite_field", "judge", "data_model", "transform"}
)
"""Fields of the form that are instructions and code."""
