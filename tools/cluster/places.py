"""Paths here and there: what a job's files name on this machine, and what they have to name on the node."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml
from pydantic import JsonValue

TEXTS = (".json", ".yml")
"""Files in which paths are looked for before they are sent: requests and configurations."""
TEXTS_BACK = (".json", ".jsonl", ".md")
"""The same for those that come back: results, reports, the cards of adapters."""


@dataclass(frozen=True)
class Places:
    """Pairs of folders or files; a path on one side has the rest of its name on the other as well."""

    pairs: Mapping[str, str]
    """Here and there, absolute."""

    def there(self, name: str, data: bytes) -> bytes:
        """The content of the file `name` for the node: every value that is a path of ours is one of the node."""
        spellings = [spelling for path in self.pairs for spelling in (path.encode(), escaped(path))]
        if Path(name).suffix not in TEXTS or not any(spelling in data for spelling in spellings):
            return data
        value = _moved(parsed(name, data), self.pairs)
        if name.endswith(".yml"):
            return yaml.safe_dump(value, sort_keys=False, allow_unicode=True).encode()
        return json.dumps(value, indent=1).encode()

    def here(self, name: str, data: bytes) -> bytes:
        """The content of a file of the node for this machine. A configuration stays what was trained with, as its hash
        stands in records."""
        return self.text_here(data, in_json=name.endswith((".json", ".jsonl"))) if name.endswith(TEXTS_BACK) else data

    def text_here(self, data: bytes, *, in_json: bool) -> bytes:
        """Text of the node for this machine. The node's paths have long random names: they are found anywhere."""
        for here, there in self.pairs.items():
            old, new = (escaped(there), escaped(here)) if in_json else (there.encode(), here.encode())
            data = data if here == there else data.replace(old, new)
        return data


def escaped(path: str) -> bytes:
    """A path as it stands in JSON."""
    return json.dumps(path)[1:-1].encode()


def paths_in(value: JsonValue) -> Iterator[str]:
    """Every absolute path that stands in a value."""
    if isinstance(value, str):
        if value.startswith("/"):
            yield value
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from paths_in(each)


def inside(path: str, folder: str) -> bool:
    """Whether a path is that folder, or lies in it."""
    return path == folder or path.startswith(f"{folder}/")


def parsed(name: str, data: bytes) -> JsonValue:
    """The value of a JSON or YAML file."""
    value: JsonValue = yaml.safe_load(data) if name.endswith(".yml") else json.loads(data)
    return value


def _moved(value: JsonValue, pairs: Mapping[str, str]) -> JsonValue:
    if isinstance(value, str):
        within = [path for path in pairs if inside(value, path)]
        longest = max(within, key=len, default="")
        return pairs[longest] + value[len(longest) :] if longest else value
    if isinstance(value, list):
        return [_moved(each, pairs) for each in value]
    if isinstance(value, dict):
        return {key: _moved(each, pairs) for key, each in value.items()}
    return value
