"""Texts compared the way a reader does: what cannot be seen makes no difference."""

from __future__ import annotations

import unicodedata

QUOTES = "\"'`\u2018\u2019\u201a\u201c\u201d\u201e\u2039\u203a«»"
_OPENING = QUOTES + "*([{<¿¡"
_CLOSING = QUOTES + "*)]}>.,;:!?…\u3002\uff0c\uff1b\uff1a\uff01\uff1f"
"""The last six are the East Asian stops."""


def plain(text: str) -> str:
    """Composed Unicode (NFC), white space collapsed, none at the ends."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def without_reasoning(text: str) -> str:
    """What a model says after it has thought: the text behind the last `</think>`, or all of it."""
    return text.rpartition("</think>")[2]


def bare(text: str) -> str:
    """`plain` without quotes, brackets and asterisks around it and punctuation behind it; a text of nothing else stays
    as it is. A minus, a plus and a decimal point in front belong to the answer."""
    shown = plain(text)
    return shown.lstrip(_OPENING).rstrip(_CLOSING).strip() or shown
