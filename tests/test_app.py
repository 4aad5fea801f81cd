"""The page in a browser, with quick engines: what a person does with it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from memory.layout import RunFolder
from tests import example_run
from tests.browser import App

pytestmark = pytest.mark.slow

RUN = "20260101-000000-syllogism"


def test_the_run_of_the_address_is_shown_and_survives_a_reload(app: App, tab: Page) -> None:
    example_run.play(RunFolder(app.runs / RUN))
    example_run.play(RunFolder(app.runs / "20260102-000000-syllogism"))
    tab.goto(f"{app.url}/?run={RUN}")
    expect(tab.get_by_label("Run").first).to_have_value(RUN)
    tab.reload()
    expect(tab.get_by_label("Run").first).to_have_value(RUN)
