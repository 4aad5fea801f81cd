"""What raw data is made of: sources, each a repository of the hub at one revision with its licence, and their files."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """A data set of the hub, as it was at one commit."""

    name: str
    """Ours, short; also the name of its folder in a folder of raw data."""
    title: str
    """One line for a person."""
    repository: str
    """`owner/name` on the Hugging Face hub."""
    revision: str
    """Full hash of a commit: what is fetched never changes."""
    licence: str
    non_commercial: bool = False
    """Whether the licence forbids commercial use, which may reach a model that was trained on the data."""
    gated: bool = False
    """Whether the hub hands it out only to people who accepted its terms."""

    @property
    def pinned(self) -> str:
        """Repository and revision, as a person reads them."""
        return f"{self.repository} at {self.revision[:8]}"


@dataclass(frozen=True)
class RawFile:
    """One file of a source: the rows of it that a benchmark needs, in one of several layouts."""

    source: Source
    name: str
    """Path in the hub's repository; what is fetched."""
    elsewhere: tuple[str, ...] = ()
    """Paths in a folder of raw data under which the same rows lie in the authors' own layout; a folder stands for all
    files in it."""
