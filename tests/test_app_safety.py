"""The page is no way into the machine: raw requests, as a program would send them, not a browser."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gradio as gr
import pytest

from app import parse
from graph.background import held, stop
from graph.page.door import FREE_TRIES, LONGEST_WAIT_SECONDS, Throttle
from graph.page.place import Place
from graph.page.shell import page
from graph.page.tabs import TABS
from memory.errors import InputError
from memory.layout import RunFolder
from tests import example_run
from tests.browser import App, serving

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

RUN = "20260101-000000-syllogism"
PASSWORD = "correct horse battery"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """A page without a password that shows one finished run."""
    folder = tmp_path_factory.mktemp("page")
    example_run.play(RunFolder(folder / "runs" / RUN))
    with serving(folder / "runs", folder / "app.log", HOME=str(folder), FAKE_SCRIPT="small") as app:
        yield app


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """A page with a password."""
    folder = tmp_path_factory.mktemp("guarded")
    with serving(folder / "runs", folder / "app.log", HOME=str(folder), TUNEWRIGHT_PASSWORD=PASSWORD) as app:
        yield app


def ask(app: App, path: str, body: Any = None, **headers: str) -> tuple[int, str, dict[str, str]]:
    """Status, text and headers of the answer; a dict is posted as JSON, bytes as a form."""
    form = isinstance(body, bytes)
    data = body if form or body is None else json.dumps(body).encode()
    kind = {"content-type": "application/x-www-form-urlencoded" if form else "application/json"}
    request = urllib.request.Request(app.url + path, data=data, headers=kind | headers)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, answer.read().decode(errors="replace"), dict(answer.headers)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(errors="replace"), dict(error.headers)


def test_nothing_on_the_page_offers_to_publish_what_it_shows(tmp_path: Path) -> None:
    whole = page(Place(tmp_path / "runs", tmp_path / "cache", tmp_path / "out"), TABS)
    chats = [block for block in whole.blocks.values() if isinstance(block, gr.Chatbot)]
    assert len(chats) == 3
    assert all(chat.buttons and "share" not in chat.buttons for chat in chats)


def test_no_path_is_served_that_was_not_handed_out(served: App) -> None:
    database = served.runs / RUN / "run.duckdb"
    for path in (
        *("/etc/passwd", "//etc/passwd", "..%2f..%2fetc/passwd", "app.py", "../app.py", str(Path(__file__))),
        *(str(database), str(served.runs / RUN / "task.json"), f"{database}/../task.json"),
        *("http://127.0.0.1:1/x", "https://evil.example/x"),
    ):
        for prefix in ("/gradio_api/file=", "/gradio_api/file/", "/file="):
            status, text, _ = ask(served, prefix + path)
            assert status in (403, 404, 400, 405), (prefix + path, status)
            assert "root:" not in text
            assert "benchmark" not in text


def test_other_pages_and_other_names_are_turned_away(served: App) -> None:
    assert ask(served, "/config")[0] == 200
    for origin in ("http://localhost:9999", "https://evil.example", "null"):
        assert ask(served, "/config", Origin=origin)[0] == 403
    assert ask(served, "/config", Host="evil.example")[0] == 403
    assert ask(served, "/config", Origin=served.url)[0] == 200
    assert "default-src 'self'" in ask(served, "/")[2]["content-security-policy"]


def test_no_endpoint_is_offered_to_programs(served: App) -> None:
    offered = json.loads(ask(served, "/gradio_api/info")[1])
    assert offered["named_endpoints"] == {}


def test_every_handler_refuses_what_no_page_would_send(served: App) -> None:
    before = sorted(path.name for path in served.runs.iterdir())
    for handler in json.loads(ask(served, "/config")[1])["dependencies"]:
        for guess in ("../../etc/passwd", "/etc/passwd", "20260102-000000-other", {"path": "/etc/passwd"}, None, 7):
            body = {"data": [guess] * len(handler["inputs"]), "fn_index": handler["id"], "session_hash": "guess"}
            status, text, _ = ask(served, "/gradio_api/run/predict", body)
            assert "root:" not in text
            assert "Traceback" not in text
            assert status in (200, 422, 500)
    assert sorted(path.name for path in served.runs.iterdir()) == before, "and none of them starts a run"


def test_two_hundred_clicks_on_start_start_one_run(served: App) -> None:
    handlers = json.loads(ask(served, "/config")[1])
    ids = {each["props"].get("elem_id"): each["id"] for each in handlers["components"]}
    say = next(each for each in handlers["dependencies"] if each["inputs"][:1] == [ids["spoken"]])
    start = next(each for each in handlers["dependencies"] if [ids["start"], "click"] in each["targets"])
    words = "Fine-tune smollm2 on syllogism for 20 minutes"
    assert ask(served, "/gradio_api/run/predict", call(say, [words, None, None, None]))[0] == 200
    clicks = [
        threading.Thread(target=ask, args=(served, "/gradio_api/run/predict", call(start, [None, None])))
        for _ in range(200)
    ]
    for click in clicks:
        click.start()
    for click in clicks:
        click.join()
    begun = [RunFolder(path) for path in served.runs.iterdir() if path.name != RUN]
    try:
        assert len(begun) == 1
    finally:
        for folder in begun:
            end(folder)


def call(handler: Any, data: list[Any]) -> dict[str, Any]:
    """A request to a handler; what is no text lies with the server, in the session."""
    return {"data": [*data, *[None] * len(handler["inputs"])][: len(handler["inputs"])], "fn_index": handler["id"],
            "session_hash": "clicks"}  # fmt: skip


def end(folder: RunFolder) -> None:
    """Stop the process of a run, as soon as it has begun."""
    until = time.monotonic() + 120
    while time.monotonic() < until and not (held(folder) and folder.snapshot.exists()):
        time.sleep(0.2)
    if held(folder):
        stop(folder, now=True)
    while held(folder) and time.monotonic() < until:
        time.sleep(0.2)


def test_nothing_is_shown_without_the_password(guarded: App) -> None:
    for path in ("/config", "/gradio_api/info", "/gradio_api/file=/etc/passwd", "/gradio_api/queue/data"):
        assert ask(guarded, path)[0] == 401, path
    assert ask(guarded, "/gradio_api/run/predict", {"data": [], "fn_index": 0})[0] == 401
    assert ask(guarded, "/gradio_api/upload", {"files": ""})[0] == 401


def test_passwords_cannot_be_guessed_fast(guarded: App) -> None:
    def login(password: str) -> tuple[int, dict[str, str]]:
        body = urllib.parse.urlencode({"username": "me", "password": password}).encode()
        status, _, headers = ask(guarded, "/login", body)
        return status, headers

    answers = [login(f"guess {number}") for number in range(20)]
    assert [status for status, _ in answers[:FREE_TRIES]] == [400] * FREE_TRIES
    assert [status for status, _ in answers].count(429) >= 10
    refused = next(headers for status, headers in answers if status == 429)
    time.sleep(int(refused["retry-after"]) + 2)
    until = time.monotonic() + 60
    while (found := login(PASSWORD))[0] == 429 and time.monotonic() < until:
        time.sleep(1)
    assert found[0] == 200
    cookie = found[1]["set-cookie"].split(";")[0].replace("access-token-", "access-token-unsecure-", 1)
    assert "unsecure-unsecure" not in cookie
    for number in range(20):
        login(f"guess {number}")
    assert ask(guarded, "/config", Cookie=cookie)[0] == 200, "who is in stays in"


def test_the_wait_grows_and_a_right_password_forgives() -> None:
    throttle = Throttle()
    assert [throttle.seconds_left(100.0) for _ in range(FREE_TRIES)] == [0.0] * FREE_TRIES
    assert throttle.seconds_left(100.0) == 1.0
    now, waits = 101.0, []
    for _ in range(10):
        assert throttle.seconds_left(now) == 0.0
        waits.append(throttle.open_at - now)
        now = throttle.open_at
    assert waits == sorted(waits)
    assert waits[-1] == LONGEST_WAIT_SECONDS
    throttle.succeeded()
    assert throttle.seconds_left(now) == 0.0


def test_others_reach_only_a_page_with_a_password(tmp_path: Path) -> None:
    for argv in (["--host", "0.0.0.0"], ["--share"], ["--host", "192.168.1.2"]):
        with pytest.raises(InputError, match="needs a password"):
            parse(argv, {})
        assert parse(argv, {"TUNEWRIGHT_PASSWORD": PASSWORD}).password == PASSWORD
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\nsomething else\n")
    assert parse(["--password-file", str(file)], {}).password == PASSWORD
    assert parse([], {}).host == "127.0.0.1"
    for argv, env in (
        (["--password-file", str(tmp_path / "none")], {}),
        ([], {"TUNEWRIGHT_PASSWORD": "short"}),
        (["--port", "0"], {}),
        (["--nonsense"], {}),
    ):
        with pytest.raises(InputError):
            parse(argv, env)
