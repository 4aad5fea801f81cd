"""Regular expressions: what the pattern finds in the output is what it finds in the gold."""

from __future__ import annotations

import regex

from memory.errors import InputError
from memory.records.metric import Regex
from tools.benchmarks.benchmark import Graded, Item
from tools.metrics.grading import NOTHING, Closed, Grade
from tools.metrics.texts import plain

SECONDS = 1.0
"""Longest search in one output. Some patterns take for ever on some texts (catastrophic backtracking); a model finds
such a text sooner or later."""


def grader(metric: Regex, closed: Closed) -> Grade:
    """1 where both findings are the same text, else 0. Raises InputError for a pattern that does not come to an end."""

    def grade(output: str, item: Item) -> Graded:
        said = found(metric, output, item.id)
        if said is None:
            return NOTHING
        gold = found(metric, item.answer, item.id)
        return Graded(score=float(gold is not None and _form(metric, said) == _form(metric, gold)), answer=said)

    return grade


def objection(metric: Regex, gold: str) -> str | None:
    """Why no output can be right."""
    return None if found(metric, gold, "a gold") is not None else f"the pattern {metric.pattern!r} finds nothing in it"


def found(metric: Regex, text: str, row: str) -> str | None:
    """Group 1 of the match that counts, or the whole match; None where nothing matches or the finding is empty."""
    flags = regex.VERSION0 | (regex.IGNORECASE if metric.ignore_case else 0)
    try:
        matches = list(regex.finditer(metric.pattern, text, flags=flags, timeout=SECONDS))
    except TimeoutError as error:
        raise InputError(
            f"the pattern {metric.pattern!r} was still searching row {row} after {SECONDS:g} s",
            "Avoid nested repetition such as (a+)+",
        ) from error
    if not matches:
        return None
    match = matches[0 if metric.take == "first" else -1]
    return plain(match[1 if match.re.groups else 0] or "") or None


def _form(metric: Regex, text: str) -> str:
    return text.casefold() if metric.ignore_case else text
