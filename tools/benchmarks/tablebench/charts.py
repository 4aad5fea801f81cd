"""Charts of TableBench: an output's code is run in the sandbox, and what it drew is compared with the gold numbers.

Ours accepts any plot of matplotlib or pandas: it takes the artists of every axes, bars upright or lying, and compares
their numbers as a set, within a hundredth. The authors run the code twice without closing anything and look at the
current axes, so that code that makes no figure of its own draws everything twice and fails; what it prints fails it,
too. FT-Dojo sees the second argument of plt.bar, plt.plot and plt.scatter alone, in the order of the calls: what is
drawn on axes, by pandas, by plt.pie or plt.barh never passes, and the type of the chart does not matter.
"""

from __future__ import annotations

import ast
import json
import re
import sysconfig
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from memory.records import Record
from tools.metrics.texts import without_reasoning
from tools.sandbox.sandbox import Limits, Sandbox, SandboxError

PROGRAM = Path(__file__).with_name("chart_program.py")
LIMITS = Limits(seconds=60.0, cpu_seconds=15, memory_bytes=4 << 30, file_bytes=64 << 20)
"""Fifteen seconds of CPU, as the authors give it; the wall clock is for busy machines."""
TOLERANCE = 0.01
KINDS = {
    "line": "lines",
    "radar": "lines",
    "bar": "bars",
    "hbar": "bars",
    "waterfall": "bars",
    "pie": "wedges",
    "scatter": "points",
    "area": "areas",
}
"""Type of chart, and the artists that it is made of."""
DRAWING = {
    "line": "plt.plot(range(len({y})), {y})",
    "radar": "plt.polar(range(len({y}) + 1), {y} + {y}[:1])",
    "bar": "plt.bar(range(len({y})), {y})",
    "hbar": "plt.barh(range(len({y})), {y})",
    "waterfall": "plt.bar(range(len({y})), {y})",
    "pie": "plt.pie({y})",
    "scatter": "plt.scatter(range(len({y})), {y})",
    "area": "plt.fill_between(range(len({y})), {y})",
}
"""Code that draws numbers as a chart of a type."""
WORDS = ("import", "plt", "numpy", "pandas", "pd", "df")
"""FT-Dojo takes an output without a fence for code where one of these is in it."""

Series = list[list[float | None]]


class Drawn(Record):
    """What a code drew, as the three scorers look at it. None where the code failed."""

    ours: dict[str, Series] | None = None
    authors: dict[str, Series | None] | None = None
    printed: str = ""
    """What it printed in the authors' second run."""
    ftdojo: Series | None = None


def code_of(output: str) -> str | None:
    """The last Python fence of an output."""
    text = without_reasoning(output)
    fences: list[str] = re.findall(r"```(?:python|py)\s*\n(.*?)```", text, re.DOTALL | re.IGNORECASE)
    return fences[-1] if fences else None


def code_authors(output: str) -> str | None:
    """The last fence that says python, to the letter."""
    fences: list[str] = re.findall(r"```python\n(.*?)```", output, re.DOTALL)
    return fences[-1] or None if fences else None


def code_ftdojo(output: str) -> str | None:
    """The last fence that says python, or the whole output where it looks like code."""
    fences: list[str] = re.findall(r"```python\s*(.*?)\s*```", output, re.DOTALL)
    if fences:
        return fences[-1].strip()
    return output.strip() if any(word in output for word in WORDS) else None


