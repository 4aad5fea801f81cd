"""The wrapper around every node: hands in the tools, keeps the clock, closes failed trials, and refuses bad changes."""

from collections.abc import Callable
from typing import Protocol

from pydantic import TypeAdapter

from graph.approval import asked, declined
from memory.errors import TrialError
from memory.records import NodeName
from memory.state import Changes, State, failed
from nodes.deps import Deps

Node = Callable[[State, Deps], Changes]


class GraphNode(Protocol):
    """A node as LangGraph calls it."""

    def __call__(self, state: State) -> Changes:
        """The changes that the node makes of the state."""
        ...


STATE = TypeAdapter(State)
CHANGES = TypeAdapter(Changes)


def checked(name: NodeName, node: Node, tools: Callable[[State], Deps]) -> GraphNode:
    """Give `node` its tools. LangGraph drops unknown keys and checkpoints invalid values; here both raise.

    Where the task wants a person's yes before the node, that is asked first, so that nothing has happened when the
    graph is interrupted; a no drops the plan, and the node does not run.

    A `TrialError` while a trial is in progress closes that trial as failed; every other error stops the run, which can
    be resumed.
    """

    def run(state: State) -> Changes:
        state = STATE.validate_python(state)  # a studio hands the task in as plain JSON
        plan, answer = state.get("plan"), asked(name, state)
        deps = tools(state)
        said = [answer.wish(len(state.get("wishes", [])) + 1)] if answer else []
        for wish in said:
            deps.events.emit("said", wish.text)
        if plan is not None and answer is not None and not answer.approve:
            deps.events.emit("note", f"the plan of trial {plan.number} is declined")
            return CHANGES.validate_python(declined(plan, said[0]), strict=True)
        deps.begin(name, plan.number if plan else None)
        try:
            changes = node(state, deps)
        except TrialError as error:
            if plan is None:
                raise
            deps.events.emit("decision", f"trial {plan.number} failed: {error.kind}: {error}")
            changes = failed(state, error.failure(name), deps.node_seconds())
        for trial in changes.get("trials", []):
            deps.ledger.record_trial(trial)
        for lesson in changes.get("lessons", []):
            deps.ledger.record_lesson(lesson)
        changes["wishes"] = said
        changes["spent_seconds"] = deps.node_seconds()
        deps.ledger.record_run(state["task"], deps.model, state.get("spent_seconds", 0.0) + changes["spent_seconds"])
        deps.events.emit("node", f"{name} done", phase="end", value=changes["spent_seconds"])
        return CHANGES.validate_python(changes, strict=True)

    return run
