"""The page as a person meets it: `app.py` in a process of its own, and Debian's Chromium in front of it.

Tests get `app` (a page with quick engines, and no run yet), and `tab` (a browser tab that shows it). A test fails if
its tab asked anybody but the page for anything, or if an error stood on its console.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parents[1]
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
WIDE, NARROW = (1280, 900), (390, 844)
"""Pixels."""
PATIENCE_MS = 60_000
"""For machines that are busy; a page that works is much quicker."""
START_SECONDS = 120.0
GRADIO_GOES = re.compile(
    "AbortError|Connection errored out|Failed to (load resource|fetch)|ERR_CONNECTION|Server stopped|network error"
)
"""What Gradio's own code says when a page is left, or its app has gone."""


class App:
    """A page that is served by a process."""

    def __init__(self, runs: Path, log: Path, *options: str, module: str = "tests.fake_app", **env: str) -> None:
        """`env` is added to the environment; names that begin with FAKE_ ask for faults of the engines."""
        self.runs, self.log, self.env = runs, log, env
        self.port = free_port()
        self.argv = [sys.executable, "-m", module, "--run-dir", str(runs), "--port", str(self.port), *options]
        self.start()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, once more after `stop`, and wait until it answers."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.argv, cwd=ROOT, env=os.environ | self.env, stdout=log, stderr=subprocess.STDOUT
            )
        until = time.monotonic() + START_SECONDS
        while not answers(self.port):
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < until, f"the page was not up in time: {self.log.read_text()}"
            time.sleep(0.1)

    def stop(self) -> None:
        """End it as Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(timeout=60)


@contextmanager
def serving(runs: Path, log: Path, *options: str, **env: str) -> Iterator[App]:
    """A page that ends with the block."""
    app = App(runs, log, *options, **env)
    try:
        yield app
    finally:
        app.stop()


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    """A page without any run; one that it starts makes a single small trial."""
    with serving(tmp_path / "runs", tmp_path / "app.log", HOME=str(tmp_path), FAKE_SCRIPT="small") as served:
        yield served


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser; the test is skipped where there is none."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def tab(app: App, chromium: Browser) -> Iterator[Page]:
    """A tab in which the page has come up."""
    with opened(chromium, app.url) as page:
        yield page


@contextmanager
def opened(browser: Browser, url: str, size: tuple[int, int] = WIDE, dark: bool = False) -> Iterator[Page]:
    """A tab of its own session. At its end, whatever it did that it should not have is an error."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme="dark" if dark else "light"
    )
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    strangers: list[str] = []
    errors: list[str] = []
    page.on("request", lambda request: None if ours(request.url) else strangers.append(request.url))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(url)
    page.get_by_role("tab", name="Chat").wait_for()
    yield page
    context.close()
    assert strangers == []
    found = [error for error in errors if not GRADIO_GOES.search(error)]
    assert found == [], "\n".join(found)


def ours(url: str) -> bool:
    """Whether an address is one of the page, or of nobody."""
    return url.startswith(("http://127.0.0.1:", "data:", "blob:"))


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    """Whether somebody listens on a port."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0
