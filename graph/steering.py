"""How what people say reaches a run at work: letters become checkpoints between two nodes, and answers resume it."""

from __future__ import annotations

import shlex
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from langchain_core.runnables import RunnableConfig
from langgraph.runtime import RunControl
from langgraph.types import Command, StateSnapshot

from graph.approval import Answer, lines, subject
from graph.build import Graph
from graph.edits import edit, edited
from graph.inbox import Letter, Posted, letters, remove
from graph.snapshot import question_of
from graph.values import in_words
from graph.wishes import understand
from memory.errors import InputError, StoppedError, TunewrightError
from memory.events import Events
from memory.layout import RunFolder, write_record
from memory.records import Asking, Budgeted, Halt, Question, Reply, Task, Understood, Wish
from memory.state import State

LOOK_SECONDS = 0.5
"""How often the letter box is looked into while a node works."""
WAITING_LOOK_SECONDS = 0.1
TOO_LATE = "came too late: what it is about is over"


class LetterBox(RunControl):
    """Lets LangGraph drain at a step boundary while something lies in the box that was said unasked."""

    def __init__(self, folder: RunFolder) -> None:
        super().__init__()
        self.folder = folder
        self.open = False
        """Before its first step a graph holds its input, or an answer, that draining would lose."""

    @property
    def drain_requested(self) -> bool:
        """LangGraph asks at every step boundary."""
        return self.open and bool(unasked(self.folder))


@contextmanager
def interruptible(folder: RunFolder) -> Iterator[None]:
    """`stop now` ends this process as Ctrl-C does, whatever it is at."""
    done = threading.Event()
    since = time.time()

    def look() -> None:
        while not done.wait(LOOK_SECONDS):
            try:
                stopped = any(says(one, "now") and one.at >= since for one in unasked(folder))
            except TunewrightError:
                return  # the main thread meets it at the step boundary, and says so
            if stopped:
                # A signal also ends whatever the main thread waits for.
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
                return

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def unasked(folder: RunFolder) -> list[Letter]:
    """The letters that answer no question, oldest first. Raises StorageError."""
    return [one.letter for one in letters(folder) if not one.letter.answers]


def says(letter: Letter, when: str) -> bool:
    """Whether a letter asks the run to halt then."""
    return any(isinstance(one, Halt) and one.when == when for one in understand(letter.text))


def understandable(letter: Letter) -> bool:
    """Whether a letter says something; another release may have written it."""
    try:
        understand(letter.text)
    except InputError:
        return False
    return True


