"""Prompts from templates, rendered strictly: a name that is missing or left over is a mistake, never an empty place."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from memory.records import Record

NAME = re.compile(r"\{\{ *(\w+) *\}\}")
"""A place in a template: `{{ name }}`."""


def rendered(template: str, **values: str) -> str:
    """The template with its places filled. Raises ValueError where names and places do not match."""
    places = set(NAME.findall(template))
    if places != values.keys():
        raise ValueError(f"the template has places for {sorted(places)}, and there are {sorted(values)}")
    return NAME.sub(lambda found: values[found.group(1)], template)


def fenced(text: str) -> str:
    """Foreign text between two marks that it does not contain, so that it cannot pretend to be ours."""
    number = 1
    while f"data-{number}" in text:
        number += 1
    return f"<data-{number}>\n{text}\n</data-{number}>"


def schema_of(kind: type[Record], without: Collection[str] = ()) -> dict[str, Any]:
    """The JSON schema of a form, without the optional fields that are not to be asked for."""
    schema = kind.model_json_schema()
    return {
        **schema,
        "properties": {name: about for name, about in schema["properties"].items() if name not in without},
    }


def form_text(kind: type[Record], without: Collection[str] = ()) -> str:
    """The fields of a form with their bounds, a line each, as their JSON schema has them."""
    lines = []
    for name, about in schema_of(kind, without)["properties"].items():
        choices = about.get("anyOf", [about])
        told = " or ".join(_choice(one) for one in choices)
        lines.append(f"- {name}: {told}" + (f"; {about['description']}" if "description" in about else ""))
    return "\n".join(lines)


def _choice(schema: dict[str, object]) -> str:
    """One of the values that a field takes, in words."""
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return " | ".join(str(value) for value in values) if isinstance(values, list) else ""
    told = str(schema["type"])
    told += f" from {schema['minimum']:g}" if "minimum" in schema else ""
    told += f" to {schema['maximum']:g}" if "maximum" in schema else ""
    return told + (f" of at most {schema['maxLength']} characters" if "maxLength" in schema else "")
