"""The routes between nodes, as a table."""

from collections.abc import Callable

import pytest

from graph.routes import after_analyst, after_data_engineer, after_planner, after_trainer, after_validator
from memory.state import State


@pytest.mark.parametrize(
    ("route", "state", "to"),
    [
        (after_analyst, State(test=None), "planner"),
        (after_analyst, State(test="report"), "__end__"),  # type: ignore[typeddict-item]
        (after_planner, State(stop=None), "data_engineer"),
        (after_planner, State(stop="the budget is spent"), "analyst"),
        (after_data_engineer, State(plan="plan"), "validator"),  # type: ignore[typeddict-item]
        (after_data_engineer, State(plan=None), "planner"),
        (after_validator, State(plan="plan"), "trainer"),  # type: ignore[typeddict-item]
        (after_validator, State(plan=None), "planner"),
        (after_trainer, State(plan="plan"), "analyst"),  # type: ignore[typeddict-item]
        (after_trainer, State(plan=None), "planner"),
    ],
)
def test_a_failed_trial_goes_back_to_the_planner_and_a_good_one_goes_on(
    route: Callable[[State], str], state: State, to: str
) -> None:
    assert route(state) == to
