"""What a person says to a run, checked against its state before it becomes a letter; what cannot be is refused."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError

from graph.approval import Answer, answer_of
from graph.inbox import drop, remove
from graph.runner import refreshed
from graph.snapshot import Snapshot, read_snapshot
from graph.steering import approves, changed_task
from graph.values import in_words
from graph.wishes import understand
from memory.database import is_held
from memory.errors import InputError, RunBusyError
from memory.layout import RunFolder
from memory.records import Asking, Budgeted, ForPlan, GoBack, GoOn, Halt, Question, Reply, Understood, Wish
from memory.state import State, asked_to_end


def post(folder: RunFolder, text: str) -> str:
    """Put what a person says into the run's letter box; what will come of it, in words.

    `text` is a sentence, or an answer as JSON: `{"approve": true}`. A run that no process holds reads it when it is
    resumed. Raises InputError where it is not understood, where it can have no effect, or where the question that it
    answers is over or has been answered already.
    """
    text = sentence(text)
    understood = understand(text)
    now = present(folder)
    if now is None:
        raise InputError(f"run {folder.id} is just beginning", "Say it again in a moment.")
    check(now, text, understood, is_held(folder.root))
    asked, replies = now.question, any(isinstance(one, Reply | ForPlan) for one in understood)
    if asked is None or not replies:
        drop(folder, text)
        return "; ".join(promise(one, now.state) for one in understood)
    posted = drop(folder, text, asked.subject)
    latest = read_snapshot(folder)
    if latest is None or latest.question is None or latest.question.subject != asked.subject:
        remove(posted)
        raise InputError("that question is over: it has been answered", "The first answer counts.")
    return outcome(asked, understood)


def needs_process(folder: RunFolder, text: str) -> bool:
    """Whether a process has to be started for what was posted: none holds the run, also because it has just ended, and
    it was not ended by this very message."""
    halts = [one.when for one in understand(sentence(text)) if isinstance(one, Halt)]
    return not is_held(folder.root) and not {"next_step", "now"} & set(halts)


def sentence(text: str) -> str:
    """An answer in JSON as a sentence; a sentence stays what it is. Raises InputError."""
    if not text.lstrip().startswith("{"):
        return text.strip()
    try:
        answer = Answer.model_validate_json(text)
    except ValidationError as error:
        problem = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise InputError(f"that is no answer: {problem}", 'Write {"approve": true}, or a sentence.') from None
    wish = answer.wish(1)
    replied = any(isinstance(one, Reply) for one in wish.understood)
    return wish.text if replied or not answer.approve else f"yes, {wish.text}"


def present(folder: RunFolder) -> Snapshot | None:
    """The run as it is now: from its checkpoints where no process holds it, else as its holder wrote it down. None
    before the first step of a run that is held. Raises StorageError, InputError for a run of another version."""
    if not is_held(folder.root):
        try:
            return refreshed(folder)
        except RunBusyError:
            pass  # somebody began to work on it in this instant
    return read_snapshot(folder)


def check(now: Snapshot, text: str, understood: Sequence[Understood], held: bool) -> None:
    """Refuse what can have no effect. Raises InputError with the way out."""
    state, asked = now.state, now.question
    if state and now.following is None:
        raise InputError("the run has finished", "Fork an earlier checkpoint of it, or start a new run.")
    for_plan = any(isinstance(one, ForPlan) for one in understood)
    if asked is not None and (for_plan or any(isinstance(one, Reply) for one in understood)):
        answer_of(approves(understood), text)
    elif any(isinstance(one, Reply) for one in understood):
        raise InputError("nothing waits for a yes or no", "Say what you wish, or wait for the next question.")
    if state.get("stop") is not None and not any(isinstance(one, Halt) for one in understood):
        raise InputError(f"the planner has stopped: {state.get('stop')}", "Fork an earlier checkpoint.")
    if for_plan and any(isinstance(one, Halt) for one in understood):
        raise InputError("the next plan cannot carry anything where the run ends", "Say one of the two.")
    if for_plan and asked_to_end(state):
        raise InputError("the run ends after this trial, so there is no next plan", "Say first: go on.")
    numbers = [trial.number for trial in state.get("trials", [])]
    for one in understood:
        if isinstance(one, GoBack) and one.trial not in numbers:
            ended = f"Ended trials are {', '.join(map(str, numbers))}." if numbers else "No trial has ended yet."
            raise InputError(f"there is no trial {one.trial} to go back to", ended)
        if isinstance(one, Halt) and one.when != "after_trial" and not held:
            raise InputError("no process is at work on the run, so there is nothing to stop", "It can be resumed.")
        if isinstance(one, GoOn) and not asked_to_end(state):
            raise InputError("nobody asked the run to end", "To approve a plan, say: yes.")
    if state:
        changed_task(state, now.following, Wish(number=1, at=0.0, text=text, understood=tuple(understood)))


def promise(one: Understood, state: State) -> str:
    """What comes of one thing that was said unasked."""
    if isinstance(one, Halt):
        return HALTS[one.when]
    if isinstance(one, Budgeted):
        more = "grows by" if one.added else "becomes"
        return f"the budget {more} {in_words(one.seconds)}"
    if isinstance(one, Asking):
        never = one.approve == "never"
        return "you are not asked any more" if never else f"you are asked before {ASKED[one.approve]}"
    if isinstance(one, GoOn):
        return "the run does not end after this trial"
    return "the next plan carries it"


def outcome(asked: Question, understood: Sequence[Understood]) -> str:
    """What comes of an answer."""
    number = asked.plan.number
    if approves(understood):
        ends = any(isinstance(one, Halt) for one in understood)
        return f"trial {number} goes on" + (", and the run ends after it" if ends else "")
    wished = any(isinstance(one, ForPlan) for one in understood)
    return f"the plan of trial {number} is dropped; the planner makes another" + (" with your wish" if wished else "")


HALTS = {
    "after_trial": "the run ends after this trial, with the sealed test and the report",
    "next_step": "the run stops after the step at work, and can go on later",
    "now": "the run stops at once, and can go on later",
}
ASKED = {"plan": "each plan is carried out", "data": "training data are validated", "train": "each training"}
