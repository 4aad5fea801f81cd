"""Text of others, made harmless where it is shown: a model may write HTML, links and pictures; a person reads them."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

_MARKDOWN = re.compile(r"([\\`*_\[\]{}<>&|~#!$:@^])")


def plain(text: str) -> str:
    """`text` as Markdown that shows it as it is, on one line."""
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table of cells that are shown as they are."""
    lines = ["| " + " | ".join(plain(cell) or " " for cell in row) + " |" for row in (head, *rows)]
    return "\n".join([lines[0], "| " + " | ".join("---" for _ in head) + " |", *lines[1:]])


def element(tag: str, text: str, **attributes: str) -> str:
    """An HTML element that holds `text` as it is; attributes may end in `_` where Python has a word of that name."""
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{html.escape(value)}"' for name, value in attributes.items()
    )
    return f"<{tag}{written}>{html.escape(text)}</{tag}>"
