"""How a cell of the dojo is run, and what is remembered of it.

A cell is a whole run in a folder of its own. What came of it is one small record, kept apart from the runs: the table
is written from the records alone, and they outlast the runs and go with the project, where the next cells join them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from graph import runner
from graph.dojo.grid import METHODS, Cell, Method, place
from graph.values import EMBEDDED_MODEL, in_words
from memory.errors import InputError, ServerError, TrialError
from memory.layout import RunFolder, disk, read_record, read_rows, write_record
from memory.records import Budget, Outcome, Planning, Record, Score, Strategy, Task, Trial
from nodes.deps import Propose
from tools import benchmarks
from tools.benchmarks.splits import Manifest, manifest_path
from tools.machine import processors
from tools.proposers import default_fine_tune, random_search, search
from tools.statistics import item_means

PROPOSERS: Mapping[Method, Propose] = {
    "default_sft": default_fine_tune.propose,
    "random_search": random_search.propose,
    "search": search.propose,
    "best_first": search.propose,
    "mcts": search.propose,
}
"""Who plans, by method."""
STRATEGIES: Mapping[Method, Strategy] = {"search": "greedy", "best_first": "best-first", "mcts": "mcts"}
"""How search chooses the trial to grow from, by method."""
FAILED = "failed.json"
"""In the run's folder."""


class Shown(Record):
    """A score on the sealed test, and what it is the mean of."""

    score: Score
    items: dict[str, float]
    """Mean score of each item, by id."""


class Measured(Record):
    """A finished cell: its sealed test, and what it cost."""

    cell: Cell
    metric: str
    higher_is_better: bool
    base_model: str
    base_sha256: str
    test_sha256: str
    """Hash of the sealed test; equal for all cells of one task and seed."""
    zero_shot: Shown
    few_shot: Shown
    """The untouched model."""
    tuned: Shown | None
    """The accepted trial; None where none was accepted."""
    winner: int | None
    """The accepted trial's number."""
    better_shots: int
    """Worked examples in the prompt of the untouched model that did better on validation."""
    trials: int
    """All of them, failed ones included."""
    scored_trials: int
    """Those that reached a score."""
    budget: Budget
    seconds: float
    """Wall clock of the whole run: baseline, trials, sealed test and report."""
    processors: str
    """What it ran on: seconds compare on one machine only."""
    tokens_per_second: float | None
    """Of all trainings together: it shows a machine that had other work to do. None where nothing was trained."""
    stopped_because: str
    proposers_sha256: str
    """Hash of the code that plans, to tell cells of two versions apart."""

    @property
    def handed_over(self) -> Shown:
        """What the method has to show. Without an accepted trial that is the untouched model, with the prompt that did
        better on validation: the row that every trial had to beat. The test has no say in the choice."""
        return self.tuned or (self.few_shot if self.better_shots else self.zero_shot)

    @property
    def what(self) -> str:
        """The same in words."""
        return f"trial {self.winner}" if self.tuned else f"base, {self.better_shots}-shot"


class Failed(Record):
    """A cell whose run was ended by an error of its engines; it can be resumed."""

    cell: Cell
    reason: str


def record_of(cell: Cell, records: Path) -> Path:
    """Where the record of a finished cell lies."""
    return records / f"{cell.name}.json"


def ended(cell: Cell, records: Path, root: Path) -> Measured | Failed | None:
    """What is known of a cell; None where it never began or was stopped half-way. Raises StorageError."""
    if record_of(cell, records).exists():
        return read_record(record_of(cell, records), Measured)
    failed = cell.folder(root).root / FAILED
    return read_record(failed, Failed) if failed.exists() else None


def all_measured(records: Path) -> list[Measured]:
    """Every finished cell, in the order of tasks, seeds and methods. Raises StorageError."""
    found = [read_record(path, Measured) for path in records.glob("*.json")]
    return sorted(found, key=lambda one: (*place(one.cell.task), one.cell.seed, METHODS.index(one.cell.method)))


