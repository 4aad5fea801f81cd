"""Try it: the same question to the untouched and to the tuned model of a finished run, side by side and streamed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import gradio as gr

from graph import background
from graph.finished import Finished, finished
from graph.page import tryout
from graph.page.place import Place
from graph.page.safe_text import document
from graph.page.shell import Shell, listen
from graph.page.tryout import Answers, Message, Tryout
from graph.runs import all_runs
from graph.settings import Settings
from memory.errors import InputError

SAYS = (
    "Both models answer the same question, greedily: first the untouched one, then the tuned one, from one server "
    "whose weights are swapped between. It starts with the first question and ends by itself when nobody asks."
)


def layout(shell: Shell) -> None:
    """Build the tab."""
    place = shell.place
    there = Tryout(place.equip, place.cache, lambda: any(map(background.held, all_runs(place.runs))))
    gr.Markdown(SAYS)
    with gr.Row():
        base, tuned = _chat("Base model"), _chat("Tuned model")
    status = gr.Markdown()
    text = gr.Textbox(label="Question", lines=4, max_lines=12, elem_id="question")
    with gr.Row():
        ask = gr.Button("Ask both", variant="primary")
        another = gr.Button("Another question")
        clear = gr.Button("Start over")
    item = gr.State("")
    listen([shell.run.change, clear.click], lambda: ([], []), [], [base, tuned])
    listen([shell.run.change, another.click], partial(asked, place), [shell.run, item], [text, item, status])
    listen([ask.click], partial(answered, place, there), [shell.run, text, base, tuned, item], [base, tuned, status])


def asked(place: Place, run: str | None, seen: str) -> tuple[str, str, str]:
    """A question of the benchmark, its id, and its right answer; nothing for a run that is not there, which the chooser
    lets go of by itself. Raises StorageError."""
    found = tryout.question(place.folder(run), seen) if run in place.ids() else None
    if found is None:
        return "", "", ""
    return found.prompt, found.id, document(f"Validation item {found.id}; the right answer is: {found.answer}")


def answered(
    place: Place, there: Tryout, run: str | None, question: str, base: Sequence[Any], tuned: Sequence[Any], item: str
) -> Iterator[tuple[Any, ...]]:
    """Both conversations as the answers come, and what is being done; at the end, what the benchmark says of them.
    Raises InputError, ServerError, SetupError."""
    if not question.strip():
        raise InputError("the question is empty", "Write one, or take another question.")
    done = finished_run(place, run)
    chats = [[*messages(before), {"role": "user", "content": question.strip()}] for before in (base, tuned)]
    said = Answers()
    with closing(there.ask(done, *chats)) as answers:  # somebody who leaves lets go of the server at once
        for said in answers:
            yield with_answer(chats[0], said.base), with_answer(chats[1], said.tuned), said.note
    marks = tryout.marks(done, tryout.item(done.folder, item), question, said)
    yield with_answer(chats[0], said.base), with_answer(chats[1], said.tuned), document(marks)


def finished_run(place: Place, run: str | None) -> Finished:
    """The chosen run, if it has a tuned model. Raises InputError, also where it has not finished."""
    folder = place.folder(run)
    if not (folder.root / "report.json").exists():
        raise InputError(f"run {folder.id} has not finished", "Its model can be tried when its report is written.")
    return finished(Settings(action="ask", runs=place.runs, run=folder.id, cache=place.cache))


def messages(chat: Sequence[Any]) -> list[Message]:
    """A conversation as a server takes it, from what the page shows of it."""
    return [{"role": each["role"], "content": _text(each["content"])} for each in chat]


def with_answer(chat: Sequence[Message], answer: str) -> list[Message]:
    """The conversation with as much of the answer as there is."""
    return [*chat, {"role": "assistant", "content": answer}] if answer else list(chat)


def _text(content: Any) -> str:
    """Gradio hands a text back in parts."""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _chat(label: str) -> gr.Chatbot:
    """A conversation that shows what a model wrote as it stands: no Markdown, no HTML, no pictures. Gradio's own
    buttons would offer to publish it, too."""
    return gr.Chatbot(
        label=label, render_markdown=False, allow_tags=False, height=320, min_width=260, buttons=["copy", "copy_all"]
    )
