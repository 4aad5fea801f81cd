"""What flows along the edges of the graph: small facts and relative paths, never data sets, weights or logs."""

from __future__ import annotations

import operator
from typing import Annotated

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from memory import records
from memory.lineage import last_accepted
from memory.records import (
    Baseline,
    DatasetCard,
    Declined,
    Failure,
    GoOn,
    Halt,
    Lesson,
    Plan,
    Record,
    SealedTest,
    Task,
    TrainingRun,
    Trial,
    Verdict,
    Wish,
)

GRAPH_VERSION = 3
"""Raised whenever a node or a state field is renamed: a run of another version is refused, not misread."""

STATE_TYPES = tuple(each for each in vars(records).values() if isinstance(each, type) and issubclass(each, Record))
"""What a checkpoint may be rebuilt into: every record. One that is forgotten would come back as a plain dict."""


class State(TypedDict, total=False):
    """The state of a run. A trial in progress lies in `plan` and the records after it; `trials` holds ended ones."""

    task: Task
    version: int
    baseline: Baseline | None
    plan: Plan | None
    """None between trials."""
    dataset: DatasetCard | None
    verdict: Verdict | None
    training: TrainingRun | None
    trials: Annotated[list[Trial], operator.add]
    """Oldest first. Nodes return only the new ones."""
    lessons: Annotated[list[Lesson], operator.add]
    wishes: Annotated[list[Wish], operator.add]
    """All that a person said to the run, oldest first."""
    declined: Annotated[list[Declined], operator.add]
    """Plans that a person refused, oldest first."""
    stop: str | None
    """Why the planner stopped; None while it goes on."""
    test: SealedTest | None
    spent_seconds: Annotated[float, operator.add]
    """Wall clock spent in nodes. The node wrapper adds to it; time in which no process ran does not count."""
    trial_started: float
    """`spent_seconds` at the moment the current plan was begun."""


@with_config(ConfigDict(extra="forbid"))
class Changes(TypedDict, total=False):
    """What a node may return. The node wrapper refuses anything else; LangGraph alone would drop it silently."""

    baseline: Baseline | None
    plan: Plan | None
    dataset: DatasetCard | None
    verdict: Verdict | None
    training: TrainingRun | None
    trials: list[Trial]
    lessons: list[Lesson]
    wishes: list[Wish]
    declined: list[Declined]
    stop: str | None
    test: SealedTest | None
    spent_seconds: float
    trial_started: float


def incumbent(state: State) -> Trial | None:
    """The best model so far: the last accepted trial, or None while the base model holds the place."""
    return last_accepted(state.get("trials", []))


def seconds_left(state: State) -> float:
    """Wall clock of the budget that is left, in seconds; never negative."""
    return max(0.0, state["task"].budget.seconds - state.get("spent_seconds", 0.0))


def trials_left(state: State) -> int | None:
    """Trials that the budget still allows; None where only the clock decides."""
    cap = state["task"].budget.max_trials
    return None if cap is None else max(0, cap - len(state.get("trials", [])))


def open_wishes(state: State) -> list[Wish]:
    """What a person wished of a plan and no plan carries yet, oldest first. A plan that was declined with a further
    wish has carried nothing; one that met a plain no takes its wishes with it."""
    wishes = {wish.number: wish for wish in state.get("wishes", []) if wish.for_plan}
    plans = [trial.plan for trial in state.get("trials", [])]
    plans += [one.plan for one in state.get("declined", []) if one.wish not in wishes]
    if (plan := state.get("plan")) is not None:
        plans.append(plan)
    carried = {number for plan in plans for number in plan.wishes}
    return [wish for number, wish in wishes.items() if number not in carried]


def refused(state: State) -> list[Plan]:
    """Plans that must not be proposed again: all that were declined, but for one to which a wish was said that is still
    open, and that the next plan may be made of."""
    still_open = {wish.number for wish in open_wishes(state)}
    return [one.plan for one in state.get("declined", []) if one.wish not in still_open]


def asked_to_end(state: State) -> Wish | None:
    """What a person said so that the run ends after the trial at work; None where nobody did, or where it was taken
    back."""
    for wish in reversed(state.get("wishes", [])):
        for one in wish.understood:
            if isinstance(one, GoOn):
                return None
            if isinstance(one, Halt) and one.when == "after_trial":
                return wish
    return None


def plan_at_work(state: State) -> Plan:
    """The plan of the trial in progress. A node between planner and analyst is never reached without one."""
    plan = state.get("plan")
    assert plan is not None, "no trial is in progress"
    return plan


def ended(trial: Trial) -> Changes:
    """The changes that close the trial in progress."""
    return {"trials": [trial], **dropped()}


def dropped() -> Changes:
    """The changes after which no trial is in progress."""
    return {"plan": None, "dataset": None, "verdict": None, "training": None}


def failed(state: State, failure: Failure, seconds: float, verdict: Verdict | None = None) -> Changes:
    """The changes that close the trial in progress as failed; `seconds` is what its last node took."""
    plan = plan_at_work(state)
    return ended(
        Trial(
            plan=plan,
            decision="failed",
            arithmetic=f"{failure.kind}: {failure.message}",
            dataset=state.get("dataset"),
            verdict=verdict or state.get("verdict"),
            training=state.get("training"),
            failure=failure,
            seconds=trial_seconds(state) + seconds,
        )
    )


def trial_seconds(state: State) -> float:
    """Wall clock that the trial in progress has cost up to the last finished node, in seconds."""
    return state.get("spent_seconds", 0.0) - state.get("trial_started", 0.0)
