"""Rows rewritten, and variants of rows, by templates with the row's columns."""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import replace

from memory.errors import TrialError
from memory.records import Augment, MapTemplate
from tools.operators.rows import Kept, Row, dropped, folded, rank, variant_id


def rewrite(operator: MapTemplate, rows: list[Row], step: str) -> Kept:
    """Every row with its prompt and answer anew."""
    prompt, answer = _template(operator.prompt), _template(operator.answer)
    return Kept([replace(row, prompt=prompt(row), answer=answer(row)).passed(step) for row in rows])


def augment(operator: Augment, rows: list[Row], step: str) -> Kept:
    """Every row, and behind each row of the benchmark its variants.

    Which templates a row gets depends on the row alone, and on average each template serves equally often. A variant
    whose question is already there is left out.
    """
    templates = [_template(prompt) for prompt in operator.prompts]
    result: list[Row] = []
    again: list[Row] = []
    for row in rows:
        result.append(row.passed(step) if row.item is not None else row)
        if row.item is None:
            continue
        seen = {folded(row.prompt)}
        first = int(rank(row, 0), 16)
        for number in range(1, operator.copies + 1):
            place = (first + number) % len(templates)
            wording = f"{step}: {operator.prompts[place]!r}"
            variant = replace(row, id=variant_id(row, number), prompt=templates[place](row)).passed(wording)
            (again if folded(variant.prompt) in seen else result).append(variant)
            seen.add(folded(variant.prompt))
    return Kept(result, dropped("a variant that asks what an earlier one asks", again))


def _template(template: str) -> Callable[[Row], str]:
    """A filler for `{column}` places. Nothing else that Python's format language can do is let in."""
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise TrialError("CONFIG", f"template {template!r} fails: {error}", "Write a literal brace twice.") from error
    if odd := [f"{name}" for _, name, spec, conversion in parts if name is not None and (spec or conversion)]:
        raise TrialError("CONFIG", f"template {template!r} formats {odd[0]!r}", "Name columns only, such as {prompt}.")

    def fill(row: Row) -> str:
        values = row.values()
        if missing := [name for _, name, _, _ in parts if name is not None and name not in values]:
            raise TrialError(
                "CONFIG",
                f"template {template!r} names {missing[0]!r}, which row {row.id} of {row.source} lacks",
                f"Use one of: {', '.join(sorted(values))}.",
            )
        return "".join(literal + (str(values[name]) if name is not None else "") for literal, name, _, _ in parts)

    return fill
