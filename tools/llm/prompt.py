"""Prompts from templates, rendered strictly: a name that is missing or left over is a mistake, never an empty place."""

from __future__ import annotations

import re

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
