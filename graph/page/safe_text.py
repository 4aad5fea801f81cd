"""Text of others, made harmless where it is shown: a model may write HTML, links and pictures; a person reads them."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

CELL = (
    "text-align:left;vertical-align:top;padding:0.25rem 0.6rem;white-space:pre-wrap;overflow-wrap:break-word;"
    "border-bottom:1px solid var(--border-color-primary)"
)
PRE = (
    "white-space:pre-wrap;overflow-wrap:anywhere;margin:0.2rem 0;padding:0.5rem;font-size:0.9rem;"
    "background:var(--background-fill-secondary);color:var(--body-text-color)"
)
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


def document(text: str) -> str:
    """Markdown that keeps its headings, lists and tables, but in which no link, picture or HTML can stand: a picture
    would be fetched from elsewhere as soon as it is shown."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("[", "&#91;")


def paragraph(text: str) -> str:
    """An HTML paragraph."""
    return element("p", text)


def block(text: str) -> str:
    """A text with its line breaks, as it stands, in HTML."""
    return element("pre", text, style=PRE)


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """An HTML table of cells that keep their line breaks. On a narrow screen it scrolls by itself."""
    first = "".join(element("th", cell, scope="col", style=CELL) for cell in head)
    body = "".join("<tr>" + "".join(element("td", cell, style=CELL) for cell in row) + "</tr>" for row in rows)
    whole = f"<table><thead><tr>{first}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div style="overflow-x:auto;max-width:100%" tabindex="0">{whole}</div>'  # by keyboard, too
