"""JSON fields: the share of the gold's values that the object in the output has."""

from __future__ import annotations

import json
from typing import NoReturn

from pydantic import JsonValue

from memory.records.metric import JsonFields
from tools.benchmarks.benchmark import Graded, Item
from tools.metrics.grading import NOTHING, Closed, Grade
from tools.metrics.texts import plain

Object = dict[str, JsonValue]


def grader(metric: JsonFields, closed: Closed) -> Grade:
    """The mean over the fields; the answer is the object's part that counts, as compact JSON."""

    def grade(output: str, item: Item) -> Graded:
        said, gold = parsed(output), parsed(item.answer)
        if said is None:
            return NOTHING
        scores = {} if gold is None else field_scores(metric, said, gold)
        part = {field: said[field] for field in scores if field in said}
        score = sum(scores.values()) / len(scores) if scores else 0.0
        return Graded(score=score, answer=json.dumps(part, ensure_ascii=False, separators=(",", ":")))

    return grade


def objection(metric: JsonFields, gold: str) -> str | None:
    """Why no output can be right."""
    values = parsed(gold)
    if values is None:
        return "it is no JSON object"
    missing = [field for field in metric.fields if field not in values]
    if missing:
        return f"it has no field {missing[0]!r}"
    return None if values else "it has no fields"


def field_scores(metric: JsonFields, said: Object, gold: Object) -> dict[str, float]:
    """1 or 0 for each field that counts."""
    return {
        field: float(field in said and field in gold and _same(said[field], gold[field], metric.ignore_case))
        for field in metric.fields or tuple(gold)
    }


def parsed(text: str) -> Object | None:
    """The one JSON object in a text; None where there is none, more than one, or one that is broken.

    What begins at the first brace must be whole: an inner object of a cut one is no answer.
    """
    start = text.find("{")
    if start < 0:
        return None
    decoder = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_refuse)
    try:
        value, end = decoder.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and "{" not in text[end:] else None


def _once(pairs: list[tuple[str, JsonValue]]) -> Object:
    """An object, each of whose keys stands there once: with two values under one key the output answers twice."""
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("a key stands there twice")
    return values


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _same(one: JsonValue, other: JsonValue, ignore_case: bool) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        one, other = plain(one), plain(other)
        return one.casefold() == other.casefold() if ignore_case else one == other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key], ignore_case) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_same(*pair, ignore_case) for pair in zip(one, other, strict=True))
    return isinstance(one, bool) == isinstance(other, bool) and one == other
