"""What stands in the chat: what happened in the run and was said to it, from its events, and what was asked here.

Decisions, wishes and the run's own questions come from the run: everybody who watches sees them, after a reload too.
Questions to us and our answers change nothing in it, and stay in the browser tab that asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

from gradio.components.chatbot import MessageDict

from graph.page import answers
from graph.page.reading import Reading
from graph.page.request import Request, begun
from graph.page.safe_text import plain
from graph.values import in_words
from graph.wishes import CAN_BE_SAID
from memory.records import Question
from memory.state import winner
from tools.plan_text import changed, recipe

MESSAGES = 80
"""In the chat; what is older stands in the run view."""
FIRST = "Fine-tune smollm2 on syllogism for 20 minutes"
QUESTIONS = (
    "why was trial 3 rejected?",
    "what is the best so far?",
    "how long still?",
    "what did trial 2 change?",
    "what did you learn?",
    "what are you doing?",
)
SUGGESTIONS = 6
"""At most, as buttons."""


class Exchange(NamedTuple):
    """Something that was said in this tab, and the answer."""

    run: str
    """The id of the run that was chosen; empty where none was."""
    at: float
    """Unix time in seconds."""
    said: str
    answer: str
    """Markdown."""
    request: Request | None = None
    """The run that was offered for it; the exchange moves into that run's chat when it starts."""


def welcome() -> str:
    """What stands in a chat without a run."""
    return (
        "Name a base model, a benchmark and a time, and I measure the model, plan, train and score trial after trial "
        f"until the time is spent. For example: **{FIRST}**.\n\nI understand sentences, not conversation: no language "
        "model answers here. Figures come from the run's records."
    )


def help_text() -> str:
    """What can be said."""
    asked, wished = "\n".join(f"- {each}" for each in QUESTIONS), "\n".join(f"- {plain(each)}" for each in CAN_BE_SAID)
    return f"Start a run:\n- {FIRST}, at most 3 trials\n\nAsk about it:\n{asked}\n\nSteer it:\n{wished}"


def not_understood(text: str) -> str:
    """The answer to what nothing here knows."""
    return f"I do not understand “{plain(text)}”.\n\n{help_text()}"


def messages(reading: Reading | None, here: Sequence[Exchange]) -> list[MessageDict]:
    """The chat, oldest first."""
    of_run = [each for each in here if each.run == (reading.folder.id if reading else "")]
    said = [(each.at, pair) for each in of_run for pair in (person(each.said), ours(each.answer))]
    known = {each.said for each in of_run}
    told = happened(reading, known) if reading else [(0.0, ours(welcome()))]
    merged = [message for _, message in sorted([*told, *said], key=itemgetter(0))]
    return merged[-MESSAGES:]


def happened(reading: Reading, known: set[str]) -> list[tuple[float, MessageDict]]:
    """What the run's events say, with their times; what was said in this tab is `known` already."""
    found = [(0.0, ours(f"This is run {plain(reading.folder.id)}: {begun(reading.task)}."))]
    for event in reading.events:
        if event.kind == "said" and event.says not in known:
            found.append((event.at, person(event.says)))
        elif event.kind == "decision":
            found.append((event.at, ours(plain(event.says))))
        elif event.kind == "run" and event.phase == "end" and reading.state.get("test"):
            found.append((event.at, ours(f"**The run has ended.** {answers.answer('best', reading)}")))
    if reading.question is not None:
        found.append((reading.asked_at, ours(question_text(reading.question))))
    return found


def question_text(asked: Question) -> str:
    """What a run asks, with all that is needed to answer."""
    plan = asked.plan
    predicted = f", {in_words(asked.training_seconds)} of training" if asked.training_seconds is not None else ""
    before = {"plan": "its data are made", "data": "its data are validated", "train": "it is trained"}[asked.place]
    return (
        f"**May trial {plan.number} go on?** You are asked before {before}.\n\n"
        f"- why: {plain(plan.diagnosis)}\n- expects: {plain(plan.hypothesis)} ({plan.expected_gain:+.3f})\n"
        f"- changes: {plain(changed(plan))}\n"
        f"- recipe: {plain(recipe(plan, asked.rows))}\n"
        f"- costs: about {in_words(plan.predicted_seconds)}{predicted}; {in_words(asked.seconds_left)} of the budget "
        "are left\n\nApprove, decline, or say what should change: no, use fewer epochs."
    )


def suggestions(reading: Reading | None) -> list[str]:
    """Sentences that make sense now, the likeliest first."""
    if reading is None:
        return [FIRST]
    ended = reading.state.get("trials", [])
    asked = [f"Why was trial {ended[-1].number} {ended[-1].decision}?"] if ended else []
    asked += [f"What did trial {plan.number} change?"] if (plan := reading.state.get("plan")) else []
    asked += ["What is the best so far?"]
    if reading.status == "finished":
        return [*asked, "What did you learn?", FIRST][:SUGGESTIONS]
    if reading.status == "stopped":
        return ["Resume", *asked, "How long still?"][:SUGGESTIONS]
    steers = ["Stop after this trial", "Try a lower learning rate", "Use more data"]
    best = winner(reading.state)
    steers += [f"Go back to trial {best.number}"] if best and best.number != max(t.number for t in ended) else []
    return ["How long still?", *asked, *steers][:SUGGESTIONS]


def person(text: str) -> MessageDict:
    """A person's message, shown as it was written."""
    return MessageDict(role="user", content=plain(text))


def ours(markdown: str) -> MessageDict:
    """A message of ours."""
    return MessageDict(role="assistant", content=markdown)
