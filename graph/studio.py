"""The graph for LangGraph's own server and studio (`langgraph dev`), which bring a checkpointer of their own."""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from langgraph.graph import StateGraph

from graph.build import build
from graph.planning import access_of
from graph.runner import assemble, open_database
from graph.workshop import workshop
from memory.layout import RunFolder, made
from memory.records import Task
from memory.state import State
from nodes.deps import Deps
from tools.engines.environments import cache_folder


def make_graph() -> StateGraph[State]:
    """The uncompiled graph for `{"task": {...}}`. Tools are made at a task's first node, so drawing is free."""
    return build(lambda state: tools_of(state["task"].model_dump_json()))


@lru_cache(maxsize=1)
def tools_of(task_json: str) -> Deps:
    """The nodes' tools for a task. Its run folder is named after the task, so that a second visit goes on in it."""
    task = Task.model_validate_json(task_json)
    folder = RunFolder(Path("runs").absolute() / f"studio-{hashlib.sha256(task_json.encode()).hexdigest()[:8]}")
    made(folder.root, mode=0o700)
    # The database stays open as long as the server lives: it is this process's lease on the run.
    database = open_database(folder)
    ready = replace(workshop(task, cache_folder(os.environ), say), access=access_of(os.environ))
    return assemble(task, folder, ready, database, listeners=())


def say(line: str) -> None:
    """Set-up lines go to the server's log."""
    print(line, file=sys.stderr, flush=True)
