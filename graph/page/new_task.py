"""A new task: rows are uploaded, their columns mapped, ten prompts looked at, the metric tried, and a run started."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_args

import gradio as gr

from graph.page import draft, uploads
from graph.page.draft import KINDS, Form
from graph.page.place import Place
from graph.page.shell import Shell, listen
from graph.page.uploads import ENDINGS, LARGEST_BYTES, Uploads
from memory.errors import InputError
from memory.records.own_task import Shape

SAYS = (
    f"Rows as JSONL, JSON, CSV or Parquet, {LARGEST_BYTES // 2**20} MiB at most: plain columns, or chat, Alpaca or "
    "ShareGPT rows. They are read, never executed. What can be guessed is filled in; correct what is wrong."
)
SIZES = "rows such as 200, or a share such as 0.2; empty for a fifth, 200 at most"
FILES = 3
"""Training rows, validation, test: the first inputs of every handler of the form."""


def layout(shell: Shell) -> None:
    """Build the tab."""
    place = shell.place
    gr.Markdown(SAYS)
    train = _upload("Your rows")
    with gr.Accordion("Held-out files, where there are any", open=False):
        files = [train, _upload("Validation"), _upload("Test")]
    with gr.Column(visible=False) as form:
        why = gr.HTML()
        fields = _fields()
        look = gr.Button("Show ten prompts and check the data", variant="primary")
    found, prompts = gr.HTML(), gr.HTML()
    save = gr.Button("Save the task", visible=False)
    gr.Markdown("### Start a run of a saved task")
    with gr.Row():
        saved = gr.Dropdown(choices=[], label="Task", elem_id="saved")
        model = gr.Textbox(label="Base model", value="smollm2", info="smollm2, or a hub id OWNER/NAME", max_lines=1)
        budget = gr.Textbox(label="Budget", value="30m", info="90s, 30m, 2h, 1h30m", max_lines=1)
        trials = gr.Textbox(label="Trials at most", value="", info="empty: as many as fit", max_lines=1)
    start = gr.Button("Start")
    given = [*files, *fields]
    listen([each.change for each in files], guessed, files, [form, why, found, prompts, save, *fields])
    listen([look.click], looked, given, [found, prompts, save], progress="full", limit=2)
    listen([save.click], partial(kept, place), given, [saved], limit=1)
    listen([shell.run.change], partial(offered, place), [saved], [saved])
    listen([start.click], partial(begun, place), [saved, model, budget, trials], [shell.run], progress="full", limit=1)


# --- what happens: each raises InputError for what cannot be done ---------------------------------------------------


def guessed(*paths: str | None) -> tuple[Any, ...]:
    """The form, filled in for an upload, with the reasons; hidden where there is none."""
    if not paths[0]:
        return (gr.update(visible=False), "", "", "", gr.update(visible=False), *(gr.skip() for _ in Form.model_fields))
    files = uploaded(paths)
    made = draft.guessed(files)
    filled = filled_in(draft.form_of(made.file), uploads.columns(files.train))
    return (gr.update(visible=True), draft.reasons(made), "", "", gr.update(visible=False), *filled)


def looked(*given: Any) -> tuple[Any, ...]:
    """What was found in the data, ten prompts, and the button that saves."""
    found = draft.look(form_of(given[FILES:]), uploaded(given[:FILES]))
    return draft.sizes(found), draft.prompts(found), gr.update(visible=True)


def kept(place: Place, *given: Any) -> Any:
    """The saved tasks, this one among them."""
    target = draft.save(form_of(given[FILES:]), uploaded(given[:FILES]), place.runs)
    gr.Info(f"Saved as {target.parent.name}/{target.name} in the folder of runs.")
    return gr.update(choices=list(draft.saved(place.runs)), value=target.stem)


def offered(place: Place, chosen: str | None) -> Any:
    """The saved tasks."""
    names = list(draft.saved(place.runs))
    return gr.update(choices=names, value=chosen if chosen in names else next(iter(names), None))


def begun(place: Place, name: str | None, base_model: str, budget: str, trials: str) -> Any:
    """A new run of a saved task, which is chosen."""
    task = draft.task_to_start(place.runs, name or "", base_model or "", budget or "", trials or "")
    folder = place.start(task)
    gr.Info(f"Run {folder.id} starts.")
    return gr.update(choices=place.ids(), value=folder.id)


def uploaded(paths: Sequence[str | None]) -> Uploads:
    """What was uploaded, each file checked. Gradio takes no path here that it did not write itself."""
    train, validation, test = (uploads.accept(Path(path)) if path else None for path in paths)
    if train is None:
        raise InputError("no rows were uploaded", "Choose a file above.")
    return Uploads(train, validation, test)


def form_of(values: Sequence[Any]) -> Form:
    """The form from the fields, in their order."""
    given = dict(zip(Form.model_fields, values, strict=True))
    return Form.model_validate({name: value or ("" if name != "templated" else False) for name, value in given.items()})


def filled_in(form: Form, columns: list[str]) -> list[Any]:
    """The fields with what was guessed, in their order."""
    choices = {"answer": columns, "group": ["", *columns]}
    return [
        gr.update(value=value, choices=choices[name]) if name in choices else gr.update(value=value)
        for name, value in form.model_dump().items()
    ]


def _fields() -> list[Any]:
    """A component for each field of the form, in their order."""
    made: dict[str, Any] = {}
    with gr.Row():
        made["name"] = gr.Textbox(label="Name of the task", max_lines=1)
        made["shape"] = gr.Dropdown(choices=list(get_args(Shape)), label="Shape of the rows")
    made["prompt"] = gr.Textbox(
        label="Prompt", lines=4, info="{column} stands for a column; write a literal brace twice", elem_id="prompt"
    )
    with gr.Row():
        made["answer"] = gr.Dropdown(choices=[], label="Column of the answer", allow_custom_value=True)
        made["group"] = gr.Dropdown(
            choices=[""], label="Column of groups", info="rows with equal values stay in one split",
            allow_custom_value=True,
        )  # fmt: skip
    with gr.Row():
        made["metric"] = gr.Dropdown(choices=list(KINDS), label="Metric", elem_id="metric")
        made["settings"] = gr.Textbox(label="Its settings", info="as in a task file: absolute = 0.01", lines=2)
        made["answers"] = gr.Textbox(label="All answers, one a line", info="empty where answers are open", lines=3)
    with gr.Row():
        made["validation"] = gr.Textbox(label="Size of validation", info=SIZES, max_lines=1)
        made["test"] = gr.Textbox(label="Size of the test", info=SIZES, max_lines=1)
        made["templated"] = gr.Checkbox(
            label="Questions come from a template", info="two that differ in a word are two"
        )
    return [made[field] for field in Form.model_fields]


def _upload(label: str) -> gr.File:
    return gr.File(label=label, file_types=list(ENDINGS), file_count="single", type="filepath")
