"""What a run looks like: Plotly figures made from its records. Every colour has a symbol and a word beside it.

Background and grid fit a light and a dark page; the colour of the text is the page's business.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import NamedTuple

import plotly.graph_objects as go

from memory.lineage import rose, winner
from memory.records import Baseline, Decision, Trial
from tools.plan_text import changed

HEIGHT = 300
"""Pixels."""
MOST_POINTS = 1000
"""Of a curve; more cannot be told apart on a screen, and every point is sent to every viewer."""
GREY, BLUE = "#808080", "#0072b2"


class Look(NamedTuple):
    """How a decision is drawn."""

    colour: str
    """From the palette of Okabe and Ito, which colour-blind people can tell apart, with contrast on white and black."""
    symbol: str
    mark: str
    """Stands in text."""


LOOKS: dict[Decision, Look] = {
    "accepted": Look("#009e73", "circle", "✓"),
    "inconclusive": Look("#b07d00", "diamond", "≈"),
    "rejected": Look("#d55e00", "x", "✗"),
    "failed": Look(GREY, "square-open", "!"),
}


class Curve(NamedTuple):
    """A training's loss, step by step."""

    name: str
    steps: Sequence[float]
    losses: Sequence[float]


class Part(NamedTuple):
    """A part of the budget, in seconds."""

    name: str
    seconds: float
    colour: str


def validation(baseline: Baseline | None, trials: Sequence[Trial], metric: str) -> go.Figure:
    """The validation score of each trial with its 95 % interval, the untouched model's two prompts, and the best so
    far."""
    figure = _empty(f"{metric} on validation, by trial")
    last = max((trial.number for trial in trials), default=1)
    if baseline is not None:
        few = baseline.few_shot
        _line(figure, "base, zero-shot", baseline.zero_shot.value, last, "dot")
        _line(figure, f"base, {few.shots}-shot", few.value, last, "dash")
    line = [(trial.number, best.score.value) for trial, best in _winners(trials) if best and best.score]
    if line:
        numbers, values = zip(*line, strict=True)
        figure.add_scatter(
            x=[*numbers, last + 0.5], y=[*values, values[-1]], name="best so far", mode="lines", line_shape="hv",
            line={"color": LOOKS["accepted"].colour, "width": 1}, hoverinfo="skip",
        )  # fmt: skip
    for decision, look in LOOKS.items():
        of_it = [(trial, trial.score) for trial in trials if trial.decision == decision and trial.score]
        if of_it:
            figure.add_scatter(
                x=[trial.number for trial, _ in of_it],
                y=[score.value for _, score in of_it],
                error_y={
                    "array": [score.ci_high - score.value for _, score in of_it],
                    "arrayminus": [score.value - score.ci_low for _, score in of_it],
                    "thickness": 1,
                    "width": 3,
                },
                name=f"{look.mark} {decision}",
                mode="markers",
                marker={"color": look.colour, "symbol": look.symbol, "size": 9},
                hovertemplate="trial %{x}: %{y:.3f}<extra>" + decision + "</extra>",
            )
    figure.update_xaxes(range=[0.4, last + 0.6], dtick=1 if last < 20 else None)
    return figure if figure.data else _without(figure, "nothing is scored yet")


def loss(curves: Sequence[Curve]) -> go.Figure:
    """Training loss over optimiser steps; the last curve is the one that is looked at."""
    figure = _empty("training loss, by optimiser step")
    for curve in curves:
        now = curve is curves[-1]
        kept = thinned(len(curve.steps))
        figure.add_scatter(
            x=[curve.steps[place] for place in kept],
            y=[curve.losses[place] for place in kept],
            name=curve.name,
            mode="lines+markers" if now and len(kept) <= 60 else "lines",
            line={"color": BLUE if now else GREY, "dash": "solid" if now else "dot", "width": 2 if now else 1},
            marker={"size": 4},
        )
    return figure if curves else _without(figure, "no training has begun yet")


