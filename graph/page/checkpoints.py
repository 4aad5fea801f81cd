"""The checkpoints of a run as the page shows them: what each holds in words, and a new run grown from one.

DuckDB has one owner a file, so a run that is at work elsewhere cannot be opened; its events then tell what happened.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import get_args

from graph.background import held
from graph.edits import Edit, edit, editable
from graph.fork import fork
from graph.history import Entry, changes, history, resolve
from graph.page.paging import Stamped, stamped
from graph.page.safe_text import document
from graph.runner import compiled, config_of, open_database, state_of
from graph.runs import new_run
from graph.values import in_words
from memory.errors import RunBusyError
from memory.events import Event
from memory.layout import RunFolder, read_record
from memory.origin import Origin
from memory.records import Plan, Planning, Record, Select, Task, TrainingRecipe
from memory.state import State
from tools.lessons import distilled
from tools.report_text import bullets

HEAD = ("When", "What happened", "Node", "Next", "Checkpoint")
NOT_BEGUN = "This run has not come to its first checkpoint yet."
AT_WORK = (
    "This run is at work in a process of its own, and only that process can read its checkpoints. They stand here as "
    "soon as it ends, stops or waits no longer; until then, what has happened so far, newest first."
)

_turn = threading.Lock()
"""Within this process, too, only one opens a run's database at a time; another tab waits for a moment."""


@dataclass(frozen=True)
class Past:
    """What can be told of a run."""

    entries: tuple[Entry, ...]
    """Newest first; none where the run is at work elsewhere."""
    busy: str = ""
    """Why there are none, in words."""


def past(folder: RunFolder) -> Past:
    """The checkpoints of a run. Raises InputError for a run of another version, StorageError."""
    if not folder.snapshot.exists():  # the database of a run that is about to begin is left to its process
        return Past((), NOT_BEGUN)
    if at_work(folder):
        return Past((), AT_WORK)
    try:
        entries = _entries(folder, stamped(folder.snapshot))
    except RunBusyError:
        return Past((), AT_WORK)
    return Past(entries) if entries else Past((), NOT_BEGUN)


def at_work(folder: RunFolder) -> bool:
    """Whether a process is at work on the run; the page itself, reading its checkpoints, is not."""
    with _turn:
        return held(folder)


def state_at(folder: RunFolder, checkpoint: str) -> tuple[State, Entry]:
    """The state at a checkpoint, and the checkpoint. Raises InputError where there is none of that id, RunBusyError,
    StorageError."""
    found = resolve(past(folder).entries, checkpoint, folder.id)
    place = config_of(folder)
    place["configurable"]["checkpoint_id"] = found.checkpoint_id
    with _turn, open_database(folder) as database:
        return State(**compiled(database).get_state(place).values), found  # type: ignore[typeddict-item]


def grow(source: RunFolder, checkpoint: str, edits: Sequence[Edit]) -> tuple[RunFolder, Origin]:
    """A new run beside `source` that goes on from the checkpoint with `edits` applied, once it is resumed. Raises
    InputError, RunBusyError, StorageError."""
    with _turn:
        target = new_run(source.root.parent, read_record(source.task, Task).benchmark)
        return target, fork(source, checkpoint, edits, target)


def rows(entries: Sequence[Entry]) -> list[list[str]]:
    """The checkpoints as a table under HEAD."""
    return [
        [when(entry.at), entry.happened, entry.node or "", entry.following or "end", entry.checkpoint]
        for entry in entries
    ]


def event_rows(events: Sequence[Event]) -> list[list[str]]:
    """What happened lately as a table under HEAD, newest first."""
    return [[when(event.at), event.says, event.node or "", "", ""] for event in reversed(events)]


def choices(entries: Sequence[Entry]) -> list[tuple[str, str]]:
    """The checkpoints to choose from: words, and the short id."""
    return [(f"{when(entry.at)} · {entry.happened}"[:120], entry.checkpoint) for entry in entries]


def in_full(state: State, entry: Entry) -> str:
    """A state as Markdown: where the run stood, what had happened until then, and the plan that waits."""
    task, plan = state["task"], state.get("plan")
    stood = (
        f"**{task.benchmark} with {task.base_model}** at {when(entry.at)}: "
        f"{in_words(state.get('spent_seconds', 0.0))} of {in_words(task.budget.seconds)} spent, "
        f"{len(state.get('trials', []))} trials ended; next: {entry.following or 'nothing, the run is finished'}."
    )
    parts = [stood, bullets(changes(State(), state))]
    if plan is not None:
        parts += [f"**Trial {plan.number}, in progress**", bullets(plan_lines(plan))]
    if lessons := distilled(state.get("lessons", [])):
        parts += ["**Lessons**", bullets(lesson.says for lesson in lessons)]
    return document("\n\n".join(parts))


def plan_lines(plan: Plan) -> list[str]:
    """A plan in a few lines."""
    recipe = ", ".join(f"{name} {value}" for name, value in plan.training.model_dump(exclude_none=True).items())
    return [
        f"Diagnosis: {plan.diagnosis}",
        f"Hypothesis: {plan.hypothesis} Expected gain {plan.expected_gain:+.3f}.",
        f"Data: {', then '.join(step.kind for step in plan.data.operators) or 'the training split as it is'}"
        + (f"; {plan.data.rows} rows at most" if plan.data.rows else ""),
        f"Training: {recipe}",
    ]


# --- what a fork may change -----------------------------------------------------------------------------------------


def values(state: State, entry: Entry) -> dict[str, str]:
    """What a fork from here may change: keys of `--set`, and the values that stand there now."""
    return editable(state, entry.following)


def allowed(key: str) -> tuple[str, ...] | None:
    """The values of a key that has a closed list of them; None for any other."""
    records: dict[str, type[Record]] = {"plan.balance": Select, "search": Planning}
    record = records.get(key, TrainingRecipe if "." in key else Task)
    field = record.model_fields.get(key.removeprefix("plan."))
    listed = get_args(field.annotation) if field else ()
    return listed if listed and all(isinstance(value, str) for value in listed) else None


def edits_of(before: Mapping[str, str], given: Mapping[str, str]) -> list[Edit]:
    """The fields that a person has changed. Raises InputError for a value that cannot stand there."""
    return [edit(f"{key}={given[key].strip()}") for key, old in before.items() if given[key].strip() != old]


def when(at: float) -> str:
    """A Unix time as a person of this machine reads it."""
    return datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M:%S")


@lru_cache(maxsize=8)
def _entries(folder: RunFolder, written: Stamped) -> tuple[Entry, ...]:
    """Newest first. Every state of the run is read for it, so it is done once: whoever writes a checkpoint writes the
    snapshot, too."""
    with _turn, open_database(folder) as database:
        graph = compiled(database)
        state_of(graph, folder)  # refuses a run of another version
        return tuple(reversed(history(graph, folder)))
