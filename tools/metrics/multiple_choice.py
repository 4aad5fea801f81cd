"""Multiple choice: the output names one choice and no other, and does so where an answer stands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from memory.records.metric import MultipleChoice
from tools.benchmarks.benchmark import Graded, Item
from tools.metrics.grading import NOTHING, Closed, Grade
from tools.metrics.texts import QUOTES, bare, plain

_DRESS = rf"[\s*_{QUOTES}:=(\[]*"
"""What may stand between `answer is` and the choice, and before a choice that opens an output."""
_SAYS = (
    r"\b(?i:answer|correct\s+option|correct\s+choice)\b(?:\s+(?i:is|would\s+be|should\s+be)\b)?"
    rf"{_DRESS}(?:(?i:option|choice|letter)\b{_DRESS})?"
)
_OR = rf"[\s*_{QUOTES})\].]*(?:,|/|&|\bor\b|\band\b)[\s*_{QUOTES}(\[]*"


@dataclass(frozen=True)
class _Patterns:
    """Where the choices of one metric may stand, as patterns with the choice as their group."""

    opening: re.Pattern[str]
    """A text begins with the choice, behind which a sign stands, or a line ends."""
    listed: re.Pattern[str]
    """`B)` or `B:`, wherever it stands."""
    stated: re.Pattern[str]
    """`answer is B`."""
    more: re.Pattern[str]
    """` or C`, behind a choice."""


def grader(metric: MultipleChoice, closed: Closed) -> Grade:
    """1 where the choice that the output names is the gold's, else 0; the answer is the choice as the metric has it."""
    patterns = _patterns(metric.choices)

    def grade(output: str, item: Item) -> Graded:
        answer = chosen(output, metric, patterns, item)
        if answer is None:
            return NOTHING
        return Graded(score=float(answer == whole(item.answer, metric, item)), answer=answer)

    return grade


def objection(metric: MultipleChoice, gold: str) -> str | None:
    """Why no output can be right. With text columns a gold may be a text, which only its row can tell."""
    if metric.text_columns or whole(gold, metric, None) is not None:
        return None
    return f"it is none of the choices {', '.join(metric.choices)}"


def closed_answers(metric: MultipleChoice, golds: Sequence[str]) -> Closed:
    """The choices; None where golds are texts of their rows."""
    return metric.choices if all(whole(gold, metric, None) is not None for gold in golds) else None


def chosen(output: str, metric: MultipleChoice, patterns: _Patterns, item: Item) -> str | None:
    """The choice that the output names, in the metric's spelling; None where it names none or more than one."""
    answer = whole(output, metric, item)
    if answer is not None:
        return answer
    found = [*patterns.stated.finditer(output), *_opened(output, patterns)]
    named = {match["choice"].casefold() for match in found}
    if len(named) != 1 or any(patterns.more.match(output, match.end("choice")) for match in found):
        return None
    return next(choice for choice in metric.choices if choice.casefold() in named)


def _opened(output: str, patterns: _Patterns) -> Iterator[re.Match[str]]:
    """The choice with which the output opens; behind it, whatever else looks like an entry of a list of choices."""
    opened = patterns.opening.match(output)
    if opened is None:
        return
    yield opened
    yield from patterns.listed.finditer(output)
    starts = [opened.end(), *(line.start() for line in re.finditer("^", output, re.MULTILINE))]
    yield from filter(None, (patterns.opening.match(output, start) for start in starts))


def whole(text: str, metric: MultipleChoice, item: Item | None) -> str | None:
    """The choice that a text is, by itself or as the text of a column; None where it is none."""
    said = bare(text).casefold()
    for choice in metric.choices:
        if said == bare(choice).casefold():
            return choice
    if item is None or not metric.text_columns:
        return None
    texts = [bare(str(item.columns.get(column, ""))).casefold() for column in metric.text_columns]
    return metric.choices[texts.index(said)] if said and texts.count(said) == 1 else None


def _patterns(choices: Sequence[str]) -> _Patterns:
    """Longer choices go first, so that `not entailment` is not read as `entailment`. In a statement a single letter
    keeps its case: `the answer is a dog` names no choice."""
    longest_first = sorted((plain(choice) for choice in choices), key=len, reverse=True)
    words = "|".join(re.escape(choice).replace(r"\ ", r"\s+") for choice in longest_first)
    any_case = rf"(?P<choice>(?i:{words}))(?!\w)"
    spelled = "|".join(
        re.escape(choice) if len(choice) == 1 else rf"(?i:{re.escape(choice)})" for choice in longest_first
    )
    return _Patterns(
        opening=re.compile(rf"{_DRESS}{any_case}[*_{QUOTES}]*\s*(?:[)\].:;!]|[-\u2013\u2014](?=\s)|\n|$)"),
        listed=re.compile(rf"(?<!\w){any_case}[*_`]*[)\]:]"),
        stated=re.compile(rf"{_SAYS}(?P<choice>{spelled})(?!\w)"),
        more=re.compile(rf"{_OR}(?:{spelled})(?!\w)"),
    )
