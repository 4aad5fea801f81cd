"""What every request passes before Gradio sees it: other web pages are turned away, and logins are counted.

Gradio lets other pages of this machine use one without a password, and anybody guess passwords as fast as they can.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

FREE_TRIES = 5
"""Wrong passwords in a row that cost no wait."""
LONGEST_WAIT_SECONDS = 60.0
HEADERS = {
    "content-security-policy": "default-src 'self' data: blob: 'unsafe-inline' 'unsafe-eval'; frame-ancestors 'self'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
}
"""Whatever stands in a page, a browser fetches nothing from elsewhere; Gradio's own scripts need the rest."""


class Throttle:
    """Counts logins of the whole page: addresses can be made up behind a tunnel, so they do not count.

    A try is counted when it begins, so that a thousand at once are a thousand. The price is that somebody who keeps
    guessing keeps others from logging in; who is in stays in.
    """

    def __init__(self) -> None:
        self.tries = 0
        self.open_at = 0.0

    def seconds_left(self, now: float) -> float:
        """How long the next try has to wait; at 0 it is counted."""
        if now < self.open_at:
            return self.open_at - now
        self.tries += 1
        if self.tries >= FREE_TRIES:
            self.open_at = now + min(2.0 ** min(self.tries - FREE_TRIES, 6), LONGEST_WAIT_SECONDS)
        return 0.0

    def succeeded(self) -> None:
        """A right password forgives the wrong ones before it."""
        self.tries, self.open_at = 0, 0.0


class Door:
    """ASGI middleware. `hosts` are the names under which the page may be asked for; empty where any may, as behind a
    tunnel, whose page has a password."""

    def __init__(self, app: ASGIApp, throttle: Throttle, hosts: Collection[str] = ()) -> None:
        self.app = app
        self.throttle = throttle
        self.hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer what is refused; hand on the rest."""
        if scope["type"] != "http":  # the server's own start and end; nothing of the page is a websocket
            await (self.app if scope["type"] == "lifespan" else say(HTTPStatus.FORBIDDEN, ""))(scope, receive, send)
            return
        refusal = self.refusal(scope, Headers(scope=scope))
        await (refusal or self.app)(scope, receive, self.listening(send, is_login(scope)))

    def refusal(self, scope: Scope, headers: Headers) -> PlainTextResponse | None:
        """Why this request goes no further; None where it may."""
        host = headers.get("host", "")
        if self.hosts and urlsplit(f"//{host}").hostname not in self.hosts:
            return say(HTTPStatus.FORBIDDEN, "This page is not served under that name.")
        origin = headers.get("origin")
        if self.hosts and origin is not None and urlsplit(origin).netloc != host:
            return say(HTTPStatus.FORBIDDEN, "Another page may not use this one.")
        if "/file=http" in scope["path"]:
            return say(HTTPStatus.NOT_FOUND, "Nothing is fetched from elsewhere.")
        if is_login(scope) and (wait := self.throttle.seconds_left(time.monotonic())):
            seconds = str(int(wait) + 1)
            answer = say(HTTPStatus.TOO_MANY_REQUESTS, f"Too many wrong passwords. Try again in {seconds} s.")
            answer.headers["retry-after"] = seconds
            return answer
        return None

    def listening(self, send: Send, login: bool) -> Send:
        """`send`, which forbids the browser to ask others, and tells the throttle of a login that succeeded."""

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                if login and message["status"] == HTTPStatus.OK:
                    self.throttle.succeeded()
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        return sent


def is_login(scope: Scope) -> bool:
    """Whether a request tries a password."""
    return bool(scope["method"] == "POST" and scope["path"].rstrip("/") == "/login")


def say(status: HTTPStatus, line: str) -> PlainTextResponse:
    """One line as an answer."""
    return PlainTextResponse(line, status_code=status)
