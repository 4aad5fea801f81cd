"""The chat: start a run, ask about it, steer it."""

from __future__ import annotations

import gradio as gr

from graph.page.shell import Shell


def layout(shell: Shell) -> None:
    """Build the tab."""
    gr.Chatbot(label="Chat")
