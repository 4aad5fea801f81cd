"""The folder that holds the runs: ids of new ones, finding one by the start of its name, and what state each is in."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from graph.live import columns
from graph.runner import compiled, config_of, open_database, state_of
from graph.snapshot import question_of
from graph.values import near
from memory.errors import InputError, RunBusyError, StorageError
from memory.events import Event
from memory.layout import RunFolder, folder_name, read_record
from memory.records import Record, Task
from memory.state import State, winner
from tools import report

TAIL_BYTES = 65_536
"""Of the events of a run that another process holds; the last one is all that is wanted."""


class RunSummary(Record):
    """One line of `--list`."""

    run_id: str
    status: Literal["running", "waiting", "finished", "stopped", "unreadable"]
    """`stopped` can be resumed; `waiting` wants an answer."""
    benchmark: str
    base_model: str
    trials: int | None = None
    """Ended trials; None while the run is held by another process."""
    baseline: float | None = None
    """The better prompt of the untouched model, on validation."""
    best: float | None = None
    """The trial that would be handed over, on validation."""
    test: float | None = None
    """The tuned model, on the sealed test."""
    outcome: str = ""
    """Of a finished run: improved, not improved, or nothing accepted."""
    says: str = ""
    """The last thing that happened, or why it cannot be read."""


def new_run(runs: Path, benchmark: str) -> RunFolder:
    """A folder name that no run has yet: when and what. Nothing is made."""
    stem = f"{time.strftime('%Y%m%d-%H%M%S')}-{folder_name(benchmark)}"
    names = [stem, *(f"{stem}-{number}" for number in range(2, 100))]
    return next(RunFolder(runs / name) for name in names if not (runs / name).exists())


def all_runs(runs: Path) -> list[RunFolder]:
    """The runs, oldest first; a folder without a task is none."""
    return sorted((RunFolder(task.parent) for task in runs.glob("*/task.json")), key=lambda run: run.id)


def find(runs: Path, name: str) -> RunFolder:
    """The run of this id, or the only one whose id starts or ends like this. Raises InputError."""
    names = {folder.id: folder for folder in all_runs(runs)}
    if name in names:
        return names[name]
    like = [known for known in names if name and (known.startswith(name) or known.endswith(name))]
    if len(like) == 1:
        return names[like[0]]
    if like:
        raise InputError(f"{len(like)} runs are called like {name}", f"Write more of it: {', '.join(like[:5])}.")
    if not names:
        raise InputError(f"there is no run {name}: {runs} holds none", "Name the folder of runs with --run-dir DIR.")
    raise InputError(f"there is no run {name} in {runs}", near(name, names, "--list lists them."))


def read_state(folder: RunFolder) -> State:
    """The newest state of a run that is not running; empty where it never began. Raises RunBusyError, StorageError."""
    with open_database(folder) as database:
        return state_of(compiled(database), folder)


def summary(folder: RunFolder) -> RunSummary:
    """What `--list` says of a run. A run that is busy or broken is a line, not an error."""
    try:
        task = read_record(folder.task, Task)
    except StorageError as error:
        return RunSummary(run_id=folder.id, status="unreadable", benchmark="", base_model="", says=str(error))
    known = RunSummary(run_id=folder.id, status="stopped", benchmark=task.benchmark, base_model=task.base_model)
    try:
        with open_database(folder) as database:
            graph = compiled(database)
            state, asked = state_of(graph, folder), question_of(graph.get_state(config_of(folder)))
    except RunBusyError:
        return known.model_copy(update={"status": "running", "says": last_words(folder)})
    except (StorageError, InputError) as error:
        return known.model_copy(update={"status": "unreadable", "says": str(error)})
    baseline, best, test = state.get("baseline"), winner(state), state.get("test")
    return known.model_copy(
        update={
            "status": "finished" if test else "waiting" if asked else "stopped",
            "trials": len(state.get("trials", [])),
            "baseline": baseline.better.value if baseline else None,
            "best": best.score.value if best and best.score else None,
            "test": test.tuned.value if test and test.tuned else None,
            "outcome": report.judge(test, "").outcome if test else "",
            "says": state.get("stop") or last_words(folder),
        }
    )


def past_events(folder: RunFolder) -> list[Event]:
    """The events of a run so far, without a line that is half written or was cut by a kill."""
    try:
        with folder.events.open("rb") as file:
            return list(whole(file))
    except FileNotFoundError:
        return []


def last_words(folder: RunFolder) -> str:
    """The last event of a run, in words; empty where nothing happened. Readable while another process writes."""
    try:
        with folder.events.open("rb") as file:
            file.seek(max(0, folder.events.stat().st_size - TAIL_BYTES))
            events = list(whole(file))
    except FileNotFoundError:
        return ""
    return events[-1].says if events else ""


def whole(lines: Iterable[bytes]) -> Iterator[Event]:
    """The events among `lines`; the first and the last may be torn."""
    for line in lines:
        try:
            yield Event.model_validate_json(line)
        except ValidationError:
            continue


def listing(summaries: Sequence[RunSummary]) -> list[str]:
    """The summaries as lines for a person, columns aligned."""
    if not summaries:
        return ["no runs yet"]
    head = ("RUN", "STATUS", "TRIALS", "BASE", "BEST", "TEST", "MODEL", "")
    rows = [
        (
            run.run_id,
            run.outcome or run.status,
            "" if run.trials is None else str(run.trials),
            *("" if value is None else f"{value:.3f}" for value in (run.baseline, run.best, run.test)),
            Path(run.base_model).name,
            run.says,
        )
        for run in summaries
    ]
    return columns([head, *rows])
