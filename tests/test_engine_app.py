"""One journey through the page with the real engines: a task from a file, a run, its outputs, a fork, and its model."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from graph.background import held
from memory.layout import RunFolder, read_record
from memory.records import Plan
from tests.browser import ROOT, App, opened, serving
from tests.score_engines import real_model
from tests.test_app import end, only_run, say, show
from tests.test_app_look import choose
from tests.test_graph_handing_over import accept

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]

PHASE_MS = 600_000
"""Servers, imports and trainings: a minute each where the machine is quiet."""
ITEMS = "12"
"""In validation and test: enough to see outputs, and soon answered."""


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    """A page whose runs make one small trial."""
    real_model()  # skips with the reason where the engines are not set up
    with serving(tmp_path / "runs", tmp_path / "app.log", module="tests.engine_app", FAKE_SCRIPT="small") as served:
        yield served


def test_a_file_becomes_a_tuned_model_that_answers_beside_the_untouched_one(app: App, chromium: Browser) -> None:
    with opened(chromium, app.url) as tab:
        bring(tab, ROOT / "examples" / "tickets.csv")
        run_it(tab, "tickets")
        folder = only_run(app)
        try:
            watch(tab)
        finally:
            end(folder)
        compare(tab)
        fork(tab, app, folder)
    accept(folder)  # what four steps of training are worth is not the question here
    with opened(chromium, f"{app.url}/?run={folder.id}") as tab:
        try_it(tab)


def bring(tab: Page, file: Path) -> None:
    """Upload a file of a few hundred rows, look at ten prompts, and save the task."""
    show(tab, "New task")
    tab.locator("input[type=file]").first.set_input_files(file)
    expect(tab.get_by_label("Name of the task")).to_have_value(file.stem)
    tab.get_by_label("Size of validation").fill(ITEMS)
    tab.get_by_label("Size of the test").fill(ITEMS)
    tab.get_by_role("button", name="Show ten prompts").click()
    expect(tab.get_by_text("the gold scores 1;")).to_have_count(10)
    tab.get_by_role("button", name="Save the task").click()
    expect(tab.get_by_label("Task", exact=True)).to_have_value(file.stem)


def run_it(tab: Page, task: str) -> None:
    """Ask for a run in the chat, read what it will be, and start it."""
    show(tab, "Chat")
    say(tab, f"Fine-tune smollm2 on {task} for 50 minutes")
    expect(tab.locator("#chat")).to_contain_text("50m of wall clock")
    tab.locator("#start").click()
    expect(tab.get_by_label("Run, newest first")).to_have_value(re.compile(f"-{task}$"))


def watch(tab: Page) -> None:
    """Follow the run to its end."""
    show(tab, "Run")
    now = tab.locator("#now")
    expect(now).to_contain_text("the vLLM server starts", timeout=PHASE_MS)
    expect(now).to_contain_text("at work: trainer, trial 1", timeout=PHASE_MS)
    expect(now).to_contain_text("finished", timeout=PHASE_MS)
    expect(tab.locator("#plan")).to_contain_text("The run has ended")
    expect(tab.locator("#trials")).to_contain_text("small")
    expect(tab.locator(".js-plotly-plot")).to_have_count(4)


def compare(tab: Page) -> None:
    """See the same question answered by the untouched model and by the trial."""
    show(tab, "Look inside")
    show(tab, "Outputs")
    expect(tab.get_by_text("right to wrong,")).to_be_visible()
    choose(tab, "First model", "base, 5-shot")
    expect(tab.locator("article").first).to_contain_text("base, 5-shot")
    expect(tab.locator("article").first).to_contain_text("trial 1")


def fork(tab: Page, app: App, source: RunFolder) -> None:
    """Grow another run from the plan, with another learning rate, and stop it when it is at work."""
    show(tab, "History")
    tab.get_by_role("gridcell", name="trial 1 planned").first.click()
    tab.get_by_role("button", name="Fork: a new run").click()
    tab.get_by_label("plan.learning_rate").fill("0.0005")
    tab.get_by_role("button", name="Fork and start").click()
    chooser = tab.get_by_label("Run, newest first")
    expect(chooser).not_to_have_value(source.id)
    new = RunFolder(app.runs / chooser.input_value())
    try:
        assert read_record(new.root / "trials" / "1" / "plan.json", Plan).training.learning_rate == 0.0005
        show(tab, "Run")
        expect(tab.locator("#now")).to_contain_text("at work", timeout=PHASE_MS)
        show(tab, "Chat")
        say(tab, "stop now")
        show(tab, "Run")
        expect(tab.locator("#now")).to_contain_text("stopped", timeout=PHASE_MS)
    finally:
        end(new)
    assert not held(source)


def try_it(tab: Page) -> None:
    """Ask both models a question of the benchmark, and see both answers as they are written."""
    show(tab, "Try it")
    expect(tab.get_by_label("Question", exact=True)).to_have_value(re.compile("Answer with one of"))
    tab.get_by_role("button", name="Ask both").click()
    expect(tab.get_by_text("Starting a server")).to_be_visible()
    base, tuned = tab.get_by_label("chatbot conversation").filter(visible=True).all()
    marks = tab.get_by_text("By tickets: the base model")
    grown: set[str] = set()
    until = time.monotonic() + PHASE_MS / 1000
    while not marks.is_visible() and time.monotonic() < until:
        grown.add(base.inner_text())
        time.sleep(0.05)
    expect(marks).to_be_visible()
    assert len(grown) > 3, "it came bit by bit"
    for answer in (base, tuned):
        expect(answer.locator(".bot").last).not_to_be_empty()
