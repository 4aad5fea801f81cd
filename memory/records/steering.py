"""How a person steers a run: what was said, what was understood of it, and what a run that waits asks."""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal

from pydantic import Field

from memory.records.plan import Plan
from memory.records.record import Record

Place = Literal["plan", "data", "train"]
"""Where a run may wait for approval. plan: before a plan's data are made. data: before they are validated. train: when
the validator's figures are known, before the training."""

Approval = Literal["never", "plan", "data", "train"]
"""Where a run waits for approval; `never` asks nothing."""

Adjustable = Literal[
    "learning_rate",
    "epochs",
    "batch_size",
    "rows",
    "balance",
    "method",
    "lora_rank",
    "lora_alpha",
    "lora_dropout",
    "warmup_ratio",
    "schedule",
    "weight_decay",
    "sequence_len",
    "order",
    "seed",
]
"""The settings of a trial that a person may ask to change."""


class Adjust(Record):
    """Another value of one setting, in the next plan."""

    kind: Literal["adjust"] = "adjust"
    factor: Adjustable
    way: Literal["lower", "higher", "set"]
    value: str = ""
    """Of `set`: the value as `--set` would read it. Else empty: the planner decides how far."""


class DropLong(Record):
    """The next plan leaves out the longest rows."""

    kind: Literal["drop_long"] = "drop_long"
    chars: int | None = Field(default=None, ge=1)
    """Longest prompt with its answer that stays, in characters; None leaves that to the planner."""


class GoBack(Record):
    """The next plan grows from this trial."""

    kind: Literal["go_back"] = "go_back"
    trial: int = Field(ge=1)


class Halt(Record):
    """The run ends."""

    kind: Literal["halt"] = "halt"
    when: Literal["after_trial", "next_step", "now"]
    """after_trial: the trial at work is finished, then the sealed test is opened and the report written. next_step: the
    process ends after the node at work, and the run can go on. now: the process ends at once, as with Ctrl-C."""


class GoOn(Record):
    """An end after this trial is not wanted any more."""

    kind: Literal["go_on"] = "go_on"


class Budgeted(Record):
    """Another budget of wall clock."""

    kind: Literal["budget"] = "budget"
    seconds: float = Field(gt=0)
    added: bool
    """Whether the seconds come on top of the budget, or are the whole of it."""


class Asking(Record):
    """Another place to wait for approval."""

    kind: Literal["asking"] = "asking"
    approve: Approval


class Reply(Record):
    """Yes or no to the question that waits."""

    kind: Literal["reply"] = "reply"
    approve: bool


Understood = Annotated[
    Adjust | DropLong | GoBack | Halt | GoOn | Budgeted | Asking | Reply, Field(discriminator="kind")
]
"""One thing that a person can ask for."""

ForPlan = Adjust | DropLong | GoBack
"""What a planner can grant; the rest concerns the run."""


class Wish(Record):
    """Something that a person said to a run."""

    number: int = Field(ge=1)
    """Its place among all that was said in the run; a plan names the wishes that it carries by it."""
    at: float
    """Unix time in seconds."""
    text: str
    """As the person wrote it."""
    understood: tuple[Understood, ...]

    @property
    def for_plan(self) -> tuple[ForPlan, ...]:
        """What the next plan shall carry; empty where the wish concerns the run alone."""
        return tuple(one for one in self.understood if isinstance(one, ForPlan))


class Declined(Record):
    """A plan that a person refused before it became a trial."""

    plan: Plan
    wish: int = Field(ge=1)
    """The number of what was said to it: a plain no, or a no with a wish for another plan."""


class Question(Record):
    """What a run asks before it goes on. All that is needed to answer stands here."""

    id: str = ""
    """The interrupt that the answer is for; known once the question waits."""
    place: Place
    plan: Plan
    rows: int | None
    """Training rows; None before they are made."""
    training_seconds: float | None
    """The validator's prediction for the training; None before it was made."""
    seconds_left: float = Field(ge=0)
    """Wall clock of the budget that is left."""
    trials_left: int | None
    """Trials that the budget still allows, this one included; None where only the clock decides."""

    @property
    def subject(self) -> str:
        """What is asked about: the same plan at the same place is the same question, also where it is asked again under
        another interrupt."""
        return subject_of(self.place, self.plan)


def subject_of(place: Place, plan: Plan) -> str:
    """The subject of the question about a plan at a place."""
    return f"{place} {plan.number} {hashlib.sha256(plan.model_dump_json().encode()).hexdigest()[:16]}"
