"""The graph: five nodes and the edges between them."""

from collections.abc import Callable, Mapping

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from graph.checked import Node, checked
from graph.routes import after_analyst, after_data_engineer, after_planner, after_trainer, after_validator
from memory.records import NodeName
from memory.state import State
from nodes.analyst import analyst
from nodes.data_engineer import data_engineer
from nodes.deps import Deps
from nodes.planner import planner
from nodes.trainer import trainer
from nodes.validator import validator

RECURSION_LIMIT = 10_000
"""Supersteps of one run; the budget ends a run long before."""
Graph = CompiledStateGraph[State, None, State, State]

NODES: Mapping[NodeName, Node] = {
    "analyst": analyst,
    "planner": planner,
    "data_engineer": data_engineer,
    "validator": validator,
    "trainer": trainer,
}


def build(tools: Callable[[State], Deps], nodes: Mapping[NodeName, Node] = NODES) -> StateGraph[State]:
    """The uncompiled graph. `tools` is asked for the nodes' tools when a node runs, not before."""
    graph = StateGraph(State)
    for name, node in nodes.items():
        graph.add_node(name, checked(name, node, tools))
    graph.add_edge(START, "analyst")
    graph.add_conditional_edges("analyst", after_analyst, {"planner": "planner", "__end__": END})
    graph.add_conditional_edges("planner", after_planner)
    graph.add_conditional_edges("data_engineer", after_data_engineer)
    graph.add_conditional_edges("validator", after_validator)
    graph.add_conditional_edges("trainer", after_trainer)
    return graph
