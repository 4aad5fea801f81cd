"""The tasks that a person offers to somebody's agent, and the session that is open: from names to engines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from graph.values import EMBEDDED_MODEL
from graph.workshop import Equip, workshop
from memory.errors import InputError
from memory.layout import RunFolder, folder_name
from memory.records import Budget, OwnTask, Task
from tools import benchmarks
from tools.arena.answers import TaskLine
from tools.arena.equipment import Equipment
from tools.arena.session import Session
from tools.benchmarks.benchmark import Benchmark
from tools.raw_data.store import store_of


@dataclass(frozen=True)
class Offer:
    """What the person decides; an agent cannot change it."""

    root: Path
    """Absolute folder; each task has its session in a folder of it."""
    cache: Path
    """Engine environments, base models, fetched raw data."""
    names: tuple[str, ...] = ()
    """Benchmarks of the table that are offered; empty for all."""
    own: tuple[OwnTask, ...] = ()
    """The person's own tasks, offered beside them."""
    base_model: str = EMBEDDED_MODEL
    budget_seconds: float = 1800.0
    """Wall clock of each session."""
    allow_test: bool = False
    data_dir: Path | None = None


def say_aside(line: str) -> None:
    """A line for the person; standard output may be a protocol's."""
    print(line, file=sys.stderr)


class Arena:
    """Lists what is offered, and opens one session at a time."""

    def __init__(self, offer: Offer, equip: Equip = workshop, say: Callable[[str], None] = say_aside) -> None:
        """`equip` makes engines and model ready, when a session is opened. Raises InputError for an unknown name."""
        self.offer, self._equip, self._say = offer, equip, say
        self._store = store_of(str(offer.data_dir) if offer.data_dir else None, offer.cache)
        named = offer.names or (() if offer.own else tuple(benchmarks.BENCHMARKS))
        self._tasks: dict[str, Benchmark] = {name: benchmarks.get(name, self._store) for name in named}
        self._tasks |= {own.name: benchmarks.named(own.name, own) for own in offer.own}
        self._session: Session | None = None

    def tasks(self) -> Sequence[TaskLine]:
        """What is offered."""
        return [
            TaskLine(
                name=each.name,
                title=each.title,
                domain=each.domain,
                metric=each.metric,
                sizes=each.sizes,
                licence=each.terms,
                raw_data_here=each.graded_from is None and not self._store.missing((*each.held_out, *each.training)),
            )
            for each in self._tasks.values()
        ]

    def open(self, task: str) -> Session:
        """The session of a task; another one is closed, and can be opened again. Raises InputError, SetupError and what
        drawing the splits raises."""
        if task not in self._tasks:
            raise InputError(f"no task {task[:60]!r} is offered", f"There are: {', '.join(self._tasks)}.")
        if self._session and self._session.benchmark.name == task:
            return self._session
        self.close()
        benchmark = self._tasks[task]
        asked = Task(
            base_model=self.offer.base_model,
            benchmark=task,
            own=benchmark.own,
            data_dir=str(self.offer.data_dir) if self.offer.data_dir else None,
            metric=benchmark.metric,
            higher_is_better=benchmark.higher_is_better,
            budget=Budget(seconds=self.offer.budget_seconds),
        )
        shop = self._equip(asked, self.offer.cache, self._say)
        shop.fetch()
        kit = Equipment(
            axolotl=shop.engines.axolotl,
            vllm=shop.engines.vllm,
            lighteval=shop.engines.lighteval,
            model=shop.model,
            device=shop.device,
            sizes=shop.sizes,
            store=shop.store,
        )
        folder, budget_s = RunFolder(self.offer.root / folder_name(task)), self.offer.budget_seconds
        self._session = Session(folder, benchmark, kit, budget_s, allow_test=self.offer.allow_test)
        return self._session

    @property
    def session(self) -> Session:
        """The session that is open. Raises InputError where none is."""
        if self._session is None:
            raise InputError("no task is open", "Call open_task with a name of list_tasks.")
        return self._session

    def close(self) -> None:
        """Close the open session; may be called again."""
        if self._session is not None:
            self._session.close()
        self._session = None
