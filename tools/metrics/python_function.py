"""A person's own scoring function, in the sandbox: one warm child for each grader."""

from __future__ import annotations

from memory.errors import InputError
from memory.records.metric import PythonFunction
from tools.benchmarks.benchmark import Graded, Item
from tools.metrics.grading import Closed, Grade
from tools.metrics.texts import plain
from tools.sandbox.sandbox import Sandbox, SandboxError


def grader(metric: PythonFunction, closed: Closed) -> Grade:
    """What the function says. The child starts at the first call and ends with the grader, or with this process.

    The answer is the whole output, for only the function knows which part of it counts. Grading raises InputError
    where the function fails or says anything but a number from 0 to 1: a failed scorer must never look like a 0.
    """
    box = Sandbox(metric.code, metric.function, need="weak")

    def grade(output: str, item: Item) -> Graded:
        try:
            value = box.call([output, item.answer, dict(item.columns)], row=item.id)
        except SandboxError as error:
            raise InputError(error.message, "Correct the function that the task's metric names") from error
        if not isinstance(value, bool | int | float) or not 0 <= value <= 1:
            raise InputError(
                f"{metric.function}() returned {repr(value)[:80]} on row {item.id}",
                "A score is a number from 0 to 1, or True or False",
            )
        return Graded(score=float(value), answer=plain(output) or None)

    return grade


def objection(metric: PythonFunction, gold: str) -> str | None:
    """None: the function may want the row, so it is asked by grading."""
    return None
