"""What the four kinds of TableBench's questions share: views, splits, training rows.

Source: arXiv 2408.09174. The prompt is the data set's own, with the table in it; it asks to think first and to end with
a line `Final Answer: ...`, or to write a chart as Python code. FT-Dojo cuts each view, shuffled with seed 42, into a
validation of its first and a test of its last hundred rows, or halves; a row may be in two views, and then in
validation by one and in test by the other. Here each row is one item, and the test keeps it. Training rows come from
TableInstruct, which has other questions; those in the same style of prompt are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.benchmarks.benchmark import Benchmark, Draw, Item, Split, nowhere
from tools.raw_data.rows import Row, published, read, some
from tools.raw_data.source import RawFile
from tools.raw_data.sources import TABLEBENCH, TABLEINSTRUCT
from tools.raw_data.store import Store

HELD_OUT = RawFile(TABLEBENCH, "TableBench_TCoT.jsonl")
TRAINING = RawFile(TABLEINSTRUCT, "TableInstruct_instructions.jsonl")
STYLE = "TCoT"
"""The style of prompt that FT-Dojo asks in: think, then answer."""
WINDOW = 8192
"""Tokens of prompt and answer together: the longest tables have some thousand."""
MOST_ROWS = 100_000

Held = Callable[[Row, tuple[str, ...]], Item]
"""A held-out row, and the views that it is in, become an item."""
Trained = Callable[[Row], Item | None]
"""A training row becomes an item; None where its response holds no answer."""


@dataclass(frozen=True)
class View:
    """A part of the benchmark that FT-Dojo scores by itself."""

    name: str
    kind: str
    """The rows' `qtype`."""
    subkind: str | None = None
    """The rows' `qsubtype`; None for all."""

    def holds(self, row: Row) -> bool:
        """Whether a row is in it."""
        return row["qtype"] == self.kind and self.subkind in (None, row["qsubtype"])


def cut(rows: Sequence[Row], views: Sequence[View]) -> dict[Split, list[tuple[Row, tuple[str, ...]]]]:
    """The rows of validation and test, each with the views by which it is there."""
    found: dict[Split, dict[str, tuple[Row, tuple[str, ...]]]] = {"validation": {}, "test": {}}
    for view in views:
        for split, part in published([row for row in rows if view.holds(row)]).items():
            own = found[split]
            for row in part:
                _, earlier = own.get(str(row["id"]), (row, ()))
                own[str(row["id"])] = (row, (*earlier, view.name))
    return {split: list(own.values()) for split, own in found.items()}


def make(name: str, title: str, views: tuple[View, ...], held: Held, trained: Trained, **scoring: Any) -> Benchmark:
    """The benchmark of one kind; `scoring` is its grade, its measures, its packages and the room for an answer."""

    def drawn_from(store: Store) -> Draw:
        def draw(split: Split, seed: int) -> Iterator[Item]:
            if split == "train":
                rows = (row for _, row in some(store.path(TRAINING), MOST_ROWS, seed))
                alike = (row for row in rows if views[0].kind == row["qtype"] and row["instruction_type"] == STYLE)
                yield from (item for item in map(trained, alike) if item is not None)
            else:
                yield from (held(row, by) for row, by in cut(read(store.path(HELD_OUT)), views)[split])

        return draw

    def items_in(path: Path) -> list[Item]:
        rows = [row for row in read(path) if row["qtype"] == views[0].kind]
        return [held(row, tuple(view.name for view in views if view.holds(row))) for row in rows]

    return Benchmark(
        name=f"tablebench_{name}",
        title=title,
        source=f"{TABLEBENCH.pinned}, {HELD_OUT.name}",
        licence=TABLEBENCH.licence,
        domain="tables",
        draw=nowhere,
        drawn_from=drawn_from,
        items_in=items_in,
        held_out=(HELD_OUT,),
        training=(TRAINING,),
        window=WINDOW,
        **scoring,
    )
