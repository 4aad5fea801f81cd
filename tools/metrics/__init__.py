"""The metrics of a person's own task, in one table: pure graders, the same in the app and in the score environment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from memory.records.metric import ExactMatch, Metric, MultipleChoice
from tools.metrics import (
    exact_match,
    json_fields,
    multiple_choice,
    numeric,
    python_function,
    regular_expression,
    rouge_l,
    token_f1,
)
from tools.metrics.grading import Closed, Grade
from tools.metrics.texts import plain

FEW = 20
"""Most distinct answers of a task whose answers are closed."""
REPEATS = 3
"""How often an answer of such a task occurs on average, at least: thirty rows with fifteen names are no labels."""


class Kind(NamedTuple):
    """One metric; `Any` is its own record."""

    grader: Callable[[Any, Closed], Grade]
    objection: Callable[[Any, str], str | None]


KINDS: dict[str, Kind] = {
    "exact_match": Kind(exact_match.grader, exact_match.objection),
    "numeric": Kind(numeric.grader, numeric.objection),
    "multiple_choice": Kind(multiple_choice.grader, multiple_choice.objection),
    "regex": Kind(regular_expression.grader, regular_expression.objection),
    "token_f1": Kind(token_f1.grader, token_f1.objection),
    "rouge_l": Kind(rouge_l.grader, rouge_l.objection),
    "json_fields": Kind(json_fields.grader, json_fields.objection),
    "python": Kind(python_function.grader, python_function.objection),
}


def grader(metric: Metric, closed_answers: Closed) -> Grade:
    """`grade(output, item)` of a metric, 0 to 1. Pure, but for a person's function, which runs in the sandbox: there it
    raises InputError where the function fails."""
    return KINDS[metric.kind].grader(metric, closed_answers)


def valid_gold(metric: Metric, gold: str) -> str | None:
    """Why no output can ever score 1 against this gold, or None. A Python function is asked by grading the gold."""
    return KINDS[metric.kind].objection(metric, gold)


def closed_answers(metric: Metric, golds: Sequence[str]) -> Closed:
    """All answers there are, where they are few: the choices of a multiple choice; for an exact match the distinct
    golds, at most FEW and each seen REPEATS times on average, in their most frequent spelling. None elsewhere."""
    if isinstance(metric, MultipleChoice):
        return multiple_choice.closed_answers(metric, golds)
    if not isinstance(metric, ExactMatch):
        return None
    spellings: dict[str, str] = {}
    for gold, _ in sorted(Counter(map(plain, golds)).items(), key=lambda pair: (-pair[1], pair[0])):
        spellings.setdefault(exact_match.form(metric, gold), gold)
    spellings.pop("", None)
    few = 0 < len(spellings) <= FEW and len(golds) >= REPEATS * len(spellings)
    return tuple(sorted(spellings.values())) if few else None
