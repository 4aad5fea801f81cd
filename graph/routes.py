"""Which node comes next: pure functions of the state, so that the picture and the test are both a table."""

from typing import Literal

from memory.state import State


def after_analyst(state: State) -> Literal["planner", "__end__"]:
    """The report ends the run; a baseline or a judged trial goes to the planner."""
    return "__end__" if state.get("test") is not None else "planner"


def after_planner(state: State) -> Literal["data_engineer", "analyst"]:
    """A plan is carried out; a stop goes to the analyst, who opens the sealed test."""
    return "analyst" if state.get("stop") is not None else "data_engineer"


def after_data_engineer(state: State) -> Literal["validator", "planner"]:
    """A failed trial is closed, so there is no plan any more and the planner makes another."""
    return "planner" if state.get("plan") is None else "validator"


def after_validator(state: State) -> Literal["trainer", "planner"]:
    """A refused trial goes back to the planner."""
    return "planner" if state.get("plan") is None else "trainer"


def after_trainer(state: State) -> Literal["analyst", "planner"]:
    """A failed training goes back to the planner."""
    return "planner" if state.get("plan") is None else "analyst"
