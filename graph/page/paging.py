"""Long files on the page: read once for as long as they stay what they are, and shown fifty lines at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from memory.errors import InputError

T = TypeVar("T")
ON_A_PAGE = 50


@dataclass(frozen=True)
class Page(Generic[T]):
    """Some of many."""

    items: tuple[T, ...]
    total: int
    """Of all pages."""
    number: int
    """From 1."""

    @property
    def pages(self) -> int:
        """How many there are; at least 1."""
        return max(1, -(-self.total // ON_A_PAGE))

    @property
    def says(self) -> str:
        """Where we are, for a person."""
        first = (self.number - 1) * ON_A_PAGE
        return f"{first + 1:,} to {first + len(self.items):,} of {self.total:,}" if self.items else "none"


def page_of(items: Sequence[T], number: int) -> Page[T]:
    """A page of `items`, from 1; instead of one that is not there, the nearest."""
    number = min(max(1, number), max(1, -(-len(items) // ON_A_PAGE)))
    return Page(tuple(items[(number - 1) * ON_A_PAGE : number * ON_A_PAGE]), len(items), number)


class Stamped(NamedTuple):
    """A file with what shows that it is still the same: the key under which its content is kept in memory."""

    path: Path
    size: int
    changed: int
    """Nanoseconds."""


def stamped(path: Path) -> Stamped:
    """The file as it is now. Raises InputError where it is not there."""
    try:
        status = path.stat()
    except OSError as error:
        raise InputError(f"{path.name} cannot be read: {error.strerror}", "Choose something else.") from error
    return Stamped(path, status.st_size, status.st_mtime_ns)
