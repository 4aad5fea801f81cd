"""Text of models, files and people on the page: always shown as text, never taken for markup."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

SCROLLS = "overflow-x:auto;max-width:100%"
CELL = (
    "text-align:left;vertical-align:top;padding:0.25rem 0.6rem;white-space:pre-wrap;overflow-wrap:break-word;"
    "border-bottom:1px solid var(--border-color-primary)"
)
PRE = (
    "white-space:pre-wrap;overflow-wrap:anywhere;margin:0.2rem 0;padding:0.5rem;font-size:0.9rem;"
    "background:var(--background-fill-secondary);color:var(--body-text-color)"
)


def markdown(text: str) -> str:
    """Markdown that keeps its headings, lists and tables, but in which no link, picture or HTML can stand: a picture
    would be fetched from elsewhere as soon as it is shown."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("[", "&#91;")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """An HTML table; all cells are text. On a narrow screen it scrolls by itself."""
    first = "".join(f'<th scope="col" style="{CELL}">{escape(cell)}</th>' for cell in head)
    body = "".join(
        "<tr>" + "".join(f'<td style="{CELL}">{escape(cell)}</td>' for cell in row) + "</tr>" for row in rows
    )
    # A region that scrolls has to be reachable by keyboard.
    whole = f"<table><thead><tr>{first}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div style="{SCROLLS}" tabindex="0">{whole}</div>'


def block(text: str) -> str:
    """A text with its line breaks, as it stands."""
    return f'<pre style="{PRE}">{escape(text)}</pre>'


def line(text: str) -> str:
    """A paragraph."""
    return f"<p>{escape(text)}</p>"
