"""Carries a run from its first node to its report: opens what it needs, drives the graph, and closes it all again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphDrained
from langgraph.types import Command

from graph.build import RECURSION_LIMIT, Graph, build
from graph.checked import STATE
from graph.inbox import letters
from graph.proposing import Desk, broker_of, proposer_of, reader_of, writers_of
from graph.snapshot import Snapshot, question_of, write_snapshot
from graph.steering import LetterBox, Post, clear, interruptible
from graph.workshop import Workshop
from memory.checkpoint_rows import CHECKPOINT_SCHEMA
from memory.checkpointer import DuckDBSaver
from memory.database import Database
from memory.errors import InputError
from memory.events import Events, Listener
from memory.layout import RunFolder, made, read_record, write_record
from memory.ledger import LEDGER_SCHEMA, Ledger
from memory.records import Question, Task
from memory.state import GRAPH_VERSION, STATE_TYPES, State
from nodes.deps import Deps
from tools import benchmarks, report
from tools.benchmarks.splits import manifest_path, read_findings, write_splits
from tools.sandbox.isolation import isolation
from tools.serving import Server
from tools.training.engine import kept_warm
from tools.warm_engine import WarmEngine

Prepare = Callable[[Task], Workshop]
"""Makes the workshop for a task; the tests hand in engines that are real processes but quick."""


@dataclass(frozen=True)
class RunResult:
    """A run that came to its end, or to a question."""

    folder: RunFolder
    state: State
    question: Question | None = None
    """What the run waits for; None where it has finished."""

    @property
    def improved(self) -> bool:
        """Whether a trial was accepted and then held up on the sealed test."""
        test = self.state.get("test")
        return test is not None and report.judge(test, "").outcome == "improved"


def start(
    task: Task, folder: RunFolder, prepare: Prepare, listeners: Sequence[Listener] = (), patience: float = 0.0
) -> RunResult:
    """Begin a run in `folder`, which must be new, and drive it to its end, or to a question that nobody answers within
    `patience` seconds.

    Raises InputError where the task cannot be begun, and whatever stopped the run otherwise; after that, `resume`.
    """
    workshop = prepare(task)
    workshop.fetch()
    made(folder.root, mode=0o700)
    write_record(folder.task, task)
    return resume(folder, lambda _: workshop, listeners, patience)


def resume(folder: RunFolder, prepare: Prepare, listeners: Sequence[Listener] = (), patience: float = 0.0) -> RunResult:
    """Go on from the last checkpoint, to the end or a question; a finished run comes back as it is.

    Raises RunBusyError, InputError, and StoppedError where a person said so.
    """
    question = None
    with open_database(folder) as database:
        state = state_of(compiled(database), folder)
        if state.get("test") is None:
            task = state.get("task") or read_record(folder.task, Task)
            deps = assemble(task, folder, prepare(task), database, listeners)
            check_model(state, deps)
            graph = compiled(database, lambda _: deps)
            try:
                state, question = drive(graph, folder, None if state else beginning(task), deps.events, patience)
            finally:
                deps.close()
    if question is not None and letters(folder):
        return resume(folder, prepare, listeners, patience)  # an answer came while the engines ended
    return RunResult(folder, state, question)


def check_model(state: State, deps: Deps) -> None:
    """Refuse to go on with another base model than the baseline was measured on. Raises InputError."""
    baseline = state.get("baseline")
    if baseline is not None and baseline.model.sha256 != deps.model.sha256:
        raise InputError(
            f"the weights of {deps.model.name} have changed since run {deps.folder.id} measured them",
            "Put the old weights back, or start a new run.",
        )


def open_database(folder: RunFolder) -> Database:
    """The run's database, held by this process. Raises RunBusyError where another process holds it."""
    return Database.open(folder.database, schemas=(CHECKPOINT_SCHEMA, LEDGER_SCHEMA))


def compiled(database: Database, tools: Callable[[State], Deps] | None = None) -> Graph:
    """The graph on the run's checkpoints; without `tools` it can be read and edited, but no node can run."""

    def nothing(_: State) -> Deps:
        raise InputError("this graph was opened to be read, not to be run")

    return build(tools or nothing).compile(checkpointer=saver_of(database))


def saver_of(database: Database) -> DuckDBSaver:
    """The run's checkpointer, which revives our records and nothing else."""
    return DuckDBSaver(database, STATE_TYPES)


def config_of(folder: RunFolder) -> RunnableConfig:
    """A run has one thread, named like the run."""
    return {"configurable": {"thread_id": folder.id}, "recursion_limit": RECURSION_LIMIT}


