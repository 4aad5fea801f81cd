"""All that a person asked for, as one frozen record that flows down from the front door."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from graph.edits import Edit
from graph.planning import Access
from graph.values import EMBEDDED_MODEL
from memory.errors import InputError
from memory.records import Approval, Budget, Planning, Record, Task
from tools import benchmarks
from tools.handover.export_check import Form
from tools.own_task.task_file import read_task

Action = Literal[
    "start", "resume", "history", "fork", "answer", "list", "new_task", "export", "reproduce", "serve", "ask"
]

SMALLEST_BUDGET_SECONDS = 240.0
"""Server start, baseline, one short trial and the sealed test of the embedded model on two cores; less is a typo."""
DEFAULT_BUDGET_SECONDS = 1800.0
"""Half an hour: three trials of the embedded model on two cores, baseline and sealed test included."""
GUARD_MARGIN = 0.05
"""Share of its score that a guard may lose."""


class Settings(Record):
    """All that a person asked for. Nothing below the front door reads the environment: what it needs lies here."""

    action: Action
    runs: Path
    """Absolute folder that holds the runs."""
    run: str = ""
    """Of all that works on a run that exists: the run's id, or enough of it."""
    checkpoint: str = ""
    """Of `fork`: a prefix of the checkpoint's id."""
    edits: tuple[Edit, ...] = ()
    benchmark: str = ""
    """Of `start`: a name in the table of benchmarks, unless `task_file` is given. A run that exists takes this and all
    that follows to `seed` from its own task."""
    task_file: Path | None = None
    """Absolute path of a task file (TOML): a person's own data and metric."""
    guards: tuple[str, ...] = ()
    """Benchmarks that must not become worse."""
    guard_margin: float = GUARD_MARGIN
    base_model: str = EMBEDDED_MODEL
    description: str = ""
    datasets: tuple[str, ...] = ()
    """Absolute paths of JSONL files."""
    data_dir: Path | None = None
    """Absolute folder that holds raw data of benchmarks; None for what is fetched into the cache."""
    budget: Budget = Budget(seconds=DEFAULT_BUDGET_SECONDS)
    sample_cap: int | None = None
    seed: int = 0
    approve: Approval = "never"
    """Where the run waits for a person's yes."""
    wait: float = 0.0
    """Of `start`, `resume`, `fork` and `answer`: so many seconds a question waits with engines warm, before the process
    ends."""
    planning: Planning = Planning()
    allow_weak_sandbox: bool = False
    """Whether generated code may run where bubblewrap is missing."""
    access: Access = Access()
    """Key and address of language models, from the environment of this start."""
    new_task: Path | None = None
    """Of `new_task`: absolute path of the data to look at."""
    export_format: Form = "merged"
    destination: Path | None = None
    """Of `export`: absolute folder to write; None takes RUN/export/FORMAT."""
    question: str = ""
    """Of `ask`."""
    says: str = ""
    """Of `answer`."""
    port: int = 8000
    """Of `serve`."""
    json_output: bool = False
    """Standard output is for a program; lines for people go to standard error."""
    plain: bool = False
    """No live view."""
    colour: bool = True
    cache: Path
    """Absolute folder of engine environments and base models, shared by all runs."""

    def task(self) -> Task:
        """The task of a new run. Raises InputError for an unknown benchmark or guard, and for a task file or data that
        cannot be used."""
        own = read_task(self.task_file, self.seed) if self.task_file else None
        benchmark = benchmarks.named(self.benchmark, own)
        for name in self.guards:
            if benchmarks.get(name) is benchmark:
                raise InputError(f"{name} cannot guard itself", "Name other benchmarks with --guard.")
        return Task(
            base_model=self.base_model,
            benchmark=benchmark.name,
            own=own,
            description=self.description or (own.description if own else ""),
            raw_data=self.datasets,
            data_dir=str(self.data_dir) if self.data_dir else None,
            metric=benchmark.metric,
            higher_is_better=benchmark.higher_is_better,
            sample_cap=self.sample_cap,
            budget=self.budget,
            guards=self.guards,
            guard_margin=self.guard_margin,
            approve=self.approve,
            seed=self.seed,
            planning=self.planning,
            allow_weak_sandbox=self.allow_weak_sandbox,
        )
