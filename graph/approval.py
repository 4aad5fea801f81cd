"""Questions to a person before a plan costs more: where they are asked, what they say, and what an answer does."""

from __future__ import annotations

import time
from typing import Self

from langgraph.types import interrupt
from pydantic import Field, model_validator

from graph.values import in_words
from graph.wishes import understand
from memory.errors import InputError
from memory.records import (
    Asking,
    Budgeted,
    Declined,
    ForPlan,
    Halt,
    NodeName,
    Place,
    Plan,
    Question,
    Record,
    Reply,
    Understood,
    Wish,
    subject_of,
)
from memory.state import Changes, State, dropped, seconds_left, trials_left
from tools.plan_text import changed, recipe

PLACES: dict[NodeName, Place] = {"data_engineer": "plan", "validator": "data", "trainer": "train"}
"""The node that a place lies before."""


class Answer(Record):
    """What the graph takes for an answer: `{"approve": true}`, or `{"approve": false, "text": "use fewer epochs"}`."""

    approve: bool
    text: str = ""
    """What was said; a wish for the next plan where this one is declined."""
    at: float = Field(default_factory=time.time)
    """Unix time in seconds."""

    @model_validator(mode="after")
    def _understood(self) -> Self:
        try:
            self.wish(1)
        except InputError as error:
            raise ValueError(str(error)) from None
        return self

    def wish(self, number: int) -> Wish:
        """The answer as all that was said is kept. Raises InputError, see `answer_of`."""
        text = self.text or ("yes" if self.approve else "no")
        return Wish(number=number, at=self.at, text=text, understood=answer_of(self.approve, text))


def answer_of(approve: bool, text: str) -> tuple[Understood, ...]:
    """What is understood of an answer. Raises InputError where that contradicts itself, or where it also asks for
    something that is no answer."""
    understood = understand(text)
    if any(isinstance(one, Reply) and one.approve != approve for one in understood):
        raise InputError(f"'{text}' says yes and no", "Say one of them.")
    if approve and any(isinstance(one, ForPlan) for one in understood):
        raise InputError("a yes takes the plan as it is", "To have it changed, say for example: no, use fewer epochs.")
    for one in understood:
        if isinstance(one, Budgeted | Asking) or (isinstance(one, Halt) and one.when != "after_trial"):
            raise InputError(f"'{text}' is more than an answer", "Say the rest of it first, and then yes or no.")
    return understood


def asked(name: NodeName, state: State) -> Answer | None:
    """Ask, where the task wants it before this node; the answer, or None where nothing is asked.

    The first call interrupts the graph; after the answer the node begins anew and gets it here.
    """
    plan = state.get("plan")
    if plan is None or PLACES.get(name) != state["task"].approve:
        return None
    payload = question(PLACES[name], plan, state).model_dump(mode="json", exclude={"id"})
    return interrupt(payload, response_schema=Answer)


def question(place: Place, plan: Plan, state: State) -> Question:
    """What is asked about a plan."""
    dataset, verdict = state.get("dataset"), state.get("verdict")
    return Question(
        place=place,
        plan=plan,
        rows=dataset.rows if dataset else None,
        training_seconds=verdict.predicted_seconds if verdict else None,
        seconds_left=seconds_left(state),
        trials_left=trials_left(state),
    )


def subject(state: State, following: str | None) -> str | None:
    """The subject of the question that belongs before the node `following`, asked or not; None where none does."""
    plan, place = state.get("plan"), next((place for name, place in PLACES.items() if name == following), None)
    return None if plan is None or place is None or place != state["task"].approve else subject_of(place, plan)


def declined(plan: Plan, wish: Wish) -> Changes:
    """The changes that drop a plan before it has become a trial."""
    return {**dropped(), "wishes": [wish], "declined": [Declined(plan=plan, wish=wish.number)]}


def lines(asked: Question) -> list[str]:
    """A question for a person: the plan, what it costs, what is left, and what can be said."""
    plan = asked.plan
    cost = f"about {in_words(plan.predicted_seconds)} for the trial"
    if asked.training_seconds is not None:
        cost += f", {in_words(asked.training_seconds)} of them training by the validator's figures"
    left = in_words(asked.seconds_left)
    trials = "" if asked.trials_left is None else f", {asked.trials_left} trials"
    return [
        f"{TITLES[asked.place]} of trial {plan.number}",
        f"  why     {plan.diagnosis}",
        f"  expect  {plan.hypothesis}",
        f"  change  {changed(plan)}",
        f"  recipe  {recipe(plan, asked.rows)}",
        *([f"  cites   {'; '.join(plan.cites)}"] if plan.cites else []),
        f"  costs   {cost}; left of the budget: {left}{trials}",
        "  say     yes, no, or no with a wish: no, use fewer epochs",
    ]


TITLES: dict[Place, str] = {
    "plan": "Approve the plan",
    "data": "Approve the training data",
    "train": "Approve the training",
}
