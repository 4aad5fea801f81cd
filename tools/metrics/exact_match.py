"""Exact match: the whole output is the gold."""

from __future__ import annotations

from memory.records.metric import ExactMatch
from tools.benchmarks.benchmark import Graded, Item
from tools.metrics.grading import Closed, Grade
from tools.metrics.texts import bare, plain


def grader(metric: ExactMatch, closed: Closed) -> Grade:
    """1 for the gold, else 0. Where answers are closed, an output that is none of them holds no answer."""
    known = {form(metric, answer): answer for answer in closed or ()}

    def grade(output: str, item: Item) -> Graded:
        said = form(metric, output)
        if said == form(metric, item.answer):
            return Graded(score=1.0, answer=known.get(said, plain(output)))
        return Graded(score=0.0, answer=(plain(output) or None) if closed is None else known.get(said))

    return grade


def form(metric: ExactMatch, text: str) -> str:
    """What two texts share if they are the same answer."""
    shown = bare(text) if metric.ignore_punctuation else plain(text)
    return shown.casefold() if metric.ignore_case else shown


def objection(metric: ExactMatch, gold: str) -> str | None:
    """Why no output can be right."""
    return None if form(metric, gold) else "it is empty"
