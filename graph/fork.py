"""Grows a new run from a checkpoint of another, which is only read and may be deleted afterwards."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from graph.edits import Edit, edited
from graph.history import history, resolve
from graph.runner import compiled, config_of, open_database, saver_of, state_of
from graph.runs import past_events
from graph.steering import came_from
from memory.checkpointer import copy_lineage
from memory.errors import InputError, StorageError
from memory.events import Event
from memory.layout import RunFolder, disk, link_or_copy, made, write_record, write_text
from memory.ledger import Ledger
from memory.origin import Origin, origin_path
from memory.state import State


def fork(source: RunFolder, checkpoint: str, edits: Sequence[Edit], target: RunFolder) -> Origin:
    """Make the run `target`, which goes on (by resuming it) from a checkpoint of `source` with `edits` applied.

    `checkpoint` is a prefix of the id. All is checked before anything is made, and what was made is removed again where
    it cannot be finished. Raises InputError, RunBusyError where another process holds `source`, and StorageError.
    """
    with open_database(source) as database:
        graph = compiled(database)
        state_of(graph, source)  # refuses a run of another version
        found = resolve(history(graph, source), checkpoint, source.id)
        place = config_of(source)
        place["configurable"]["checkpoint_id"] = found.checkpoint_id
        state = State(**graph.get_state(place).values)  # type: ignore[typeddict-item]
        if found.following is None:
            raise InputError(f"run {source.id} ends at {found.checkpoint}", "Fork an earlier checkpoint.")
        changes = edited(state, found.following, edits)
        written = tuple(f"{edit.key}={edit.value}" for edit in edits)
        origin = Origin(run=source.id, checkpoint=found.checkpoint_id, happened=found.happened, edits=written)
        made(target.root, mode=0o700)
        try:
            link_files(source, target, state)
            copy_events(source, target, found.at, origin)
            write_record(origin_path(target), origin)
            with open_database(target) as copy:
                config = copy_lineage(saver_of(database), place, saver_of(copy), target.id)
                if changes:
                    # Entered as the work of a node that leads here, so that the routes decide anew on the edited state.
                    compiled(copy).update_state(config, dict(changes), as_node=came_from(state, found.following))
                state = state_of(compiled(copy), target)
                Ledger(copy, target).rebuild(state)
            write_plan(target, state)
            write_record(target.task, state["task"])
        except BaseException:  # Ctrl-C, too: nothing half-made stays, and whatever it was goes on
            shutil.rmtree(target.root, ignore_errors=True)
            raise
    return origin


def link_files(source: RunFolder, target: RunFolder, state: State) -> None:
    """Give the files that `state` speaks of a second name in `target`. Raises StorageError where one is missing."""
    for path in sorted(set(files_of(source, state))):
        link_tree(path, target.root / path.relative_to(source.root))


def files_of(folder: RunFolder, state: State) -> Iterator[Path]:
    """Folders and files that `state` speaks of. Splits are drawn before the baseline is, so they come with it."""
    if (baseline := state.get("baseline")) is not None:
        yield from (folder.data, folder.sealed, folder.baseline)
        yield from (folder.guard(guard.benchmark) for guard in baseline.guards)
    for trial in state.get("trials", []):
        yield folder.root / "trials" / str(trial.number)
    if dataset := state.get("dataset"):
        yield folder.resolve(dataset.path)
    if training := state.get("training"):
        yield folder.resolve(training.weights)
        if training.adapter is not None:
            yield folder.resolve(training.adapter)
    yield from (path for path in (folder.samples, folder.research) if path.exists())
    if state.get("test") is not None:
        yield folder.test


def link_tree(source: Path, target: Path) -> None:
    """Hard-link a file or a whole folder, modes included. Raises StorageError."""
    if not source.exists():
        raise StorageError(f"{source} is missing, so the run cannot be forked here", "Fork an earlier checkpoint.")
    made(target.parent)
    with disk(target):
        if source.is_dir():
            shutil.copytree(source, target, copy_function=link_finished, symlinks=True, dirs_exist_ok=True)
        else:
            link_finished(str(source), str(target))


def link_finished(source: str, target: str) -> None:
    """Link one finished file. Sockets and partial files stay behind."""
    if os.path.isfile(source) and not source.endswith(".partial") and not os.path.exists(target):
        link_or_copy(Path(source), Path(target))


def copy_events(source: RunFolder, target: RunFolder, until: float, origin: Origin) -> None:
    """The events up to the checkpoint, so that a viewer sees the trials that the new run starts with. Never a link: the
    old run may still append to its own."""
    kept = [event for event in past_events(source) if event.at <= until]
    note = Event(at=until, kind="note", says=f"forked from {origin}")
    write_text(target.events, "".join(event.model_dump_json(exclude_none=True) + "\n" for event in [*kept, note]))


def write_plan(folder: RunFolder, state: State) -> None:
    """The pending plan as it was edited, where the planner would have put it."""
    if plan := state.get("plan"):
        write_record(folder.trial(plan.number) / "plan.json", plan)
