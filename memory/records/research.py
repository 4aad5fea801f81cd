"""What was looked up in public catalogues before the first plan: the words, and what they found."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field

from memory.records.record import Record

Shelf = Literal["dataset", "model", "paper"]
"""What can be looked up: data sets and models of the hub, papers of arXiv."""
NON_COMMERCIAL = re.compile(r"(^|[-_ ])nc([-_ ]|$)|non-?commercial", re.IGNORECASE)


class Query(Record):
    """Words that were searched for."""

    shelf: Shelf
    words: str = Field(min_length=1, max_length=80)
    problem: str = ""
    """Why there is no answer; empty where there is one, be it that nothing was found."""


class Found(Record):
    """An entry of a catalogue. All its text is foreign: it is shown as a quotation and never obeyed."""

    shelf: Shelf
    id: str
    """`owner/name` on the hub, or the number of a paper with its version."""
    title: str = ""
    licence: str = "not stated"
    size: str = ""
    """As the catalogue puts it: a range of rows, or a number of weights; empty where it says nothing."""
    downloads: int | None = Field(default=None, ge=0)
    """Of the last month; None for a paper."""
    gated: bool = False
    """Whether it is handed out only to people who accepted its terms."""
    revision: str = ""
    """Full hash of the commit that was current; empty for a paper."""
    url: str
    summary: str = ""

    @property
    def non_commercial(self) -> bool:
        """Whether the licence forbids commercial use, which may reach a model that is trained on it."""
        return NON_COMMERCIAL.search(self.licence) is not None

    @property
    def says(self) -> str:
        """Name, licence and size in a line."""
        terms = f"licence {self.licence}" + (", no commercial use" if self.non_commercial else "")
        return ", ".join(part for part in (f"{self.shelf} {self.id}", terms, self.size) if part)


class Research(Record):
    """All that was looked up in a run."""

    queries: tuple[Query, ...] = ()
    found: tuple[Found, ...] = ()
    """Each entry once, in the order of the queries; a plan cites the first one as [R1]."""