def thinned(count: int) -> list[int]:
    """Places of at most MOST_POINTS of `count` points, evenly, the last one always among them."""
    step = -(-count // MOST_POINTS) or 1
    return sorted({*range(0, count, step), count - 1}) if count else []


def tree(trials: Sequence[Trial]) -> go.Figure:
    """Which trial grew from which: generations from left to right, the first child in its parent's row. The best so far
    wears a ring."""
    figure = _empty("tree of trials, by generation")
    if not trials:
        return _without(figure, "no trial has ended yet")
    places = _places(trials)
    across: list[float | None] = []
    down: list[float | None] = []
    for trial in trials:
        (x, y), (to_x, to_y) = places[_parent(trial, places)], places[trial.number]
        across += [x, to_x, None]
        down += [y, to_y, None]
    figure.add_scatter(
        x=across, y=down, mode="lines", line={"color": GREY, "width": 1}, hoverinfo="skip", showlegend=False
    )
    _nodes(figure, [(0, 0)], ["base"], "the untouched model", GREY, "circle-open", ["the untouched model"])
    best = winner(trials)
    if best is not None:
        _nodes(figure, [places[best.number]], [""], "best so far", BLUE, "circle-open", [""], size=20)
    for decision, look in LOOKS.items():
        of_it = [trial for trial in trials if trial.decision == decision]
        if of_it:
            labels = [f"{trial.number} {look.mark}" for trial in of_it]
            words = [_what_changed(trial) for trial in of_it]
            at = [places[trial.number] for trial in of_it]
            _nodes(figure, at, labels, f"{look.mark} {decision}", look.colour, look.symbol, words)
    rows = max(y for _, y in places.values())
    figure.update_yaxes(visible=False, range=[rows + 0.7, -0.7])
    figure.update_xaxes(dtick=1 if len(trials) < 20 else None)
    return figure


def budget(parts: Sequence[Part], total: float) -> go.Figure:
    """Where the wall clock went, as one bar over the whole budget, in minutes."""
    figure = _empty("budget, in minutes")
    for part in parts:
        figure.add_bar(
            x=[part.seconds / 60], y=[""], orientation="h", name=f"{part.name} {part.seconds / 60:.1f} min",
            marker={"color": part.colour}, hovertemplate="%{x:.1f} min<extra>" + part.name + "</extra>",
        )  # fmt: skip
    figure.update_layout(barmode="stack", height=170, bargap=0.4)
    figure.update_legends(y=-0.4)
    figure.update_xaxes(range=[0, max(total, sum(part.seconds for part in parts)) / 60])
    return figure


# --- parts of figures -------------------------------------------------------------------------------------------------


def _empty(title: str) -> go.Figure:
    grid = {"gridcolor": "rgba(128,128,128,0.25)", "zerolinecolor": "rgba(128,128,128,0.4)"}
    return go.Figure(
        layout={
            "title": {"text": title, "font": {"size": 14}},
            "height": HEIGHT,
            "margin": {"l": 40, "r": 12, "t": 36, "b": 24},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "legend": {"orientation": "h", "y": -0.12, "yanchor": "top"},
            "xaxis": grid,
            "yaxis": grid,
            "font": {"color": GREY, "size": 12},
        }
    )


def _without(figure: go.Figure, words: str) -> go.Figure:
    """A figure that has nothing to show yet, and says so: empty axes look like a fault."""
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    figure.add_annotation(text=words, xref="paper", yref="paper", x=0.5, y=0.5, showarrow=False)
    return figure


def _line(figure: go.Figure, name: str, value: float, last: int, dash: str) -> None:
    """A figure that does not change from trial to trial."""
    line = {"color": GREY, "dash": dash, "width": 1.5}
    words = f"{name} {value:.3f}"
    figure.add_scatter(x=[0.4, last + 0.6], y=[value, value], name=words, mode="lines", line=line, hoverinfo="name")


def _nodes(
    figure: go.Figure,
    places: Sequence[tuple[int, int]],
    labels: Sequence[str],
    name: str,
    colour: str,
    symbol: str,
    words: Sequence[str],
    size: int = 11,
) -> None:
    """Nodes of the tree that look alike."""
    figure.add_scatter(
        x=[x for x, _ in places], y=[y for _, y in places], text=labels, name=name, mode="markers+text",
        textposition="top center", marker={"color": colour, "symbol": symbol, "size": size, "line": {"width": 2}},
        customdata=words, hovertemplate="%{customdata}<extra></extra>",
    )  # fmt: skip


def _winners(trials: Sequence[Trial]) -> list[tuple[Trial, Trial | None]]:
    """Each trial that rose, with the best of that moment."""
    return [
        (trial, winner(trials[: place + 1]))
        for place, trial in enumerate(trials)
        if rose(trial.decision, trial.comparison)
    ]


def _places(trials: Sequence[Trial]) -> dict[int, tuple[int, int]]:
    """Generation and row of each trial; the base model is 0. A parent always comes before its children."""
    places = {0: (0, 0)}
    used: set[tuple[int, int]] = {(0, 0)}
    rows = 0
    for trial in trials:
        generation, row = places[_parent(trial, places)]
        if (generation + 1, row) in used:
            rows += 1
            row = rows
        places[trial.number] = (generation + 1, row)
        used.add(places[trial.number])
    return places


def _parent(trial: Trial, places: dict[int, tuple[int, int]]) -> int:
    """What a trial grew from, by number; 0 for the base model."""
    return trial.plan.parent if trial.plan.parent in places and trial.plan.parent else 0


def _what_changed(trial: Trial) -> str:
    """A line that stands beside a node when it is pointed at. Plotly reads some HTML in it, so it is escaped."""
    score = trial.score
    words = f"trial {trial.number}, {trial.decision}: {changed(trial.plan)}"
    words += f", {score.value:.3f} ± {score.stderr:.3f}" if score else ""
    return html.escape(words)
