"""Runs a model's plotting code and says what it drew: a program for the sandbox, with matplotlib and pandas.

`drawn` is called three times for one code, each time with a fresh run of it: for ours, for the benchmark's authors and
for FT-Dojo, whose scorers look at a chart in different ways. The numbers of a chart are lists of floats; what is no
number is None.
"""

from __future__ import annotations

import contextlib
import csv
import io
import math
from collections.abc import Callable, Iterator
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy
import pandas
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.container import BarContainer

Series = list[list[float | None]]


def drawn(look: str, code: str, columns: list[Any], rows: list[list[Any]]) -> dict[str, Any]:
    """Run the code beside `table.csv` and look at what it drew; `look` is ours, authors or ftdojo."""
    matplotlib.use("Agg")
    with open("table.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([columns, *(["" if cell is None else cell for cell in row] for row in rows)])
    return {"ours": ours, "authors": authors, "ftdojo": ftdojo}[look](code)


def run(code: str) -> str:
    """Run it as a program of its own; what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "<the chart>", "exec"), {"__name__": "__main__"})
    return printed.getvalue()


# --- ours: every artist of every axes ---------------------------------------------------------------------------------


def ours(code: str) -> dict[str, Series]:
    """What was drawn, by kind of artist, on a clean slate."""
    plt.close("all")
    run(code)
    found: dict[str, Series] = {"lines": [], "bars": [], "wedges": [], "points": [], "areas": []}
    every: list[Any] = [axes for number in plt.get_fignums() for axes in plt.figure(number).axes]
    for axes in every:
        found["lines"] += [numbers(line.get_ydata()) for line in axes.get_lines()]
        found["bars"] += [bar_lengths(each) for each in axes.containers if isinstance(each, BarContainer)]
        wedges = [patch for patch in axes.patches if hasattr(patch, "theta1")]
        found["wedges"] += [numbers([(wedge.theta2 - wedge.theta1) / 360 for wedge in wedges])] if wedges else []
        for collection in axes.collections:
            if isinstance(collection, PathCollection):
                offsets: Any = collection.get_offsets()
                found["points"] += [numbers([point[1] for point in offsets])]
            elif isinstance(collection, PolyCollection):
                found["areas"] += [thickness(path.vertices) for path in collection.get_paths()]
    return {kind: [one for one in series if one] for kind, series in found.items()}


def bar_lengths(bars: Any) -> list[float | None]:
    """How long the bars of one call are, upright or lying."""
    lying = bars.orientation == "horizontal"
    return numbers([bar.get_width() if lying else bar.get_height() for bar in bars.patches])


def thickness(vertices: Any) -> list[float | None]:
    """How thick an area is at each x: between its upper and lower edge, so that stacked areas are their own values."""
    edges: dict[float, list[float]] = {}
    for x, y in vertices:
        edges.setdefault(float(x), []).append(float(y))
    return numbers([max(ys) - min(ys) for ys in edges.values()])


# --- the authors': the current axes after a second run ----------------------------------------------------------------


def authors(code: str) -> dict[str, Any]:
    """What the authors' extractors see for each type of chart: the code runs twice without anything being closed, and
    they look at the current axes. An extractor that fails gives None."""
    plt.close("all")
    run(code)
    printed = run(code)
    axes: Any = plt.gca()
    looks: dict[str, Callable[[], Series]] = {
        "line": lambda: [numbers(line.get_ydata()) for line in axes.get_lines()],
        "bar": lambda: [numbers([patch.get_height() for patch in axes.patches])],
        "hbar": lambda: [numbers([patch.get_width() for patch in axes.patches])],
        "waterfall": lambda: [numbers([patch.get_height() for patch in axes.patches])],
        "pie": lambda: [numbers([round((patch.theta2 - patch.theta1) / 360, 2) for patch in axes.patches])],
        "radar": lambda: [numbers(line.get_ydata())[:-1] for line in axes.get_lines()],
        "scatter": lambda: [numbers([point[1] for point in each.get_offsets()]) for each in axes.collections],
        "area": lambda: [
            numbers([y for y in each.get_paths()[0].vertices[:, 1] if y != 0]) for each in axes.collections
        ],
    }
    return {"printed": printed, "series": {kind: seen(look) for kind, look in looks.items()}}


def seen(look: Callable[[], Series]) -> Series | None:
    """What an extractor sees; it fails on artists of another kind."""
    try:
        return look()
    except (AttributeError, TypeError, ValueError, IndexError):
        return None


# --- FT-Dojo's: arguments of three functions --------------------------------------------------------------------------


def ftdojo(code: str) -> dict[str, Series]:
    """The second positional argument of each call of plt.bar and plt.scatter, and every second one of plt.plot. Whole
    numbers of numpy are nothing to it: it writes JSON, and fails."""
    plt.close("all")
    calls: list[Any] = []
    with watched("bar", calls, every=False), watched("scatter", calls, every=False), watched("plot", calls, every=True):
        run(code)
    series = [list(call) if hasattr(call, "__iter__") else [call] for call in calls]
    unwritable = any(isinstance(value, numpy.integer) for one in series for value in one)
    return {"calls": [] if unwritable else [numbers(one) for one in series]}


@contextlib.contextmanager
def watched(name: str, calls: list[Any], every: bool) -> Iterator[None]:
    """Let plt's function of that name note its arguments."""
    original = getattr(plt, name)

    def noting(*arguments: Any, **more: Any) -> Any:
        calls.extend(arguments[1::2] if every else arguments[1:2])
        return original(*arguments, **more)

    setattr(plt, name, noting)
    try:
        yield
    finally:
        setattr(plt, name, original)


def numbers(values: Any) -> list[float | None]:
    """Floats, with None for what is no number or none that JSON can hold."""
    found = pandas.to_numeric(pandas.Series(list(numpy.ma.filled(values, numpy.nan))), errors="coerce")
    return [float(value) if math.isfinite(value) else None for value in found]
