"""Numbers: read exactly, as fractions, so that 0.31 lies within 0.01 of 0.30."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

from memory.records.metric import Numeric
from tools.benchmarks.benchmark import Graded, Item
from tools.metrics.grading import NOTHING, Closed, Grade

_DIGITS = r"\d[\d.,'\u2019_\u00a0\u2009\u202f]*"
_NUMBER = re.compile(
    rf"""
    (?<!\w)(?<!\w[.,])                                   # not inside a word: CO2, v1.2
    (?P<sign>[-+\u2212\u2013]?)(?:[$€£¥₹]\s?)?           # a minus may be a typographer's
    (?:
        (?:(?P<whole>\d+)\s)?(?P<top>{_DIGITS})\s?[/\u2044]\s?(?P<bottom>\d[\d.,/\u2044]*)
        | (?P<number>[.,]?{_DIGITS}(?:[eE][-+]?\d+)?)
    )
    (?P<percent>\s?(?:\\?%|percent\b|per\ cent\b))?
    """,
    re.VERBOSE,
)
_LATEX = ((re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}"), r"\1/\2"), (re.compile(r"\{,\}|\\,"), ","))
_BEHIND = ".,'\u2019_\u00a0\u2009\u202f"
LONGEST = 300
"""Characters of a number; longer ones, and exponents of more than three digits, are no numbers that anybody means."""


class Number(NamedTuple):
    """A number in a text."""

    text: str
    value: Fraction | None
    """None where it is not written as a number (`1,23`)."""


def grader(metric: Numeric, closed: Closed) -> Grade:
    """1 where the number lies within the tolerance, else 0."""
    absolute, relative = Fraction(str(metric.absolute)), Fraction(str(metric.relative))

    def grade(output: str, item: Item) -> Graded:
        said, gold = taken(metric, output), taken(metric, item.answer)
        if said is None or said.value is None:
            return NOTHING
        right = (
            gold is not None
            and gold.value is not None
            and abs(said.value - gold.value) <= max(absolute, relative * abs(gold.value))
        )
        return Graded(score=float(right), answer=said.text)

    return grade


def objection(metric: Numeric, gold: str) -> str | None:
    """Why no output can be right."""
    number = taken(metric, gold)
    if number is None:
        return "there is no number in it"
    if number.value is None:
        return f"{number.text!r} is not written as a number with {metric.decimal!r} as decimal sign"
    return None


def taken(metric: Numeric, text: str) -> Number | None:
    """The number of a text that counts, first or last; None where there is none."""
    for pattern, replacement in _LATEX:
        text = pattern.sub(replacement, text)
    matches = list(_NUMBER.finditer(text))
    if not matches:
        return None
    found = matches[0 if metric.take == "first" else -1]
    return Number(found.group().strip(_BEHIND + " "), _value(found, metric))


def _value(found: re.Match[str], metric: Numeric) -> Fraction | None:
    if len(found.group()) > LONGEST:
        return None
    value: Fraction | None
    if found["number"] is not None:
        value = _decimal(found["number"], metric.decimal)
    else:
        top, bottom = _decimal(found["top"], metric.decimal), _decimal(found["bottom"], metric.decimal)
        value = top / bottom if top is not None and bottom else None
        if value is not None and found["whole"] is not None:
            value += int(found["whole"])
    if value is None:
        return None
    if found["percent"] and metric.percent == "hundredths":
        value /= 100
    return -value if found["sign"] in ("-", "\u2212", "\u2013") else value


def _decimal(text: str, sign: str) -> Fraction | None:
    """A number without its sign; None where groups or decimals are not written as such."""
    other = "," if sign == "." else r"\."
    pattern = rf"""
        (?P<whole> \d+
            | \d{{1,3}} (?P<group>[{other}'\u2019_\u00a0\u2009\u202f]) \d{{3}} (?: (?P=group) \d{{3}} )*
            | \d{{1,2}} (?: {other} \d{{2}} )+ {other} \d{{3}}
        )?
        (?: {re.escape(sign)} (?P<part>\d+) )?
        (?: [eE] (?P<exponent>[-+]?\d{{1,3}}) )?
    """
    found = re.fullmatch(pattern, text.strip(_BEHIND) if text[0].isdigit() else text.rstrip(_BEHIND), re.VERBOSE)
    if found is None:
        return None
    whole, part = re.sub(r"\D", "", found["whole"] or "0"), found["part"] or ""
    return Fraction(int(whole + part), 10 ** len(part)) * Fraction(10) ** int(found["exponent"] or 0)
