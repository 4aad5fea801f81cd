"""Data sets and models of the Hugging Face hub, found by words: the most downloaded ones with licence and size."""

from __future__ import annotations

from pydantic import BaseModel, TypeAdapter, ValidationError

from memory.errors import CatalogueError
from memory.records import Found, Shelf
from tools.research.web import get, line

TITLE_CHARS, SUMMARY_CHARS, NAME_CHARS = 120, 300, 120
SECTIONS = {"dataset": "datasets", "model": "models"}


class Weights(BaseModel):
    """What the hub counts in a model's files."""

    total: int = 0


class Entry(BaseModel):
    """What we read of an entry of the hub's list; it has more."""

    id: str
    sha: str | None = None
    gated: bool | str = False
    downloads: int | None = None
    description: str | None = None
    tags: list[str] = []
    safetensors: Weights | None = None

    def tagged(self, kind: str) -> str:
        """What the tags say under `kind:`; the first where there are several."""
        return next((tag.partition(":")[2] for tag in self.tags if tag.startswith(f"{kind}:")), "")


ENTRIES = TypeAdapter(list[Entry])


def search(address: str, shelf: Shelf, words: str, most: int) -> list[Found]:
    """The most downloaded entries that the words find. Raises CatalogueError."""
    url = f"{address}/api/{SECTIONS[shelf]}"
    body = get(url, {"search": words, "limit": str(most), "full": "true", "sort": "downloads", "direction": "-1"})
    try:
        entries = ENTRIES.validate_json(body)
    except ValidationError as error:
        raise CatalogueError(f"{url} gave no list of entries") from error
    return [found(address, shelf, entry) for entry in entries[:most]]


def found(address: str, shelf: Shelf, entry: Entry) -> Found:
    """An entry as ours."""
    name = line(entry.id, NAME_CHARS)
    weights = f"{entry.safetensors.total / 1e6:.0f}M weights" if entry.safetensors and entry.safetensors.total else ""
    rows = entry.tagged("size_categories")
    return Found(
        shelf=shelf,
        id=name,
        title=name.rpartition("/")[2][:TITLE_CHARS],
        licence=line(entry.tagged("license"), NAME_CHARS) or "not stated",
        size=weights or (f"{line(rows, NAME_CHARS)} rows" if rows else ""),
        downloads=entry.downloads,
        gated=entry.gated is not False,
        revision=line(entry.sha or "", NAME_CHARS),
        url=f"{address}/{'datasets/' if shelf == 'dataset' else ''}{name}",
        summary=line(entry.description or "", SUMMARY_CHARS),
    )
