"""The graph: five nodes and the edges between them."""

from collections.abc import Callable

from langgraph.graph import END, START, StateGraph

from graph.checked import checked
from graph.routes import after_analyst, after_data_engineer, after_planner, after_trainer, after_validator
from memory.state import State
from nodes.analyst import analyst
from nodes.data_engineer import data_engineer
from nodes.deps import Deps
from nodes.planner import planner
from nodes.trainer import trainer
from nodes.validator import validator

RECURSION_LIMIT = 10_000
"""Supersteps of one run; the budget ends a run long before."""


def build(tools: Callable[[State], Deps]) -> StateGraph[State]:
    """The uncompiled graph. `tools` is asked for the nodes' tools when a node runs, not before."""
    graph = StateGraph(State)
    graph.add_node("analyst", checked("analyst", analyst, tools))
    graph.add_node("planner", checked("planner", planner, tools))
    graph.add_node("data_engineer", checked("data_engineer", data_engineer, tools))
    graph.add_node("validator", checked("validator", validator, tools))
    graph.add_node("trainer", checked("trainer", trainer, tools))
    graph.add_edge(START, "analyst")
    graph.add_conditional_edges("analyst", after_analyst, {"planner": "planner", "__end__": END})
    graph.add_conditional_edges("planner", after_planner)
    graph.add_conditional_edges("data_engineer", after_data_engineer)
    graph.add_conditional_edges("validator", after_validator)
    graph.add_conditional_edges("trainer", after_trainer)
    return graph
