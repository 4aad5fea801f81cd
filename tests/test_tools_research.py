"""Public catalogues are searched in a bounded way: what they say is foreign text, a bad answer is one clear line."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from memory.errors import CatalogueError
from memory.records import Query
from tests.scripted_web import REVISION, Web, catalogues
from tools.research.library import Library
from tools.research.web import get, line


@pytest.fixture
def web() -> Iterator[tuple[Library, Web]]:
    with catalogues() as (url, web):
        yield Library(url, url), web


def test_data_sets_come_with_licence_size_downloads_and_revision(web: tuple[Library, Web]) -> None:
    library, asked = web
    first, second = library.search(Query(shelf="dataset", words="spelling backwards"))
    assert (first.id, first.licence, first.size, first.downloads) == (
        "somebody/backwards", "cc-by-nc-4.0", "1K<n<10K rows", 431,
    )  # fmt: skip
    assert first.says == "dataset somebody/backwards, licence cc-by-nc-4.0, no commercial use, 1K<n<10K rows"
    assert (first.revision, first.url) == (REVISION, f"{library.hub_url}/datasets/somebody/backwards")
    assert first.summary == "Words spelt backwards."
    assert (second.licence, second.gated, first.gated) == ("not stated", True, False)
    path, query = asked.asked[0]
    assert (path, query["search"], query["limit"]) == ("/api/datasets", ["spelling backwards"], ["4"])
    assert "Authorization" not in asked.headers[0]


def test_models_and_papers_are_found_too(web: tuple[Library, Web]) -> None:
    library, asked = web
    (model,) = library.search(Query(shelf="model", words="small"))
    assert (model.size, model.licence) == ("135M weights", "apache-2.0")
    (paper,) = library.search(Query(shelf="paper", words="low-rank adapters"))
    assert (paper.id, paper.title, paper.summary) == ("2106.09685v2", "Low-Rank Adaptation", "Adapters & ranks.")
    assert asked.asked[-1][1]["search_query"] == ["all:low-rank AND all:adapters"]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (503, "answered 503"),
        ("<html>busy</html>", "gave no list of"),
        ("x" * 2_100_000, "answered too much"),
        ('<?xml version="1.0"?><!DOCTYPE f [<!ENTITY a "b">]><feed>&a;</feed>', "gave no list of|document type"),
        ('<?xml version="1.0"?><! DOCTYPE f SYSTEM "file:///etc/passwd"><feed/>', "gave no list of|document type"),
    ],
)
def test_a_bad_answer_is_one_clear_line(web: tuple[Library, Web], answer: str | int, says: str) -> None:
    library, server = web
    server.answers = dict.fromkeys(server.answers, answer)
    for shelf in ("dataset", "paper"):
        with pytest.raises(CatalogueError, match=says):
            library.search(Query.model_validate({"shelf": shelf, "words": "spelling"}))


def test_a_slow_catalogue_is_not_waited_for(web: tuple[Library, Web]) -> None:
    library, server = web
    server.delay_s = 1.0
    with pytest.raises(CatalogueError, match="cannot be reached"):
        get(f"{library.hub_url}/api/datasets", {}, seconds=0.2)


def test_what_cannot_be_reached_is_found_out_at_once(web: tuple[Library, Web]) -> None:
    library, _ = web
    assert library.probed() == (library, [])
    reached, problems = Library(library.hub_url, "http://127.0.0.1:1").probed()
    assert reached.shelves == ("dataset", "model")
    assert problems == ["http://127.0.0.1:1/api/query cannot be reached (ConnectError)"]
    assert Library("http://127.0.0.1:1", "http://127.0.0.1:1").probed()[0].shelves == ()


def test_foreign_text_is_one_short_line() -> None:
    assert line("a\x1b[2J\n\u202eb\tc  d", 8) == "a [2J b "
