"""Pictures of every tab, at both widths and in both themes, of a run that has ended: `python -m tests.screenshots RUN`.

RUN is the run's folder. The pictures go to docs/screenshots, which the README shows.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from graph.page.tabs import TABS
from tests.browser import FLAGS, NARROW, ROOT, WIDE, App, opened

TARGET = ROOT / "docs" / "screenshots"
QUESTIONS = ("What is the best so far?", "What did trial 1 change?", "Why was trial 1 decided so?")
SETTLE_MS = 2500
"""Charts move into place."""


def main(run: Path) -> None:
    """Take all pictures of one run."""
    TARGET.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        app = App(run.parent, Path(folder) / "app.log", module="app")
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=list(FLAGS))
        try:
            for size in (WIDE, NARROW):
                for dark in (False, True):
                    with opened(browser, f"{app.url}/?run={run.name}", size, dark) as page:
                        take(page, f"{size[0]}-{'dark' if dark else 'light'}")
        finally:
            browser.close()
            app.stop()


def take(page: Page, kind: str) -> None:
    """Every tab as it stands."""
    page.locator("#chat").get_by_text("This is run").wait_for()
    talk(page)
    for tab in TABS:
        turn_to(page, tab.name)
        page.wait_for_timeout(SETTLE_MS)
        path = TARGET / f"{tab.name.lower().replace(' ', '-')}-{kind}.png"
        page.screenshot(path=path, full_page=True)
        print(path)


def turn_to(page: Page, tab: str) -> None:
    """Turn to a tab. On a narrow screen the last ones stand behind a button."""
    name = page.get_by_role("tab", name=tab, exact=True)
    if not name.is_visible():
        page.get_by_label("More tabs").first.click()
        name = page.locator(".overflow-dropdown").get_by_role("button", name=tab, exact=True)
    name.click()


def talk(page: Page) -> None:
    """Ask something, so that the chat shows what it is for."""
    for number, question in enumerate(QUESTIONS, 1):
        box = page.get_by_label("Say something")
        box.fill(question)
        box.press("Enter")
        page.locator("#chat .user").nth(number - 1).wait_for()
        page.wait_for_timeout(SETTLE_MS)


if __name__ == "__main__":
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / "task.json").exists():
        sys.exit("python -m tests.screenshots RUN, where RUN is the folder of a run that has ended")
    main(Path(sys.argv[1]).absolute())
