"""The live view and the plain lines show the same run."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Iterator

from rich.console import Console

from graph.live import Board, LiveView, PlainView, columns, open_view
from memory.events import Event, EventKind
from memory.records import NodeName


def event(kind: EventKind, says: str, node: NodeName | None = None, trial: int | None = None, **more: object) -> Event:
    return Event.model_validate({"at": time.time(), "kind": kind, "says": says, "node": node, "trial": trial} | more)


def a_run(began: float) -> Iterator[Event]:
    """Baseline, a trial that is accepted, one that fails, and one in the middle of its training."""
    yield event("run", "run r", phase="start", at=began)
    yield event("node", "analyst at work", "analyst", phase="start", at=began)
    score = "validation exact 0.250 ± 0.043 (n=100, 0-shot)"
    yield event("score", score, "analyst", value=0.25, stderr=0.043, at=began + 20)
    few = "validation exact 0.300 ± 0.046 (n=100, 5-shot)"
    yield event("score", few, "analyst", value=0.3, stderr=0.046, at=began + 30)
    yield event("node", "analyst done", "analyst", phase="end", value=30.0, at=began + 30)
    tuned = "validation exact 0.860 ± 0.035 (n=100, 0-shot)"
    yield event("score", tuned, "analyst", 1, value=0.86, stderr=0.035, at=began + 60)
    yield event("decision", "trial 1 accepted: +0.560, p=0.002", "analyst", 1, at=began + 60)
    yield event("decision", "trial 2 failed: OOM: out of memory", "trainer", 2, at=began + 70)
    yield event("node", "trainer at work", "trainer", 3, phase="start", at=began + 100)
    yield event("loss", "step 1 loss 2.5", "trainer", 3, value=2.5, at=began + 101)
    yield event("loss", "step 40 loss 0.412", "trainer", 3, value=0.412, at=began + 140)
    yield event("progress", "training", "trainer", 3, done=40, total=100, seconds_left=61, at=began + 140)


SHOWN = [
    "0.250 ± 0.043",
    "0.300 ± 0.046",
    "0.860 ± 0.035",
    "accepted: +0.560, p=0.002",
    "failed: OOM: out of memory",
    "training 40/100, loss 0.412, about 1m01s left",
]


def test_plain_lines_tell_everything() -> None:
    out = io.StringIO()
    view = PlainView(out, 1800)
    for one in a_run(time.time()):
        view(one)
    for words in SHOWN:
        assert words in out.getvalue()
    assert "analyst done in 30s; 30s of 30m spent" in out.getvalue()
    assert all(line.startswith("[") and "s] " in line for line in out.getvalue().splitlines())


def test_the_live_view_shows_the_same() -> None:
    console = Console(file=io.StringIO(), record=True, width=140)
    view = LiveView(io.StringIO(), console, 1800)
    for one in a_run(time.time() - 140):
        view(one)
    console.print(view.picture())
    picture = console.export_text()
    for words in [*SHOWN, "trainer, trial 3, 40s", "losses 2.500 0.412", "budget: 1m10s of 30m, 28m50s left"]:
        assert words in picture, picture


def test_the_live_view_leaves_its_last_picture_in_the_terminal() -> None:
    out = io.StringIO()
    with LiveView(out, Console(file=out, force_terminal=True, width=140, height=60), 1800) as view:
        view.say("setting up [train]")
        for one in a_run(time.time() - 140):
            view(one)
    assert "setting up [train]" in out.getvalue()
    assert "accepted: +0.560, p=0.002" in out.getvalue().split("setting up")[-1]


def test_progress_is_told_every_ten_seconds_and_at_its_end() -> None:
    out = io.StringIO()
    view = PlainView(out, 1800)
    began = time.time()
    for step in range(1, 301):
        view(event("progress", "training", "trainer", 1, done=step, total=300, at=began + step / 10))
    told = [line.split("training ")[1] for line in out.getvalue().splitlines()]
    assert told == ["1/300", "101/300", "201/300", "300/300"]


def test_no_estimate_is_made_up_where_none_can_be_known() -> None:
    out = io.StringIO()
    PlainView(out, 1800)(event("progress", "scoring", "analyst", done=1, total=8))
    assert out.getvalue().rstrip().endswith("analyst: scoring 1/8")


def test_a_resumed_run_goes_on_with_its_scoreboard_and_its_budget() -> None:
    # The process was killed in the trainer; its unfinished node does not count, nor does the night in between.
    past = list(a_run(time.time() - 40_000))
    view = PlainView(io.StringIO(), 1800, past)
    view(event("run", "run r", phase="start"))
    assert view.board.spent(time.time()) == 30.0
    assert [row.who for row in view.board.rows.values()] == ["base", "base", "trial 1", "trial 2"]


def test_a_score_that_is_told_again_after_a_crash_is_one_row() -> None:
    board = Board(1800)
    for value in (0.5, 0.52):
        says = f"validation exact {value:.3f} ± 0.050 (n=100, 0-shot)"
        board.hear(event("score", says, "analyst", 1, value=value, stderr=0.05))
    assert [(row.figure, row.of) for row in board.rows.values()] == [
        ("0.520 ± 0.050", "validation exact (n=100, 0-shot)")
    ]


def test_without_a_terminal_there_are_plain_lines() -> None:
    assert isinstance(open_view(io.StringIO(), 1800, plain=False, colour=True), PlainView)


def test_a_reader_that_leaves_does_not_stop_the_run() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as out:
        view = PlainView(out, 1800)
        for _ in range(3):
            view(event("note", "on and on"))
    assert len(view.board.lines) == 3


def test_the_live_view_costs_less_than_one_percent_of_a_core() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=140, height=60)
    view = LiveView(io.StringIO(), console, 1800)
    for one in a_run(time.time() - 140):
        view(one)
    view.live.refresh()
    began = time.process_time()
    with view:
        time.sleep(2)
    assert time.process_time() - began < 0.03 * 2


def test_columns_are_aligned() -> None:
    assert columns([("A", "B"), ("long", "x")]) == ["A     B", "long  x"]
