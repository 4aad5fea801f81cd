"""Look inside: what each trial was made of, what two models answered to the same questions, and files to take away."""

from __future__ import annotations

from functools import partial
from typing import Any

import gradio as gr

from graph.page import downloads, samples, trial_parts
from graph.page.place import Place
from graph.page.reading import Reading
from graph.page.samples import ANY, KINDS, TURNS
from graph.page.shell import Shell, listen
from graph.page.trial_parts import LOGS

NAME = "Look inside"
"""Of the tab."""
Stamp = tuple[str, int]
"""A run, and when its state was written, in nanoseconds."""
NOTHING = "Nothing to look into yet: the untouched model is measured first."
TURNS_SAY = (
    "Right to wrong: what the second model lost. Where a metric gives part marks, an item that fell or rose counts."
)


def layout(shell: Shell) -> None:
    """Build the tab."""
    seen = gr.State(None)
    with gr.Tabs():
        with gr.Tab("Trials"):
            trials(shell, seen)
        with gr.Tab("Outputs"):
            outputs(shell, seen)
        with gr.Tab("Report and files"):
            files(shell, seen)
    listen(
        [shell.news.change, shell.current.change],
        partial(looked, shell.place),
        [shell.run, shell.current, seen],
        [seen],
    )


def trials(shell: Shell, seen: gr.State) -> None:
    """A trial: plan, data, rows, checks, configuration and logs."""
    place = shell.place
    number = gr.Dropdown(choices=[], label="Trial", elem_id="trial")
    about = gr.Markdown()
    with gr.Accordion("What its change did, and what is still wrong", open=False):
        why = gr.HTML()
    with gr.Accordion("Checks before the training", open=False):
        checks = gr.HTML()
    with gr.Accordion("Where the training rows come from, and what was left out", open=False):
        provenance = gr.HTML()
    with gr.Accordion("Training rows", open=False):
        with gr.Row():
            words, page = _search("Search the rows")
        where = gr.Markdown()
        rows = gr.HTML()
    with gr.Accordion("Configuration and logs", open=False):
        name = gr.Dropdown(choices=list(LOGS), value=next(iter(LOGS)), label="File")
        again = gr.Button("Read it again", size="sm")
        log = gr.Textbox(label="Its end", lines=12, max_lines=24, interactive=False)
    one = [shell.run, number]
    listen([seen.change], partial(trials_of, place), [seen, number], [number])
    listen([seen.change, number.change], partial(trial, place), one, [about, checks, provenance])
    listen([seen.change, number.change], partial(why_of, place), one, [why])
    listen([number.change, words.submit, page.change], partial(rows_of, place), [*one, words, page], [where, rows])
    listen([seen.change, number.change, name.change, again.click], partial(log_of, place), [*one, name], [log])


def outputs(shell: Shell, seen: gr.State) -> None:
    """Two models side by side on the same questions."""
    with gr.Row():
        first = gr.Dropdown(choices=[], label="First model", elem_id="first", min_width=220)
        second = gr.Dropdown(choices=[], label="Second model", elem_id="second", min_width=220)
    turn = gr.Radio(choices=list(TURNS), value=TURNS[0], label="What became of it", info=TURNS_SAY)
    with gr.Row():
        kind = gr.Dropdown(choices=list(KINDS), value=ANY, label="Error of the second model")
        words, page = _search("Search questions and answers")
    where = gr.Markdown()
    cards = gr.HTML()
    with gr.Accordion("Kinds of errors", open=False):
        errors = gr.HTML()
    models = [shell.run, first, second]
    listen([seen.change], partial(models_of, shell.place), [seen, first, second], [first, second])
    listen(
        [first.change, second.change, turn.change, kind.change, words.submit, page.change],
        partial(compared, shell.place), [*models, turn, kind, words, page], [where, cards, errors], progress="minimal",
    )  # fmt: skip


def files(shell: Shell, seen: gr.State) -> None:
    """The report, and what can be taken away."""
    name = gr.Dropdown(choices=[], label="Take a file", elem_id="offered")
    take = gr.Button("Get it ready")
    file = gr.File(label="Ready", interactive=False, visible=False)
    report = gr.Markdown()
    listen([seen.change], partial(files_of, shell.place), [seen], [name, file, report])
    listen([take.click], partial(taken, shell.place), [shell.run, name], [file], progress="minimal", limit=1)


# --- what is shown: nothing of a run that is not there, which the chooser lets go of by itself; each raises InputError
# for what else a browser should not have sent, and StorageError


