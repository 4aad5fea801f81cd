"""One bounded request to a public catalogue, and foreign text made harmless: short, and on one line."""

from __future__ import annotations

import time
from collections.abc import Mapping

from memory.errors import CatalogueError

SECONDS = 10.0
"""For a whole answer."""
MOST_BYTES = 2_000_000
"""Of an answer; more is no list of five entries."""


def get(url: str, question: Mapping[str, str], seconds: float = SECONDS) -> bytes:
    """The body of an answer. No redirect is followed, and nothing is sent but the question. Raises CatalogueError."""
    import httpx2

    body, headers, until = b"", {"User-Agent": "tunewright"}, time.monotonic() + seconds
    try:
        with httpx2.stream("GET", url, params=dict(question), timeout=seconds, headers=headers) as answer:
            if answer.status_code != 200:
                raise CatalogueError(f"{url} answered {answer.status_code}")
            for piece in answer.iter_bytes():
                body += piece
                if len(body) > MOST_BYTES or time.monotonic() > until:
                    raise CatalogueError(f"{url} answered too much, or too slowly")
    except httpx2.HTTPError as error:
        raise CatalogueError(f"{url} cannot be reached ({type(error).__name__})") from error
    return body


def line(text: str, most: int) -> str:
    """Foreign text as one line of printable characters, cut."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())[:most]