def state_of(graph: Graph, folder: RunFolder) -> State:
    """The newest state; empty for a run that never began. Raises InputError for one of another version of the graph."""
    state: State = STATE.validate_python(graph.get_state(config_of(folder)).values)
    version = state.get("version", GRAPH_VERSION)
    if version != GRAPH_VERSION:
        way_out = f"Resume it with the release that made it, or start anew; this one has version {GRAPH_VERSION}."
        raise InputError(f"run {folder.id} was made by version {version} of the graph", way_out)
    return state


def beginning(task: Task) -> State:
    """The state of a run in which nothing has happened."""
    return State(
        task=task,
        version=GRAPH_VERSION,
        baseline=None,
        plan=None,
        dataset=None,
        verdict=None,
        training=None,
        trials=[],
        lessons=[],
        wishes=[],
        declined=[],
        stop=None,
        test=None,
        spent_seconds=0.0,
        trial_started=0.0,
    )


def assemble(
    task: Task, folder: RunFolder, workshop: Workshop, database: Database, listeners: Sequence[Listener]
) -> Deps:
    """The nodes' tools for this run. The splits are written at its start and verified at each resume."""
    benchmark = benchmarks.of(task, workshop.store)
    guards = tuple(benchmarks.get(name, workshop.store) for name in task.guards)
    events = Events(folder.events, tuple(listeners))
    fresh = not manifest_path(folder.data).exists()
    splits = write_splits(benchmark, folder.data, folder.sealed, workshop.sizes, task.seed)
    found = read_findings(folder.data)
    for one in found.found if fresh and found else ():
        events.emit("note", one.says)
    if task.own is not None and task.own.metric.kind == "python" and isolation().level == "weak":
        events.emit("note", isolation().says)
    ledger = Ledger(database, folder)
    window = max(each.window for each in (benchmark, *guards))
    server = Server(
        workshop.engines.vllm, workshop.model, folder.server, device=workshop.device, max_model_len=window,
        starting=lambda: events.emit("note", "the vLLM server starts"),
    )  # fmt: skip
    desk = Desk(folder, benchmark, workshop.model, server, workshop.device, events, ledger)
    broker = broker_of(task, desk)
    return Deps(
        folder=folder,
        benchmark=benchmark,
        splits=splits,
        model=workshop.model,
        engines=workshop.engines,
        locks=workshop.locks,
        device=workshop.device,
        server=server,
        scorer=WarmEngine(workshop.engines.lighteval, folder.root / "scorer"),
        axolotl=kept_warm(workshop.engines.axolotl, folder.root / "axolotl", workshop.device),
        propose=proposer_of(task, workshop.access, workshop.propose, desk, broker),
        read_outputs=reader_of(task, workshop.access, desk, broker),
        writers=writers_of(task, workshop.access, desk, broker),
        guards=guards,
        ledger=ledger,
        events=events,
    )


def drive(
    graph: Graph, folder: RunFolder, begin: State | None, events: Events, patience: float
) -> tuple[State, Question | None]:
    """Run the graph to its end or to a question, a checkpoint after every node; `begin` is None to go on from the last
    one. Between two nodes it is read what people say."""
    events.emit("run", f"run {folder.id}", phase="start")
    post = Post(graph, config_of(folder), folder, events)
    onwards: State | Command[str] | None = begin or post.take()
    while True:
        walk(graph, folder, onwards)
        now = written(graph, folder)
        if now.following is None:
            break
        if now.question is not None and not letters(folder) and not post.wait(now.question, patience):
            return now.state, now.question
        onwards = post.take()
    post.close()
    events.emit("run", f"run {folder.id} finished", phase="end")
    return now.state, None


def walk(graph: Graph, folder: RunFolder, begin: State | Command[str] | None) -> None:
    """Go from node to node until the end, a question, or something that was said. The nodes speak through their
    events."""
    box = LetterBox(folder)
    with interruptible(folder), suppress(GraphDrained):
        for step in graph.stream(begin, config_of(folder), stream_mode="checkpoints", durability="sync", control=box):
            if "task" in step["values"]:  # the very first one holds the input before it was taken in
                write_snapshot(folder, step["values"], step["next"])
                clear(folder, step["values"])
                box.open = True


def written(graph: Graph, folder: RunFolder) -> Snapshot:
    """The newest checkpoint, written down for those who cannot open the database."""
    state, found = state_of(graph, folder), graph.get_state(config_of(folder))
    return write_snapshot(folder, state, found.next, question_of(found))


def refreshed(folder: RunFolder) -> Snapshot:
    """The snapshot of a run that no process holds, written anew from its last checkpoint: a process that was killed may
    not have come to it. Raises RunBusyError, StorageError, InputError."""
    with open_database(folder) as database:
        return written(compiled(database), folder)
