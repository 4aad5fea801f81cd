"""The run view: what a run does right now and has done so far."""

from __future__ import annotations

import gradio as gr

from graph.page.shell import Shell, listen
from graph.runs import last_words


def layout(shell: Shell) -> None:
    """Build the tab."""
    line = gr.Textbox(label="Last", interactive=False)
    listen([shell.news.change], lambda run: last_words(shell.place.folder(run)) if run else "", [shell.run], [line])