def task_of(cell: Cell, budget: Budget) -> Task:
    """The task of a cell's run. Raises InputError for an unknown benchmark."""
    benchmark = benchmarks.get(cell.task)
    return Task(
        base_model=EMBEDDED_MODEL,
        benchmark=benchmark.name,
        metric=benchmark.metric,
        higher_is_better=benchmark.higher_is_better,
        budget=budget,
        seed=cell.seed,
        planning=Planning(search=STRATEGIES.get(cell.method, "greedy"), recall=False),
    )


def check_budget(cell: Cell, records: Path, root: Path, budget: Budget) -> None:
    """Refuse to put cells of different budgets into one table. Raises InputError."""
    record, begun = record_of(cell, records), cell.folder(root).task
    known = budget
    if record.exists():
        known = read_record(record, Measured).budget
    elif begun.exists():
        known = read_record(begun, Task).budget
    if known != budget:
        most = f" --max-trials {known.max_trials}" if known.max_trials else ""
        same = f"--budget {in_words(known.seconds)}{most}"
        raise InputError(
            f"{cell.name} was begun with {same}", "Say the same again, or name another --folder and --docs."
        )


def carry_out(cell: Cell, records: Path, root: Path, budget: Budget, prepare: runner.Prepare) -> Measured | Failed:
    """Run a cell, or go on with it where it was stopped, and write down what came of it.

    A failure of its engines fails the cell. What would fail every other cell as well (set-up, disk, a folder that
    another process holds) is raised, as runner.start and runner.resume raise it.
    """
    folder = cell.folder(root)
    try:
        if folder.task.exists():
            result = runner.resume(folder, prepare)
        else:
            result = runner.start(task_of(cell, budget), folder, prepare)
    except (ServerError, TrialError) as error:
        failed = Failed(cell=cell, reason=str(error))
        write_record(folder.root / FAILED, failed)
        return failed
    measured = measured_of(cell, result)
    write_record(record_of(cell, records), measured)
    with disk(folder.root):
        (folder.root / FAILED).unlink(missing_ok=True)
    remove_weights(folder)
    return measured


def measured_of(cell: Cell, result: runner.RunResult) -> Measured:
    """A finished run as the dojo remembers it."""
    state, folder = result.state, result.folder
    baseline, test, trials = state.get("baseline"), state.get("test"), state.get("trials", [])
    assert baseline is not None and test is not None, "a finished run was measured"
    task = state["task"]
    return Measured(
        cell=cell,
        metric=task.metric,
        higher_is_better=task.higher_is_better,
        base_model=baseline.model.name,
        base_sha256=baseline.model.sha256,
        test_sha256=read_record(manifest_path(folder.data), Manifest).splits["test"].sha256,
        zero_shot=shown(test.zero_shot, folder),
        few_shot=shown(test.few_shot, folder),
        tuned=shown(test.tuned, folder) if test.tuned else None,
        winner=test.winner,
        better_shots=baseline.better.shots,
        trials=len(trials),
        scored_trials=sum(trial.score is not None for trial in trials),
        budget=task.budget,
        seconds=state.get("spent_seconds", 0.0),
        processors=processors(),
        tokens_per_second=speed(trials),
        stopped_because=state.get("stop") or "",
        proposers_sha256=hash_of_proposers(),
    )


def speed(trials: Sequence[Trial]) -> float | None:
    """Tokens trained on a second, over all trainings; None where there was none."""
    trainings = [trial.training for trial in trials if trial.training]
    seconds = sum(training.train_seconds for training in trainings)
    return round(sum(training.tokens for training in trainings) / seconds, 1) if seconds else None


def shown(score: Score, folder: RunFolder) -> Shown:
    """A score of a run with its items. Raises StorageError for outcomes that cannot be read."""
    outcomes = read_rows(folder.resolve(score.outcomes), Outcome)
    return Shown(score=score, items=item_means((outcome.id, outcome.score) for outcome in outcomes))


def hash_of_proposers() -> str:
    """Hash over the source files of all proposers."""
    files = sorted(Path(search.__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def remove_weights(folder: RunFolder) -> None:
    """Remove the whole weights of a finished cell's trials, a gigabyte a cell; `model/` and the adapters stay."""
    with disk(folder.root):
        for path in folder.root.glob("trials/**/model*.safetensors"):
            path.unlink()
