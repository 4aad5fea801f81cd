"""The page in a browser, with quick engines: what a person does with it."""

from __future__ import annotations

import re
import time

import pytest
from playwright.sync_api import Browser, Page, expect

from graph.background import held, stop
from memory.layout import RunFolder
from tests import example_run
from tests.browser import NARROW, App, opened

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

RUN = "20260101-000000-syllogism"
TOO_LATE = re.compile("answered already|has been answered|nothing waits", re.IGNORECASE)
"""One clear line, whichever it is by then."""
RUN_MS = 400_000
"""A run of one trial with quick engines takes half a minute; a machine that is busy takes longer."""


def say(tab: Page, text: str) -> None:
    """Write a sentence and press Enter."""
    box = tab.get_by_label("Say something")
    box.fill(text)
    box.press("Enter")


def show(tab: Page, name: str) -> None:
    """Turn to a tab of the page."""
    tab.get_by_role("tab", name=name, exact=True).click()


def only_run(app: App) -> RunFolder:
    """The one run of the page."""
    (task,) = app.runs.glob("*/task.json")
    return RunFolder(task.parent)


def end(folder: RunFolder) -> None:
    """Let no process of a run outlive its test."""
    if held(folder):
        stop(folder, now=True)
    until = time.monotonic() + 60
    while held(folder) and time.monotonic() < until:
        time.sleep(0.1)


def test_a_run_is_started_watched_through_a_reload_stopped_resumed_and_asked_about(app: App, tab: Page) -> None:
    say(tab, "Fine-tune smollm2 on syllogism for 20 minutes")
    expect(tab.locator("#chat")).to_contain_text("20m of wall clock")
    assert not app.runs.exists(), "nothing starts before the click"
    tab.get_by_role("button", name="Start").click()
    expect(tab.get_by_role("button", name="Start")).to_be_hidden()
    folder = only_run(app)
    try:
        expect(tab.get_by_label("Run, newest first")).to_have_value(folder.id)
        tab.reload()
        expect(tab.get_by_label("Run, newest first")).to_have_value(folder.id)
        show(tab, "Run")
        expect(tab.locator("#now")).to_contain_text("at work: analyst", timeout=RUN_MS)
        show(tab, "Chat")
        say(tab, "stop now")
        tab.get_by_role("button", name="Resume").click(timeout=RUN_MS)
        show(tab, "Run")
        expect(tab.locator("#now")).to_contain_text("finished", timeout=RUN_MS)
        expect(tab.locator("#trials")).to_contain_text("small")
        expect(tab.locator(".js-plotly-plot")).to_have_count(4)
    finally:
        end(folder)
    show(tab, "Chat")
    expect(tab.locator("#chat")).to_contain_text("The run has ended")
    say(tab, "What is the best so far?")
    expect(tab.locator("#chat")).to_contain_text("the untouched model:")
    say(tab, "make me a sandwich")
    expect(tab.locator("#chat")).to_contain_text("I do not understand")


def test_a_question_outlives_the_page_and_is_answered_once(app: App, tab: Page, chromium: Browser) -> None:
    say(tab, "Fine-tune smollm2 on syllogism for 20 minutes and ask me before each plan")
    tab.get_by_role("button", name="Start").click()
    expect(tab.get_by_role("button", name="Start")).to_be_hidden()
    folder = only_run(app)
    try:
        expect(tab.get_by_role("button", name="Approve")).to_be_visible(timeout=RUN_MS)
        expect(tab.locator("#chat")).to_contain_text("May trial 1 go on?")
        app.stop()
        app.start()
        tab.goto(f"{app.url}/?run={folder.id}")
        with opened(chromium, f"{app.url}/?run={folder.id}") as other:
            expect(other.get_by_role("button", name="Decline")).to_be_visible()
            tab.get_by_role("button", name="Approve").click()
            expect(tab.locator("#chat")).to_contain_text("Trial 1 goes on")
            say(other, "decline")
            expect(other.locator("#chat")).to_contain_text(TOO_LATE)
        show(tab, "Run")
        expect(tab.locator("#now")).to_contain_text("finished", timeout=RUN_MS)
    finally:
        end(folder)


def test_what_a_model_wrote_is_shown_and_never_run(app: App, chromium: Browser) -> None:
    folder = RunFolder(app.runs / RUN)
    example_run.play(folder)
    hostile = "<img src=x onerror=\"document.title='gone'\"> ![p](http://evil.example/p.png)"
    for path in (folder.root / "report.json", folder.snapshot):
        if path.exists():
            text, written = path.read_text(), hostile.replace('"', '\\"')
            path.write_text(text.replace("more of it helps", written).replace("no trials left", written))
    with opened(chromium, f"{app.url}/?run={RUN}", NARROW, dark=True) as tab:
        show(tab, "Run")
        expect(tab.locator("#trials")).to_contain_text("onerror")
        expect(tab.locator("#plan")).to_contain_text("onerror")
        assert tab.locator("img[src='x']").count() == 0
        show(tab, "Chat")
        say(tab, "what did trial 3 change?")
        expect(tab.locator("#chat")).to_contain_text("onerror")
        assert tab.locator("img[src='x']").count() == 0
        assert tab.title() == "Tunewright"
        assert tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "nothing is cut at 390 pixels"


def test_all_of_it_works_by_keyboard(app: App, tab: Page) -> None:
    example_run.play(RunFolder(app.runs / RUN))
    tab.get_by_role("tab", name="Chat").focus()
    tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    expect(tab.locator("#now")).to_contain_text("finished")
    tab.get_by_role("tab", name="Chat").focus()
    tab.keyboard.press("Enter")
    tab.get_by_label("Say something").focus()
    tab.keyboard.type("what is the best so far?")
    tab.keyboard.press("Enter")
    expect(tab.locator("#chat")).to_contain_text("Trial 3")


def test_a_copied_address_shows_its_run_and_a_guess_shows_none(app: App, tab: Page) -> None:
    example_run.play(RunFolder(app.runs / RUN))
    example_run.play(RunFolder(app.runs / "20260102-000000-syllogism"))
    tab.goto(f"{app.url}/?run={RUN}")
    expect(tab.get_by_label("Run, newest first")).to_have_value(RUN)
    tab.goto(f"{app.url}/?run=../../etc")
    chooser = tab.get_by_label("Run, newest first")
    expect(chooser).to_have_value("20260102-000000-syllogism")
    chooser.fill("../../etc")
    chooser.press("Enter")
    expect(tab.get_by_text("There is no such run")).to_be_visible()
    expect(chooser).to_have_value("")