def looked(place: Place, run: str | None, tab: str, before: Stamp | None) -> Any:
    """What all of the tab depends on, where it has changed and somebody looks."""
    if tab != NAME:
        return gr.skip()
    path = place.folder(run).snapshot if run in place.ids() else None
    now = (run, path.stat().st_mtime_ns if path.exists() else 0) if path else None
    return gr.skip() if now == before else now


def trials_of(place: Place, seen: Stamp | None, chosen: int | None) -> Any:
    """The trials to choose from; the newest one at first."""
    reading = _looked_at(place, seen)
    choices = trial_parts.choices(reading.state) if reading else []
    known = [value for _, value in choices]
    return gr.update(choices=choices, value=chosen if chosen in known else next(iter(known), None))


def trial(place: Place, run: str | None, chosen: int | None) -> tuple[str, str, str]:
    """What came of a trial, its checks, and where its data come from."""
    reading = place.chosen(run)
    if reading is None or chosen is None:
        return NOTHING, "", ""
    part = trial_parts.parts(reading.state, chosen)
    return trial_parts.about(part), trial_parts.checks(part), trial_parts.provenance(part)


def why_of(place: Place, run: str | None, chosen: int | None) -> str:
    """What the trial's change did, and what is still wrong."""
    reading = place.chosen(run)
    return "" if reading is None or chosen is None else trial_parts.why(reading.folder, reading.state, chosen)


def rows_of(
    place: Place, run: str | None, chosen: int | None, words: str | None, page: float | None
) -> tuple[str, str]:
    """Training rows, and where in the file we are."""
    reading = place.chosen(run)
    if reading is None or chosen is None:
        return "", ""
    part = trial_parts.parts(reading.state, chosen)
    found = trial_parts.training_rows(reading.folder, part, words or "", int(page or 1))
    return f"Rows {found.says}, page {found.number} of {found.pages}.", trial_parts.rows_html(found)


def log_of(place: Place, run: str | None, chosen: int | None, name: str) -> str:
    """The end of a file."""
    reading = place.chosen(run)
    if reading is None or chosen is None:
        return ""
    return trial_parts.log(reading.folder, trial_parts.parts(reading.state, chosen), name)


def models_of(place: Place, seen: Stamp | None, first: str | None, second: str | None) -> tuple[Any, ...]:
    """The models to choose from; the untouched one and the newest trial at first."""
    reading = _looked_at(place, seen)
    names = list(samples.models(reading.state)) if reading else []
    usual = samples.usual(names) or (None, None)
    return tuple(
        gr.update(choices=names, value=chosen if chosen in names else other)
        for chosen, other in zip((first, second), usual, strict=True)
    )


def compared(
    place: Place, run: str | None, first: str | None, second: str | None, turn: str, kind: str, words: str | None,
    page: float | None,
) -> tuple[str, str, str]:  # fmt: skip
    """Outputs side by side, counts, and kinds of errors."""
    reading = place.chosen(run)
    if reading is None or not first or not second:
        return NOTHING, "", ""
    both = samples.side_by_side(reading.folder, reading.state, first, second)
    found = both.find(samples.turn_of(turn), kind, words or "", int(page or 1))
    counts = ", ".join(f"{both.counts[turned]:,} {turned}" for turned in TURNS[1:])
    says = f"{len(both.pairs):,} answers: {counts}. Shown: {found.says}, page {found.number} of {found.pages}."
    return says, samples.html(found, both, first, second), samples.errors_html(both, first, second)


def files_of(place: Place, seen: Stamp | None) -> tuple[Any, ...]:
    """What can be taken away, and the report."""
    reading = _looked_at(place, seen)
    names = list(downloads.offered(reading.folder, reading.state)) if reading else []
    report = downloads.report(reading.folder) if reading else ""
    return gr.update(choices=names, value=next(iter(names), None)), gr.update(visible=False), report


def taken(place: Place, run: str | None, name: str | None) -> Any:
    """A file, ready to be taken."""
    path = downloads.take(place, place.folder(run), place.read(run).state, name or "")
    return gr.update(value=path, visible=True)


def _looked_at(place: Place, seen: Stamp | None) -> Reading | None:
    """The run that somebody looks into; None before, when Gradio tells of the first state as of a change."""
    return place.chosen(seen[0]) if seen else None


def _search(label: str) -> tuple[gr.Textbox, gr.Number]:
    words = gr.Textbox(label=label, value="", max_lines=1, info="press Enter")
    return words, gr.Number(value=1, label="Page of fifty", precision=0, minimum=1)
