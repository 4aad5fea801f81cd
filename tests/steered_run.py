"""A run whose nodes only leave records, on the real graph with its wrapper, database, planner and letter box: quick
enough to be steered in many ways."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from graph import runner
from graph.build import build
from graph.checked import Node
from memory.layout import RunFolder, made, read_record, write_record
from memory.records import NodeName, Question, Task
from memory.state import Changes, State, ended, incumbent, plan_at_work
from nodes.deps import Deps
from nodes.planner import planner
from tests import example_run, fake_run

Work = tuple[NodeName, int | None]
"""A node at work on a trial."""


@dataclass
class SteeredRun:
    """A run in a folder; `go_on` carries it on as a process would."""

    folder: RunFolder
    cache: Path
    happens: dict[Work, Callable[[], object]] = field(default_factory=dict)
    """What happens while a node works."""
    worked: list[Work] = field(default_factory=list)
    """Which nodes have worked, on which trial."""

    def go_on(self, patience: float = 0.0) -> tuple[State, Question | None]:
        """To the end, or to a question."""
        with self.tools() as deps:
            graph = build(lambda _: deps, self.nodes()).compile(checkpointer=runner.saver_of(deps.ledger.database))
            begun = bool(runner.state_of(graph, self.folder))
            begin = None if begun else runner.beginning(read_record(self.folder.task, Task))
            return runner.drive(graph, self.folder, begin, deps.events, patience)

    @contextmanager
    def tools(self) -> Iterator[Deps]:
        """The nodes' tools, with the run's database open. Engines start at their first use, so none does."""
        task = read_record(self.folder.task, Task)
        with runner.open_database(self.folder) as database:
            deps = runner.assemble(task, self.folder, fake_run.workshop(task, self.cache, print), database, ())
            try:
                yield deps
            finally:
                deps.close()

    def nodes(self) -> dict[NodeName, Node]:
        """The planner as it is; the others leave what those of the example run leave."""
        nodes: dict[NodeName, Node] = {
            "analyst": self.analyst,
            "planner": planner,
            "data_engineer": lambda state, _: {"dataset": example_run.dataset(self.folder, plan_at_work(state).number)},
            "validator": lambda state, _: {"verdict": example_run.VERDICT},
            "trainer": lambda state, _: {"training": example_run.training(self.folder, plan_at_work(state).number)},
        }
        return {name: self.noted(name, node) for name, node in nodes.items()}

    def noted(self, name: NodeName, node: Node) -> Node:
        """The node, with what happens meanwhile."""

        def run(state: State, deps: Deps) -> Changes:
            plan = state.get("plan")
            work: Work = (name, plan.number if plan else None)
            self.worked.append(work)
            self.happens.get(work, lambda: None)()
            return node(state, deps)

        return run

    def analyst(self, state: State, deps: Deps) -> Changes:
        """Baseline, a trial that is rejected, or the sealed test."""
        if state.get("baseline") is None:
            return {"baseline": example_run.baseline(self.folder).model_copy(update={"model": deps.model})}
        if state.get("stop") is not None:
            best = incumbent(state)
            return {"test": example_run.sealed_test(self.folder, best.number if best else 1)}
        return ended(example_run.trial(self.folder, plan_at_work(state), [0, 1, 1, 1], "rejected"))


def begun(place: Path, **task: object) -> SteeredRun:
    """A new run; `task` changes fields of its task."""
    folder = RunFolder(place / "runs" / "steered")
    made(folder.root, mode=0o700)
    write_record(folder.task, example_run.task(benchmark="spell_backward", **task))
    return SteeredRun(folder, place / "cache")
