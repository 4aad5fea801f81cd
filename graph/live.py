"""What a person sees while a run works: a live view in a terminal, plain lines elsewhere, from the same events."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from graph.values import in_words
from memory.events import Event
from memory.records import NodeName

REFRESH_PER_SECOND = 1
"""Drawing costs some milliseconds, and the cores belong to training."""
PROGRESS_SECONDS = 10.0
"""Between two plain lines about the same work."""
LOSSES_SHOWN = 8
LINES_SHOWN = 9
"""As many as a question has."""


@dataclass
class Row:
    """One line of the scoreboard."""

    who: str
    figure: str = ""
    of: str = ""
    decision: str = ""


@dataclass
class Board:
    """What the events of a run add up to; old events of a resumed run are heard like new ones."""

    budget_seconds: float
    node: NodeName | None = None
    trial: int | None = None
    node_since: float = 0.0
    """Unix time at which the node at work began."""
    ended_seconds: float = 0.0
    """Wall clock of the nodes that ended."""
    progress: Event | None = None
    losses: deque[float] = field(default_factory=lambda: deque(maxlen=LOSSES_SHOWN))
    rows: dict[tuple[str, str], Row] = field(default_factory=dict)
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=LINES_SHOWN))

    def hear(self, event: Event) -> None:
        """Take one event in."""
        if event.kind in ("run", "node"):
            self._turn(event)
        elif event.kind == "progress":
            self.progress = event
        elif event.kind == "loss" and event.value is not None:
            self.losses.append(event.value)
        elif event.kind == "score" and event.value is not None:
            figure = f"{event.value:.3f} ± {event.stderr or 0:.3f}"
            of = event.says.replace(f"{figure} ", "")
            self._row(event, re.sub(r"\d+\.\d+", "", of), figure=figure, of=of)
        elif event.kind == "budget" and event.value is not None:
            self.budget_seconds = event.value
        elif event.kind == "decision" and event.trial is not None:
            self._decide(event)
        else:
            self.lines.append(event.says)
        self.trial = event.trial

    def spent(self, now: float) -> float:
        """Wall clock that the run has used, in seconds; time in which no process ran does not count."""
        return self.ended_seconds + (max(0.0, now - self.node_since) if self.node else 0.0)

    def _turn(self, event: Event) -> None:
        """A node or the run begins or ends. A node that never ended was killed with its process; its time is lost."""
        begins = event.kind == "node" and event.phase == "start"
        if event.kind == "node" and event.phase == "end":
            self.ended_seconds += event.value or 0.0
        self.node = event.node if begins else None
        self.node_since = event.at
        self.progress = None
        if begins and event.node == "trainer":
            self.losses.clear()

    def _row(self, event: Event, key: str, *, figure: str = "", of: str = "") -> None:
        who = "base" if event.trial is None else f"trial {event.trial}"
        old = self.rows.get((who, key), Row(who))
        self.rows[who, key] = Row(who, figure, of, old.decision)

    def _decide(self, event: Event) -> None:
        """The decision stands in the first row of its trial; a trial that failed early has no other."""
        who = f"trial {event.trial}"
        if not any(row.who == who for row in self.rows.values()):
            self._row(event, "")
        first = next(row for row in self.rows.values() if row.who == who)
        first.decision = event.says.removeprefix(f"{who} ")


def progress_words(event: Event, losses: Sequence[float]) -> str:
    """Work done so far, in words; the rest only where it can be known."""
    words = f"{event.says} {event.done or 0:g}/{event.total or 0:g}"
    if losses and event.node == "trainer":
        words += f", loss {losses[-1]:.3f}"
    if event.seconds_left is not None:
        words += f", about {in_words(event.seconds_left)} left"
    return words


class View:
    """Listens to a run and shows it. A context manager. What cannot be shown any more is dropped: the run goes on."""

    def __init__(self, out: TextIO, budget_seconds: float, past: Iterable[Event] = ()) -> None:
        self.out = out
        self.board = Board(budget_seconds)
        for event in past:
            self.board.hear(event)

    def __call__(self, event: Event) -> None:
        """Take an event in and show it."""
        raise NotImplementedError

    def say(self, line: str) -> None:
        """Show a line that is no event: set-up, results."""
        raise NotImplementedError

    def __enter__(self) -> View:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class PlainView(View):
    """Lines with the seconds since this view began."""

    def __init__(self, out: TextIO, budget_seconds: float, past: Iterable[Event] = ()) -> None:
        super().__init__(out, budget_seconds, past)
        self.began = time.time()
        self.shown: dict[tuple[NodeName | None, int | None, str], float] = {}
        """When work was last spoken of, by node, trial and what it is."""

    def __call__(self, event: Event) -> None:
        self.board.hear(event)
        who = f"{event.node}: " if event.node and event.kind != "node" else ""
        if event.kind == "progress":
            key = (event.node, event.trial, event.says)
            if event.at - self.shown.get(key, 0.0) >= PROGRESS_SECONDS or event.done == event.total:
                self.shown[key] = event.at
                self.say(who + progress_words(event, self.board.losses))
        elif event.kind == "node" and event.phase == "end":
            spent, budget = in_words(self.board.spent(event.at)), in_words(self.board.budget_seconds)
            self.say(f"{event.says} in {in_words(event.value or 0)}; {spent} of {budget} spent")
        elif event.kind != "loss":
            self.say(who + event.says)

    def say(self, line: str) -> None:
        tell(self.out, f"[{time.time() - self.began:7.1f}s] {line}")


class LiveView(View):
    """A view that is redrawn in place."""

    def __init__(self, out: TextIO, console: Console, budget_seconds: float, past: Iterable[Event] = ()) -> None:
        super().__init__(out, budget_seconds, past)
        self.console = console
        self.turn = threading.Lock()
        self.live = Live(
            console=console,
            get_renderable=self.picture,
            refresh_per_second=REFRESH_PER_SECOND,
            vertical_overflow="crop",
        )

    def __call__(self, event: Event) -> None:
        with self.turn:
            self.board.hear(event)

    def say(self, line: str) -> None:
        self.console.print(line, markup=False, highlight=False)

    def __enter__(self) -> View:
        self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self.turn:
            self.board.node = self.board.progress = None
        self.live.stop()

    def picture(self) -> Group:
        """The whole view, drawn from the board."""
        with self.turn:
            return Group(scoreboard(self.board.rows.values()), *self._work(), *self._lines())

    def _work(self) -> list[Text | Table]:
        """The node at work, its bar and losses, and the budget."""
        board, now = self.board, time.time()
        parts: list[Text | Table] = []
        if board.node is not None:
            trial = f", trial {board.trial}" if board.trial is not None else ""
            parts.append(Text(f"{board.node}{trial}, {in_words(now - board.node_since)}", style="bold"))
        if board.progress is not None:
            parts.append(bar(board.progress.done, board.progress.total, progress_words(board.progress, board.losses)))
            if len(board.losses) > 1 and board.node == "trainer":
                parts.append(Text("losses " + " ".join(f"{loss:.3f}" for loss in board.losses), style="dim"))
        spent, budget = board.spent(now), board.budget_seconds
        left = in_words(max(0.0, budget - spent))
        parts.append(bar(min(spent, budget), budget, f"budget: {in_words(spent)} of {in_words(budget)}, {left} left"))
        return parts

    def _lines(self) -> list[Text]:
        return [Text(line, style="dim", overflow="ellipsis", no_wrap=True) for line in self.board.lines]


def scoreboard(rows: Iterable[Row]) -> Table:
    """Baseline and trials with value ± standard error, and the decisions."""
    table = Table(box=None, pad_edge=False)
    for name in ("model", "score", "of", "decision"):
        table.add_column(name)
    for row in rows:
        style = "green" if row.decision.startswith("accepted") else "red" if row.decision.startswith("failed") else ""
        table.add_row(row.who, row.figure, row.of, Text(row.decision, style=style))
    return table


def bar(done: float | None, total: float | None, words: str) -> Table:
    """A progress bar with its words beside it."""
    grid = Table.grid(padding=(0, 1))
    grid.add_row(ProgressBar(total=total, completed=done or 0, width=30), words)
    return grid


def open_view(out: TextIO, budget_seconds: float, *, plain: bool, colour: bool, past: Iterable[Event] = ()) -> View:
    """The live view where `out` is a terminal that can redraw, plain lines elsewhere."""
    console = Console(file=out, no_color=not colour)
    if plain or not console.is_terminal or console.is_dumb_terminal:
        return PlainView(out, budget_seconds, past)
    return LiveView(out, console, budget_seconds, past)


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as aligned lines; the last column may be of any length."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    return [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in rows
    ]


def people(to_program: bool) -> TextIO:
    """Where lines for people go: standard output, unless a program reads that."""
    return sys.stderr if to_program else sys.stdout


def tell(out: TextIO, line: str) -> None:
    """Print a line. A reader that has left, as `head` does, misses it: what counts lies in the run's folder."""
    try:
        print(line, file=out, flush=True)
    except BrokenPipeError:
        hush(out)


def hush(out: TextIO) -> None:
    """Send all further output nowhere; Python would fail once more when it flushes at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
