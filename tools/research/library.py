"""The catalogues that a run may search, and whether they can be reached at all."""

from __future__ import annotations

from dataclasses import dataclass

from memory.errors import CatalogueError
from memory.records import Found, Query, Shelf
from tools.research import hub, papers
from tools.research.web import get

HUB_URL, PAPERS_URL = "https://huggingface.co", "https://export.arxiv.org"
MOST = 4
"""Entries that a query brings."""
PROBE_SECONDS = 3.0
"""For a first sign of life: a machine without a network shall not wait."""


@dataclass(frozen=True)
class Library:
    """Where data sets, models and papers are searched for."""

    hub_url: str = HUB_URL
    papers_url: str = PAPERS_URL
    shelves: tuple[Shelf, ...] = ("dataset", "model", "paper")
    """What can be asked for; the others are out of reach."""

    def search(self, query: Query) -> list[Found]:
        """What a query finds. Raises CatalogueError."""
        if query.shelf == "paper":
            return papers.search(self.papers_url, query.words, MOST)
        return hub.search(self.hub_url, query.shelf, query.words, MOST)

    def probed(self) -> tuple[Library, list[str]]:
        """The library with the shelves that can be reached, and in words what cannot be."""
        problems: list[str] = []
        shelves: list[Shelf] = []
        here: dict[str, tuple[Shelf, ...]] = {
            f"{self.hub_url}/api/datasets": ("dataset", "model"),
            f"{self.papers_url}/api/query": ("paper",),
        }
        for url, behind in here.items():
            try:
                get(url, {"limit": "1", "search_query": "all:tuning", "max_results": "1"}, PROBE_SECONDS)
                shelves += behind
            except CatalogueError as error:
                problems.append(error.message)
        return Library(self.hub_url, self.papers_url, tuple(shelves)), problems
