"""The words that all metrics share."""

from __future__ import annotations

from collections.abc import Callable

from tools.benchmarks.benchmark import Graded, Item

Closed = tuple[str, ...] | None
"""All answers there are, where they are few; None where answers are open."""

Grade = Callable[[str, Item], Graded]
"""`grade(output, item)`, as a benchmark has it; the gold is `item.answer`."""

NOTHING = Graded(score=0.0, answer=None)
"""The output holds no answer."""
