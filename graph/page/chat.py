"""The chat: start a run, ask about it, steer it, in sentences or with buttons that say the same sentences."""

from __future__ import annotations

import re
import time
from typing import Any, NamedTuple

import gradio as gr
from gradio.components.chatbot import MessageDict

from graph import background
from graph.page import answers
from graph.page.conversation import SUGGESTIONS, Exchange, messages, not_understood, suggestions
from graph.page.place import Place
from graph.page.reading import Reading
from graph.page.request import Request, proposal, understood
from graph.page.shell import Shell, listen
from graph.wishes import understand
from memory.errors import InputError, TunewrightError
from memory.records import Reply

LONGEST = 2000
"""Characters of a sentence."""
ASKING = re.compile(r"^\s*(why|what|which|how|who|when|where|is|are|did|does|show|list)\b|\?\s*$", re.IGNORECASE)
RESUME = re.compile(r"^\s*(please\s+)?(resume|go on|continue|carry on)\W*$", re.IGNORECASE)


class Shown(NamedTuple):
    """What a tab shows; it is drawn again where this changes."""

    chat: list[MessageDict]
    suggested: list[str]
    asked: str
    """The id of the question that waits; empty where none does."""


NOTHING = Shown([], [], "")


class Heard(NamedTuple):
    """What came of a sentence."""

    answer: str
    """Markdown."""
    request: Request | None = None
    """Of a sentence that asks for a run: it waits for a click on Start."""


def layout(shell: Shell) -> None:
    """Build the tab."""
    first = messages(None, ()), suggestions(None)
    chat = gr.Chatbot(
        [*first[0]], label="Chat", height=440, layout="panel", buttons=["copy"], sanitize_html=True, allow_tags=False,
        latex_delimiters=[], elem_id="chat",
    )  # fmt: skip
    with gr.Row(visible=False) as offered:
        start = gr.Button("Start", variant="primary", elem_id="start")
        dismiss = gr.Button("Not now")
    with gr.Row(visible=False) as asked:
        approve, decline = gr.Button("Approve", variant="primary"), gr.Button("Decline")
    sentence = gr.Textbox(
        label="Say something", placeholder="Fine-tune smollm2 on syllogism for 20 minutes", max_length=LONGEST,
        submit_btn=True, elem_id="sentence",
    )  # fmt: skip
    spoken = gr.Textbox(visible=False, elem_id="spoken")
    with gr.Row():
        texts = [*first[1], *([""] * SUGGESTIONS)][:SUGGESTIONS]
        buttons = [gr.Button(text, size="sm", visible=bool(text), min_width=120) for text in texts]
    here = gr.State(())
    offer = gr.State(None)
    shown = gr.State(NOTHING)
    view = [chat, asked, *buttons, shown]

    def say(text: str, run: str | None, before: tuple[Exchange, ...], seen: Shown) -> list[Any]:
        heard = hear(shell.place, shell.place.read(run) if run else None, text, seen.asked)
        said = (*before, Exchange(run or "", time.time(), text[:LONGEST], heard.answer, heard.request))
        return [said, heard.request, gr.update(visible=heard.request is not None), *follow(run, said, NOTHING)]

    def follow(run: str | None, said: tuple[Exchange, ...], seen: Shown) -> list[Any]:
        return drawn(shell.place.chosen(run), said, seen)

    def begin(request: Request | None, said: tuple[Exchange, ...]) -> list[Any]:
        if request is None:
            raise InputError("there is nothing to start", "Ask for a run first.")
        run = shell.place.start(request.task).id
        moved = tuple(each._replace(run=run) if each.request == request else each for each in said)
        return [gr.update(choices=shell.place.ids(), value=run), gr.update(visible=False), moved]

    outcome = [here, offer, offered, *view]
    # Taken out of the box in the browser and at once: a late answer must not wipe out what is being written by then.
    taken = sentence.submit(None, [sentence], [sentence, spoken], js="(text) => ['', text]", api_visibility="private")
    listen(taken, say, [spoken, shell.run, here, shown], outcome, limit=1, mode="multiple")
    for button in (*buttons, approve, decline):
        listen([button.click], say, [button, shell.run, here, shown], outcome, limit=1)
    listen([start.click], begin, [offer, here], [shell.run, offered, here], limit=1)
    listen([dismiss.click], lambda: (None, gr.update(visible=False)), [], [offer, offered])
    listen([shell.news.change], follow, [shell.run, here, shown], view)


def hear(place: Place, reading: Reading | None, text: str, asked: str = "") -> Heard:
    """Answer a sentence: a question from the records, a wish by the run's letter box, a request by a proposal. `asked`
    is the id of the question that the person saw."""
    try:
        if not text.strip() or len(text) > LONGEST:
            raise InputError("that is no sentence", f"Write 1 to {LONGEST} characters.")
        if reading is not None and ASKING.search(text) and (answer := answers.answer(text, reading)):
            return Heard(answer)
        if reading is not None and reading.status == "stopped" and RESUME.match(text):
            background.resume(reading.folder, place.launch)
            return Heard("It goes on where it stopped.")
        if reading is not None and reading.status != "finished" and is_wish(text):
            waiting = reading.question.id if reading.question else ""
            if is_reply(text) and waiting != asked:
                over = (
                    "that question is over: it was answered already"
                    if asked
                    else "a question waits that you have not seen"
                )
                raise InputError(over, "Look at what the run asks now.")
            return Heard(answers.sentence(background.say(reading.folder, text, place.launch)))
        if request := understood(text, place.runs):
            return Heard(proposal(request, place.runs, place.cache), request)
        if reading is not None and (answer := answers.answer(text, reading)):
            return Heard(answer)
        if reading is not None and is_wish(text):
            raise InputError(
                "the run has ended, so nothing can be wished of it", "Start another one, or fork this one."
            )
    except TunewrightError as error:
        return Heard(answers.sentence(str(error)))
    return Heard(not_understood(text))


def is_wish(text: str) -> bool:
    """Whether a sentence can steer a run."""
    try:
        return bool(understand(text))
    except InputError:
        return False


def is_reply(text: str) -> bool:
    """Whether a sentence that can steer a run says yes or no."""
    return any(isinstance(one, Reply) for one in understand(text))


def drawn(reading: Reading | None, said: tuple[Exchange, ...], seen: Shown) -> list[Any]:
    """Chat, question and suggestions, each a skip if all is as it was; and what they were made from."""
    asked = reading.question.id if reading and reading.question and reading.status == "waits for you" else ""
    now = Shown(messages(reading, said), suggestions(reading), asked)
    if now == seen:
        return [gr.skip()] * (SUGGESTIONS + 3)
    buttons = [gr.update(value=text, visible=True) for text in now.suggested]
    buttons += [gr.update(visible=False)] * (SUGGESTIONS - len(buttons))
    return [now.chat, gr.update(visible=bool(asked)), *buttons, now]
