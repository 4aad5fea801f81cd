"""The history: every checkpoint of a run with what happened at it, to be opened, forked from, or gone on from."""

from __future__ import annotations

from functools import partial
from typing import Any

import gradio as gr

from graph import background
from graph.edits import EDITS
from graph.page import checkpoints
from graph.page.checkpoints import HEAD, Past
from graph.page.place import Place
from graph.page.safe_text import document
from graph.page.shell import Shell, listen
from memory.errors import InputError
from memory.layout import RunFolder

NAME = "History"
"""Of the tab."""
Key = tuple[str, bool, float]
"""A run, whether a process is at work on it, and when something last happened: what the tab shows depends on it."""
WIDTHS = ("190px", "560px", "130px", "130px", "140px")
"""Of the columns; on a narrow screen the table scrolls."""
FORK = (
    "The new run goes on from this checkpoint with what you change here; the old one stays as it is. Its sealed test "
    "holds the same questions as the old run's, so a second look at them is noted in its report."
)


def layout(shell: Shell) -> None:
    """Build the tab."""
    place, key = shell.place, gr.State(None)
    status = gr.Markdown("Reading the run ...")
    resume = gr.Button("Go on with this run", visible=False)
    table = gr.Dataframe(
        headers=list(HEAD), interactive=False, wrap=True, show_search="filter", label="What happened",
        column_widths=list(WIDTHS),
    )  # fmt: skip
    chosen = gr.Dropdown(
        choices=[], label="Open a checkpoint", info="or click its line above", visible=False, elem_id="checkpoint"
    )
    told = gr.Markdown()
    with gr.Accordion("Fork: a new run from this checkpoint", open=False, visible=False) as fork:
        gr.Markdown(FORK)
        with gr.Row():
            fields = [_field(name) for name in EDITS]
        go = gr.Button("Fork and start", variant="primary")
    listen(
        [shell.news.change, shell.current.change], partial(looked, place), [shell.run, shell.current, key],
        [key, status, resume, table, chosen],
    )  # fmt: skip
    listen([table.select], picked, [], [chosen])
    listen([chosen.change], partial(opened, place), [shell.run, chosen], [told, fork, *fields])
    listen([go.click], partial(grown, place), [shell.run, chosen, *fields], [shell.run, chosen], limit=1)
    listen([resume.click], partial(gone_on, place), [shell.run], [resume], limit=1)


# --- what happens ---------------------------------------------------------------------------------------------------


def looked(place: Place, run: str | None, tab: str, before: Key | None) -> tuple[Any, ...]:
    """Key, status, resume button, table and choice of checkpoints, where they have changed and somebody looks: a long
    history takes seconds to read. Raises InputError, StorageError."""
    if tab != NAME:
        return (gr.skip(),) * 5
    reading = place.chosen(run)
    if reading is None:
        return None, "No run is chosen.", gr.update(visible=False), [], _choice(())
    folder, events = reading.folder, reading.events
    now = (run, checkpoints.at_work(folder), events[-1].at if events else 0.0)
    if now == before:
        return (gr.skip(),) * 5
    past = checkpoints.past(folder)
    rows = checkpoints.event_rows(events) if past.busy else checkpoints.rows(past.entries)
    resume = gr.update(visible=may_go_on(folder, past))
    return now, document(status_of(folder, past)), resume, rows, _choice(checkpoints.choices(past.entries))


def picked(event: gr.SelectData) -> str | None:
    """The checkpoint of the line that was clicked."""
    return event.row_value[HEAD.index("Checkpoint")] or None


def opened(place: Place, run: str | None, checkpoint: str | None) -> tuple[Any, ...]:
    """A checkpoint in words, the part for a fork, and its fields as they stand there. Raises InputError."""
    if not checkpoint:
        return ("", gr.update(visible=False), *(gr.skip() for _ in EDITS))
    state, entry = checkpoints.state_at(place.folder(run), checkpoint)
    values = checkpoints.values(state, entry)
    filled = [gr.update(visible=name in values, value=values.get(name, "")) for name in EDITS]
    return (checkpoints.in_full(state, entry), gr.update(visible=entry.following is not None), *filled)


def grown(place: Place, run: str | None, checkpoint: str | None, *given: str | None) -> tuple[Any, ...]:
    """Fork with the fields that differ, start the new run, and choose it. Raises InputError, StorageError."""
    source = place.folder(run)
    if not checkpoint:
        raise InputError("no checkpoint is open", "Choose one above.")
    before = checkpoints.values(*checkpoints.state_at(source, checkpoint))
    edits = checkpoints.edits_of(before, {name: text or "" for name, text in zip(EDITS, given, strict=True)})
    target, origin = checkpoints.grow(source, checkpoint, edits)
    background.resume(target, place.launch)
    gr.Info(document(f"Run {target.id} grows from {origin}."))
    return gr.update(choices=place.ids(), value=target.id), None


def gone_on(place: Place, run: str | None) -> Any:
    """Resume the run. Raises InputError, RunBusyError."""
    folder = place.folder(run)
    background.resume(folder, place.launch)
    gr.Info(f"Run {folder.id} goes on.")
    return gr.update(visible=False)


# --- where a run stands ---------------------------------------------------------------------------------------------


def may_go_on(folder: RunFolder, past: Past) -> bool:
    """Whether the run stopped before its end and nobody is at work on it."""
    ended = bool(past.entries) and past.entries[0].following is None
    return not ended and not checkpoints.at_work(folder)


def status_of(folder: RunFolder, past: Past) -> str:
    """Where the run stands, in a line or two."""
    if past.busy:
        return past.busy
    last = past.entries[0]
    if last.following is None:
        return f"Run {folder.id} is finished: {len(past.entries)} checkpoints, newest first."
    return (
        f"Run {folder.id} stopped before {last.following}: {len(past.entries)} checkpoints, newest first. "
        "It can go on from the last one, also if it was started from the command line."
    )


def _choice(choices: Any) -> Any:
    return gr.update(choices=list(choices), value=None, visible=bool(choices))


def _field(name: str) -> Any:
    listed = checkpoints.allowed(name)
    if listed:
        return gr.Dropdown(choices=list(listed), label=name, visible=False, min_width=150)
    return gr.Textbox(label=name, visible=False, max_lines=1, min_width=150)
