"""TableBench's charts: a question, a table, and Python code that draws the chart; right where its numbers are."""

from __future__ import annotations

import json

from tools.benchmarks.benchmark import Graded, Item
from tools.benchmarks.measures import Mean
from tools.benchmarks.tablebench import charts
from tools.benchmarks.tablebench.task import View, make
from tools.raw_data.rows import Row, nested

ROOM = 2048
"""Tokens of an answer: code, with some reasoning before it. Published runs give 16,384."""


def held(row: Row, views: tuple[str, ...]) -> Item:
    """A held-out question; its answer is code that draws the gold numbers as such a chart."""
    kind, gold = str(row["chart_type"]), charts.references(str(row["answer"]))
    return Item(
        id=str(row["id"]),
        prompt=str(row["instruction"]),
        answer=charts.program(kind, gold),
        subset=kind,
        reference=json.dumps({"kind": kind, "gold": gold, "table": nested(row["table"])}, ensure_ascii=False),
    )


def trained(row: Row) -> Item | None:
    """A training question. The source has no gold numbers, and to run thousands of codes would take hours: a response
    counts as right if its code is Python."""
    response = str(row["response"])
    code = charts.code_of(response)
    if code is None or not charts.compiles(code):
        return None
    return Item(
        id=str(row["id"]),
        prompt=str(row["instruction"]),
        answer=response,
        reference=json.dumps({"kind": None, "gold": None, "table": nested(row["table"])}, ensure_ascii=False),
    )


def grade(output: str, item: Item) -> Graded:
    """1 for a chart with the gold numbers. Raises SetupError where code cannot be shut in on this machine."""
    reference = json.loads(item.reference)
    kind, gold, table = reference["kind"], reference["gold"], json.dumps(reference["table"])
    code = charts.code_of(output)
    if gold is None:
        return Graded(score=float(code is not None and charts.compiles(code)), answer=code)
    seen = charts.drawn(code, table) if code else charts.Drawn()
    authors, ftdojo = charts.code_authors(output), charts.code_ftdojo(output)
    by_authors = bool(authors) and charts.right_authors(charts.drawn(authors, table), kind, gold)
    by_ftdojo = bool(ftdojo) and charts.right_ftdojo(charts.drawn(ftdojo, table), gold)
    return Graded(
        score=float(charts.right(seen, kind, gold)),
        answer=code,
        values={
            "ECR@1": float(seen.ours is not None),
            "Pass@1_authors": float(by_authors),
            "Pass@1_ftdojo": float(by_ftdojo),
        },
    )


VISUALIZATION = make(
    "visualization",
    "Charts of a table, as Python code",
    (View("charts", "Visualization"),),
    held,
    trained,
    grade=grade,
    measure=Mean("Pass@1"),
    others=tuple(Mean(name, name) for name in ("ECR@1", "Pass@1_authors", "Pass@1_ftdojo")),
    sizes="25, 25",
    max_new_tokens=ROOM,
)
