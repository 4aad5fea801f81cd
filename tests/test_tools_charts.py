"""The charts say what the records say."""

from __future__ import annotations

from pathlib import Path

import plotly.graph_objects as go
import pytest

from memory.layout import RunFolder
from memory.records import Trial
from tests import example_run
from tools import charts


def trials_of(folder: RunFolder) -> list[Trial]:
    """Accepted, failed, and accepted on top of the first."""
    return list(example_run.finished(folder)["trials"])


def test_validation_shows_every_score_with_its_interval_and_both_prompts_of_the_base(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    figure = charts.validation(example_run.baseline(folder), trials_of(folder), "exact")
    lines = {line.name: line for line in figure.data}
    assert lines["base, zero-shot 0.250"].y == (0.25, 0.25)
    assert lines["base, 5-shot 0.500"].y == (0.5, 0.5)
    accepted = lines["✓ accepted"]
    assert (accepted.x, accepted.y) == ((1, 3), (0.75, 0.75))
    assert accepted.error_y.array == pytest.approx((0.2, 0.2))
    assert lines["best so far"].x[-1] > 3


def test_every_decision_has_a_symbol_and_a_word_of_its_own() -> None:
    looks = charts.LOOKS.values()
    assert len({look.symbol for look in looks}) == len({look.mark for look in looks}) == len(charts.LOOKS) == 4


def test_the_tree_draws_each_trial_from_its_parent(tmp_path: Path) -> None:
    figure = charts.tree(trials_of(RunFolder(tmp_path / "run")))
    edges, *nodes = figure.data
    assert list(edges.x) == [0, 1, None, 1, 2, None, 1, 2, None]
    places = [(x, y) for group in nodes for x, y, text in zip(group.x, group.y, group.text, strict=True) if text]
    assert len(places) == len(set(places)) == 4, "the base model and three trials, none on top of another"


@pytest.mark.parametrize("figure", [charts.loss([]), charts.validation(None, [], "exact"), charts.tree([])])
def test_a_chart_of_nothing_says_so_in_place_of_empty_axes(figure: go.Figure) -> None:
    assert "yet" in figure.layout.annotations[0].text
    assert not figure.layout.xaxis.visible
    assert not figure.layout.yaxis.visible


def test_names_of_others_are_no_markup(tmp_path: Path) -> None:
    trial = trials_of(RunFolder(tmp_path / "run"))[2]
    assert trial.plan.change is not None
    change = trial.plan.change.model_copy(update={"after": "<a href='x'>y</a>"})
    hostile = trial.model_copy(update={"plan": trial.plan.model_copy(update={"change": change, "parent": None})})
    assert "<a" not in charts.tree([hostile]).to_json().replace("\\u003c", "<")


def test_a_long_curve_is_thinned_and_keeps_its_end() -> None:
    places = charts.thinned(50_000)
    assert len(places) <= charts.MOST_POINTS + 1
    assert (places[0], places[-1]) == (0, 49_999)
    assert charts.thinned(3) == [0, 1, 2]
    assert charts.thinned(0) == []


def test_the_budget_bar_is_as_long_as_the_budget() -> None:
    figure = charts.budget([charts.Part("trials", 600, "blue"), charts.Part("left", 1200, "grey")], 1800)
    assert [bar.x[0] for bar in figure.data] == [10, 20]
    assert tuple(figure.layout.xaxis.range) == (0, 30)