class Post:
    """The letters of one run, read by the process that holds it."""

    def __init__(self, graph: Graph, config: RunnableConfig, folder: RunFolder, events: Events) -> None:
        self.graph = graph
        self.config = config
        self.folder = folder
        self.events = events
        self.since = time.time()
        """A stop that was said before was for another process."""

    def take(self) -> Command[str] | None:
        """Read all letters at a step boundary: the answer that resumes the graph, or None to go on with the node that
        comes next, which asks anew where it has to. Raises StoppedError, or KeyboardInterrupt for `stop now`."""
        answers: list[Letter] = []
        for posted in letters(self.folder):
            found = self.graph.get_state(self.config)
            state = State(**found.values)  # type: ignore[typeddict-item]
            letter = posted.letter
            if entered(letter, state):
                remove(posted)
            elif not understandable(letter):
                self.over(posted, "is not understood")
            elif letter.answers and letter.answers == subject(state, following(found)):
                answers.append(letter)
            elif letter.answers:
                self.over(posted, TOO_LATE)
            else:
                self.read(posted, state, following(found))
        question = question_of(self.graph.get_state(self.config))
        if question is None or not answers:
            return None
        first = answers[0]
        answer = Answer(approve=approves(understand(first.text)), text=first.text, at=first.at)
        return Command(resume={question.id: answer.model_dump(mode="json")})

    def read(self, posted: Posted, state: State, coming: str | None) -> None:
        """Enter one letter as a checkpoint, said after the node that ran last, so that the routes decide anew."""
        letter, task = posted.letter, state["task"]
        number = len(state.get("wishes", [])) + 1
        wish = Wish(number=number, at=letter.at, text=letter.text, understood=understand(letter.text))
        self.events.emit("said", letter.text)
        try:
            task = changed_task(state, coming, wish)
        except InputError as error:
            self.events.emit("note", f"'{letter.text}' cannot be done: {error}")
        changes = {"task": task, "wishes": [wish]}
        self.graph.update_state(self.config, changes, as_node=came_from(state, coming))
        if task != state["task"]:
            write_record(self.folder.task, task)
        if task.budget != state["task"].budget:
            self.events.emit("budget", f"budget: {in_words(task.budget.seconds)}", value=task.budget.seconds)
        remove(posted)
        if letter.at >= self.since and says(letter, "next_step"):
            raise StoppedError("the run stops here, as you asked")
        if letter.at >= self.since and says(letter, "now"):
            raise KeyboardInterrupt

    def wait(self, asked: Question, patience: float) -> bool:
        """Wait up to `patience` seconds for a letter; whether one came. Engines stay warm, and no budget is spent."""
        title, *rest = lines(asked)
        self.events.emit("question", f"waiting for your answer. {title}")
        command = shlex.join(["python", "-m", "graph.run", "--answer", str(self.folder.root), "TEXT"])
        for line in [*rest, f"  answer  {command}"] if patience else []:
            self.events.emit("question", line)
        until = time.monotonic() + patience
        while not letters(self.folder):
            if time.monotonic() >= until:
                return False
            time.sleep(WAITING_LOOK_SECONDS)
        return True

    def close(self) -> None:
        """Throw away what was said when the run had come to its end."""
        clear(self.folder, State(**self.graph.get_state(self.config).values))  # type: ignore[typeddict-item]
        for posted in letters(self.folder):
            self.over(posted, TOO_LATE)

    def over(self, posted: Posted, why: str) -> None:
        """Say why a letter has no effect, and throw it away."""
        self.events.emit("note", f"'{posted.letter.text}' {why}")
        remove(posted)


def entered(letter: Letter, state: State) -> bool:
    """Whether a letter stands in the checkpoints: it was read before this process was killed, or by the node that had
    asked."""
    return any(wish.at == letter.at for wish in state.get("wishes", []))


def clear(folder: RunFolder, state: State) -> None:
    """Throw away the letters that stand in the checkpoints. Raises StorageError."""
    for posted in letters(folder):
        if entered(posted.letter, state):
            remove(posted)


def changed_task(state: State, coming: str | None, wish: Wish) -> Task:
    """The task with another budget, or another place to ask, where the wish is about that. Raises InputError where it
    can have no effect any more."""
    task = state["task"]
    for one in wish.understood:
        if isinstance(one, Budgeted):
            seconds = task.budget.seconds + one.seconds if one.added else one.seconds
            now = State(**{**state, "task": task})
            task = edited(now, coming, [edit(f"budget={seconds:.0f}s")]).get("task", task)
        elif isinstance(one, Asking):
            task = task.model_copy(update={"approve": one.approve})
    return task


def approves(understood: Sequence[Understood]) -> bool:
    """Whether an answer says yes; what is no plain yes is a no with a wish."""
    replies = [one.approve for one in understood if isinstance(one, Reply)]
    return bool(replies) and all(replies)


def following(found: StateSnapshot) -> str | None:
    """The node that comes next; None at the end."""
    return found.next[0] if found.next else None


def came_from(state: State, coming: str | None) -> str:
    """A node from which the routes lead to the node `coming`: what is said between two nodes is entered as its work."""
    if coming == "analyst":
        if state.get("baseline") is None:
            return "__start__"
        return "planner" if state.get("stop") is not None else "trainer"
    return {"planner": "analyst", "data_engineer": "planner", "validator": "data_engineer", "trainer": "validator"}[
        coming or "planner"
    ]
