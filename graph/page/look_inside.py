"""Look inside: what each trial was made of, what two models answered to the same questions, and files to take away."""

from __future__ import annotations

from typing import Any

import gradio as gr

from graph.page import downloads, samples, trial_parts
from graph.page.newest import newest
from graph.page.place import Place
from graph.page.samples import ANY, KINDS, TURNS
from graph.page.shell import Shell, listen

Stamp = tuple[str, int]
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

    def look(run: str | None, before: Stamp | None) -> Any:
        now = stamp(shell.place, run)
        return gr.skip() if now == before else now

    listen([shell.news.change], look, [shell.run, seen], [seen])


def stamp(place: Place, run: str | None) -> Stamp | None:
    """What all of the tab depends on: a run, and when its state was written. Raises InputError."""
    if not run:
        return None
    path = place.folder(run).snapshot
    return run, path.stat().st_mtime_ns if path.exists() else 0


def trials(shell: Shell, seen: gr.State) -> None:
    """A trial: plan, data, rows, checks, configuration and logs."""
    place = shell.place
    number = gr.Dropdown(choices=[], label="Trial", elem_id="trial")
    about = gr.Markdown()
    with gr.Accordion("Checks before the training", open=False):
        checks = gr.HTML()
    with gr.Accordion("Where the training rows come from, and what was left out", open=False):
        provenance = gr.HTML()
    with gr.Accordion("Training rows", open=False):
        with gr.Row():
            words = gr.Textbox(label="Search the rows", value="", max_lines=1)
            page = gr.Number(value=1, label="Page of fifty", precision=0, minimum=1)
        where = gr.Markdown()
        rows = gr.HTML()
    with gr.Accordion("Configuration and logs", open=False):
        name = gr.Dropdown(choices=list(trial_parts.LOGS), value=next(iter(trial_parts.LOGS)), label="File")
        again = gr.Button("Read it again", size="sm")
        log = gr.Textbox(label="Its end", lines=12, max_lines=24, interactive=False)

    def offer(run: str | None, chosen: int | None) -> Any:
        choices = trial_parts.choices(newest(place, run)) if run else []
        known = [value for _, value in choices]
        return gr.update(choices=choices, value=chosen if chosen in known else next(iter(known), None))

    def show(run: str | None, chosen: int | None) -> tuple[Any, ...]:
        if not run or chosen is None:
            return NOTHING, "", ""
        part = trial_parts.parts(newest(place, run), chosen)
        return trial_parts.about(part), trial_parts.checks(part), trial_parts.provenance(part)

    def show_rows(run: str | None, chosen: int | None, sought: str | None, at: float | None) -> tuple[Any, ...]:
        if not run or chosen is None:
            return "", ""
        part = trial_parts.parts(newest(place, run), chosen)
        found = trial_parts.training_rows(place.folder(run), part, sought or "", int(at or 1))
        return f"Rows {found.says}, page {found.number} of {found.pages}.", trial_parts.rows_html(found)

    def show_log(run: str | None, chosen: int | None, file: str) -> str:
        if not run or chosen is None:
            return ""
        return trial_parts.log(place.folder(run), trial_parts.parts(newest(place, run), chosen), file)

    listen([seen.change], offer, [shell.run, number], [number])
    listen([seen.change, number.change], show, [shell.run, number], [about, checks, provenance])
    listen([number.change, words.submit, page.change], show_rows, [shell.run, number, words, page], [where, rows])
    listen([seen.change, number.change, name.change, again.click], show_log, [shell.run, number, name], [log])


def outputs(shell: Shell, seen: gr.State) -> None:
    """Two models side by side on the same questions."""
    place = shell.place
    with gr.Row():
        first = gr.Dropdown(choices=[], label="First model", elem_id="first")
        second = gr.Dropdown(choices=[], label="Second model", elem_id="second")
    turn = gr.Radio(choices=list(TURNS), value=TURNS[0], label="What became of it", info=TURNS_SAY)
    with gr.Row():
        kind = gr.Dropdown(choices=list(KINDS), value=ANY, label="Error of the second model")
        words = gr.Textbox(label="Search questions and answers", value="", max_lines=1)
        page = gr.Number(value=1, label="Page of fifty", precision=0, minimum=1)
    where = gr.Markdown()
    cards = gr.HTML()
    with gr.Accordion("Kinds of errors", open=False):
        errors = gr.HTML()

    def offer(run: str | None, before: str | None, after: str | None) -> tuple[Any, ...]:
        names = list(samples.models(newest(place, run))) if run else []
        usual = samples.usual(names) or (None, None)
        return tuple(
            gr.update(choices=names, value=chosen if chosen in names else other)
            for chosen, other in zip((before, after), usual, strict=True)
        )

    def show(
        run: str | None,
        before: str | None,
        after: str | None,
        turned: str,
        wrong: str,
        sought: str | None,
        at: float | None,
    ) -> tuple[Any, ...]:
        if not run or not before or not after:
            return NOTHING, "", ""
        both = samples.side_by_side(place.folder(run), newest(place, run), before, after)
        found = both.find(samples.turn_of(turned), wrong, sought or "", int(at or 1))
        counts = ", ".join(f"{count:,} {name}" for name, count in both.counts.items())
        says = f"{counts}. Shown: {found.says}, page {found.number} of {found.pages}."
        return says, samples.html(found, both, before, after), samples.errors_html(both, before, after)

    asked = [shell.run, first, second, turn, kind, words, page]
    listen([seen.change], offer, [shell.run, first, second], [first, second])
    listen(
        [first.change, second.change, turn.change, kind.change, words.submit, page.change], show, asked,
        [where, cards, errors], progress="minimal",
    )  # fmt: skip


def files(shell: Shell, seen: gr.State) -> None:
    """The report, and what can be taken away."""
    place = shell.place
    name = gr.Dropdown(choices=[], label="Take a file", elem_id="offered")
    take = gr.Button("Get it ready")
    file = gr.File(label="Ready", interactive=False, visible=False)
    report = gr.Markdown()

    def offer(run: str | None) -> tuple[Any, ...]:
        names = list(downloads.offered(place.folder(run), newest(place, run))) if run else []
        written = downloads.report(place.folder(run)) if run else ""
        return gr.update(choices=names, value=next(iter(names), None)), gr.update(visible=False), written

    def hand_out(run: str | None, chosen: str | None) -> Any:
        path = downloads.take(place, place.folder(run), newest(place, run), chosen or "")
        return gr.update(value=path, visible=True)

    listen([seen.change], offer, [shell.run], [name, file, report])
    listen([take.click], hand_out, [shell.run, name], [file], progress="minimal", limit=1)
