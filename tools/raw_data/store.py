"""Where raw data lies on this machine: in a folder of the person's, or in the shared cache, fetched when needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from memory.errors import InputError
from tools.raw_data import hub
from tools.raw_data.source import RawFile


@dataclass(frozen=True)
class Store:
    """The places that are looked at, in this order."""

    given: Path | None
    """A folder that the person names (`--data-dir`, TUNEWRIGHT_DATA); None for none."""
    cache: Path
    """The cache that all runs share; raw data lies in its folder `data`."""

    def find(self, file: RawFile) -> Path | None:
        """Where the file is, whole; None where it would have to be fetched."""
        for place in self._given(file):
            if place.exists():
                return place
        return hub.fetched(file, self.cache)

    def path(self, file: RawFile) -> Path:
        """Where the file is, fetched first where it is not there yet. Raises InputError that says what is missing, from
        where it comes, and how it gets here."""
        return self.find(file) or hub.fetch(file, self.cache, looked_at=self._looked_at(file))

    def missing(self, files: Iterable[RawFile]) -> list[RawFile]:
        """The files that would have to be fetched."""
        return [file for file in files if self.find(file) is None]

    def _given(self, file: RawFile) -> Iterator[Path]:
        """Places in the person's folder: the hub's layout, in a folder called like our source or like the repository,
        or right in the folder; then the authors' own."""
        if self.given is None:
            return
        owner, name = file.source.repository.split("/")
        for folder in (file.source.name, name, f"{owner}/{name}", ""):
            yield self.given / folder / file.name
        for place in file.elsewhere:
            yield self.given / place

    def _looked_at(self, file: RawFile) -> str:
        return f"{self.given} (as {file.source.name}/{file.name})" if self.given else ""


def data_folder(name: str | None) -> Path | None:
    """A folder of raw data that a person named, absolute; None for none. Raises InputError where it is none."""
    if not name:
        return None
    folder = Path(name).expanduser().absolute()
    if not folder.is_dir():
        raise InputError(
            f"{folder} is no folder", "Name the folder that holds raw data with --data-dir or TUNEWRIGHT_DATA."
        )
    return folder


def store_of(given: str | None, cache: Path) -> Store:
    """The store of a task: the folder that it names, where it names one, and the cache."""
    return Store(Path(given) if given else None, cache)
