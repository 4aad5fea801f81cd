"""What the page costs: `python -m tests.bench_page`.

Until it can be used: from navigation, in a browser that has seen nothing of it, until the chat takes text, and until a
button answers.

An update of the run view with 500 trials and 50,000 losses, all in all: read from disk as the page reads it, made into
parts, and those parts made into the JSON that a browser gets. A trial that ends draws every chart again; a step of a
training draws the loss and the line above it.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import gradio as gr
from playwright.sync_api import sync_playwright

from graph.page.reading import Follower
from graph.page.run_view import LASTING, TICKING, redrawn
from graph.snapshot import write_snapshot
from memory.events import Event, Events
from memory.layout import RunFolder, write_record
from memory.records import LossPoint, Trial
from memory.state import State
from tests import example_run
from tests.browser import FLAGS, serving

TRIALS, LOSSES = 500, 100
"""Losses of each trial."""
UPDATES = 20
AIM_MS = 200.0
VISITS = 5
USABLE_AIM_MS = 3000.0


def measure() -> list[dict[str, Any]]:
    """One row per figure: `figure`, `p50_ms`, and `aim_ms` where there is one."""
    return [*visits(), *updates()]


def visits() -> list[dict[str, Any]]:
    """The rows of a page that is opened on a finished run."""
    text, answers = [], []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        example_run.play(RunFolder(Path(folder) / "runs" / "20260101-000000-syllogism"))
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=list(FLAGS))
        with serving(Path(folder) / "runs", Path(folder) / "app.log") as app:
            for _ in range(VISITS):
                page = browser.new_page()
                start = time.perf_counter()
                page.goto(app.url, wait_until="commit")
                page.get_by_label("Say something").fill("how long still?")
                text.append((time.perf_counter() - start) * 1e3)
                page.get_by_role("button", name="What did you learn?").click()
                page.locator("#chat .user").wait_for()
                answers.append((time.perf_counter() - start) * 1e3)
                page.close()
        browser.close()
    return [
        {"figure": "the chat takes text", "p50_ms": median(text), "aim_ms": None},
        {"figure": "a button answers", "p50_ms": median(answers), "aim_ms": USABLE_AIM_MS},
    ]


def updates() -> list[dict[str, Any]]:
    """The rows of the run view."""
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder(Path(folder) / "run")
        state = grown(run)
        events = Events(run.events)
        events.node = "trainer"
        run.events.write_text("".join(f"{loss(step).model_dump_json()}\n" for step in range(TRIALS * LOSSES)))
        follower = Follower(run)
        first = timed(lambda: draw(follower, ()))
        shown: list[Any] = [()]
        ends, steps = [], []
        for number in range(UPDATES):
            state["trials"].append(trial(run, TRIALS + 1 + number))
            write_snapshot(run, state, ["planner"])
            ends.append(timed(lambda: shown.append(draw(follower, shown[-1]))))
            events.emit("loss", "one more", value=0.5, done=number)
            steps.append(timed(lambda: shown.append(draw(follower, shown[-1]))))
    return [
        {"figure": "first view of the run", "p50_ms": first, "aim_ms": None},
        {"figure": "a trial ended", "p50_ms": median(ends), "aim_ms": AIM_MS},
        {"figure": "a training step", "p50_ms": median(steps), "aim_ms": AIM_MS},
    ]


def draw(follower: Follower, before: Any) -> Any:
    """An update as the page makes it; the keys for the next one."""
    reading = follower.read(time.time())
    *parts, keys = redrawn((*TICKING, *LASTING), reading, before)
    for part in parts:
        if hasattr(part, "to_json"):
            part.to_json()
    return before if keys == gr.skip() else keys


def grown(run: RunFolder) -> State:
    """A run with many trials, its snapshot written."""
    write_record(run.task, example_run.task())
    state: State = {**example_run.finished(run), "test": None}
    state["trials"] = [trial(run, number) for number in range(1, TRIALS + 1)]
    write_snapshot(run, state, ["planner"])
    return state


def trial(run: RunFolder, number: int) -> Trial:
    """An ended trial with a curve; every third is accepted, and each grows from the one before the last."""
    made = example_run.trial(
        run, example_run.plan(number, max(1, number - 2) if number > 1 else None), [0, 1], "rejected"
    )
    points = tuple(
        LossPoint(step=step, epoch=step / LOSSES, loss=2 / (step + 1), learning_rate=1e-3, grad_norm=1.0, seconds=step)
        for step in range(LOSSES)
    )
    assert made.training is not None
    changes = {"training": made.training.model_copy(update={"losses": points})}
    return made.model_copy(update=changes | ({"decision": "accepted"} if number % 3 == 0 else {}))


def loss(step: int) -> Event:
    """A step of a training."""
    return Event(at=step, kind="loss", node="trainer", says=f"step {step} loss 0.5000", value=0.5, done=step)


def timed(work: Callable[[], object]) -> float:
    """Milliseconds."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def main() -> None:
    """Print the table."""
    for row in measure():
        aim = f"   aim <= {row['aim_ms']:g}" if row["aim_ms"] else ""
        print(f"{row['figure']:<24}{row['p50_ms']:>8.0f} ms{aim}")


if __name__ == "__main__":
    main()