def compiles(code: str) -> bool:
    """Whether it is Python at all; nothing is run."""
    try:
        compile(code, "<the chart>", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


@lru_cache(maxsize=512)
def drawn(code: str, table: str) -> Drawn:
    """Run a code in a sandbox of its own, once for each scorer; `table` is JSON of columns and data. A model's code
    never shares a process with another's. Raises SetupError where this machine has no strict isolation, or the score
    environment no matplotlib."""
    rows = json.loads(table)
    packages = Path(sysconfig.get_paths()["purelib"])
    program = PROGRAM.read_text(encoding="utf-8")
    looks: dict[str, Any] = {}
    with Sandbox(program, "drawn", limits=LIMITS, need="strict", packages=packages) as box:
        for look in ("ours", "authors", "ftdojo"):
            try:
                looks[look] = box.call([look, code, rows["columns"], rows["data"]])
            except SandboxError as error:
                if error.kind == "load":
                    raise
                if error.kind != "raised":  # a limit: it would run out three times
                    break
    authors = looks.get("authors", {})
    return Drawn(
        ours=looks.get("ours"),
        authors=authors.get("series"),
        printed=authors.get("printed", ""),
        ftdojo=looks.get("ftdojo", {}).get("calls"),
    )


# --- gold numbers -----------------------------------------------------------------------------------------------------


def references(answer: str) -> Series:
    """The gold numbers: `y_references = [[...], ...]`. Raises ValueError for anything else."""
    value = ast.literal_eval(re.sub(r"\b(np\.)?nan\b", "None", answer.partition("=")[2].strip()))
    listed = [each if isinstance(each, list) else [each] for each in value]
    return [[None if number is None else float(number) for number in each] for each in listed]


def program(kind: str, series: Series) -> str:
    """Code that draws the gold numbers as they are to be drawn."""
    calls = [DRAWING[kind].format(y=json.dumps(each)) for each in series]
    apart = "plt.figure()\n" if kind == "pie" else ""
    body = "\n".join(apart + call for call in calls)
    return f"```python\nimport matplotlib.pyplot as plt\nplt.figure()\n{body}\nplt.show()\n```"


# --- comparing --------------------------------------------------------------------------------------------------------


def right(seen: Drawn, kind: str, gold: Series) -> bool:
    """Ours: the numbers of the artists that such a chart is made of are the gold numbers, in any order."""
    if seen.ours is None:
        return False
    series = seen.ours[KINDS[kind]]
    if kind == "radar":  # a closed line comes back to its first point
        series = [each[:-1] if len(each) > 1 and each[0] == each[-1] else each for each in series]
    numbers = _shares(gold) if kind == "pie" else gold
    return _alike(_flat(series), _flat(numbers), lambda one, other: abs(one - other) <= TOLERANCE + 1e-9)


def right_authors(seen: Drawn, kind: str, gold: Series) -> bool:
    """The authors': what their extractor saw, rounded to two decimals and sorted; nothing may have been printed."""
    series = (seen.authors or {}).get(kind)
    if series is None or seen.printed:
        return False
    numbers = _shares(gold) if kind == "pie" else gold
    return _alike(_hundredths(series), _hundredths(numbers), lambda one, other: one == other)


def right_ftdojo(seen: Drawn, gold: Series) -> bool:
    """FT-Dojo's: the noted arguments, series by series and in order, within a hundredth."""
    calls = seen.ftdojo
    if not calls or not gold or [len(each) for each in calls] != [len(each) for each in gold]:
        return False
    pairs = zip(_flat(calls), _flat(gold), strict=True)
    return all(one is not None and other is not None and abs(one - other) <= TOLERANCE for one, other in pairs)


def _flat(series: Series) -> list[float | None]:
    return [number for each in series for number in each]


def _hundredths(series: Series) -> list[float | None]:
    return [None if number is None else round(number, 2) for number in _flat(series)]


def _shares(series: Series) -> Series:
    numbers = [number or 0.0 for number in _flat(series)]
    total = sum(numbers)
    return [[round(number / total, 2) if total else None for number in numbers]]


def _alike(one: Sequence[float | None], other: Sequence[float | None], alike: Callable[[float, float], bool]) -> bool:
    """Whether two sets of numbers are alike, None with None."""
    left, right = (sorted(number for number in each if number is not None) for each in (one, other))
    return len(one) == len(other) and len(left) == len(right) and all(map(alike, left, right))
