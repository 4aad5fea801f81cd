"""What the person asked for, and the model that is tuned."""

from __future__ import annotations

from pydantic import Field

from memory.records.own_task import OwnTask
from memory.records.planning import Planning
from memory.records.record import Record
from memory.records.steering import Approval


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
    """A name in the table of benchmarks, or the name of the person's own task."""
    own: OwnTask | None = None
    """The person's own data and metric; None for a benchmark of the table."""
    description: str = ""
    """What the person says about the task, in words."""
    raw_data: tuple[str, ...] = ()
    """Further training sources (JSONL files) beside the benchmark's own training split."""
    data_dir: str | None = None
    """Absolute path of a folder that already holds raw data of benchmarks; None for what is fetched into the cache."""
    metric: str
    higher_is_better: bool = True
    sample_cap: int | None = Field(default=None, ge=1)
    """At most this many training rows per trial; None leaves the planner to decide."""
    budget: Budget
    approve: Approval = "never"
    """Where the run waits for a person's yes."""
    guards: tuple[str, ...] = ()
    """Benchmarks of the table that must not become worse."""
    guard_margin: float = Field(default=0.05, ge=0, le=1)
    """Largest loss of a guard's metric, against the untouched model, with which a trial can be accepted."""
    seed: int = 0
    """Seeds data selection, training and the sampler; a trial's own seed lies in its recipes."""
    planning: Planning = Planning()
    """Who plans."""
    allow_weak_sandbox: bool = False
    """Whether generated code may run where bubblewrap is missing: without network and within limits, but able to read
    and write the person's files."""


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
