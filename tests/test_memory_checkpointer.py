"""The checkpointer keeps LangGraph's contract: the official suite in full, then what that suite does not look at."""

from __future__ import annotations

import operator
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import duckdb
import pytest
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from memory.checkpoint_rows import CHECKPOINT_SCHEMA, PAGE
from memory.checkpointer import DuckDBSaver, copy_lineage
from memory.database import Database
from memory.errors import InputError

ROOT = Path(__file__).parents[1]
THREAD: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with Database.open(tmp_path / "run" / "run.duckdb", [CHECKPOINT_SCHEMA]) as opened:
        yield opened


@pytest.fixture
def saver(database: Database) -> DuckDBSaver:
    return DuckDBSaver(database)


@pytest.fixture
def other(tmp_path: Path) -> Iterator[DuckDBSaver]:
    """A saver of another run."""
    with Database.open(tmp_path / "fork" / "run.duckdb", [CHECKPOINT_SCHEMA]) as opened:
        yield DuckDBSaver(opened)


def put(
    saver: BaseCheckpointSaver[Any],
    values: dict[str, Any],
    *,
    under: Any = THREAD,
    versions: dict[str, Any] | None = None,
    new: dict[str, Any] | None = None,
    checkpoint_id: str | None = None,
    **metadata: Any,
) -> Any:
    """Store one checkpoint of `values` as a child of `under`; returns its config."""
    versions = dict.fromkeys(values, 1) if versions is None else versions
    checkpoint = empty_checkpoint() | {"channel_values": values, "channel_versions": versions}
    checkpoint["id"] = checkpoint_id or str(uuid6())
    return saver.put(under, checkpoint, {"source": "loop", "step": 0, **metadata}, versions if new is None else new)


def values(saver: BaseCheckpointSaver[Any], config: Any = THREAD) -> dict[str, Any]:
    found = saver.get_tuple(config)
    assert found is not None
    return found.checkpoint["channel_values"]


def writes(saver: BaseCheckpointSaver[Any], config: Any = THREAD) -> list[tuple[str, str, Any]]:
    found = saver.get_tuple(config)
    assert found is not None
    return found.pending_writes or []


def count(saver: DuckDBSaver, table: str) -> int:
    return int(saver.database.rows(f"SELECT count(*) FROM {table}")[0][0])


def ids(saver: BaseCheckpointSaver[Any], config: Any = THREAD, **conditions: Any) -> list[str]:
    return [found.checkpoint["id"] for found in saver.list(config, **conditions)]


async def test_the_official_suite_passes_in_full(tmp_path: Path) -> None:
    fresh = iter(range(100))

    @checkpointer_test(name="DuckDBSaver")
    async def registered() -> AsyncIterator[DuckDBSaver]:
        with Database.open(tmp_path / str(next(fresh)) / "run.duckdb", [CHECKPOINT_SCHEMA]) as opened:
            yield DuckDBSaver(opened)

    report = await validate(registered)
    assert [name for name, result in report.results.items() if not result.detected] == []
    assert {name: result.failures for name, result in report.results.items() if result.failures} == {}
    assert report.passed_all()
    assert len(report.results) == 8
    assert sum(result.tests_passed for result in report.results.values()) == 81


# --- Writes ---


def test_writes_come_back_in_the_order_in_which_a_live_run_applies_them(saver: DuckDBSaver) -> None:
    config = put(saver, {})
    # By path first, though the ids sort the other way; unnamed paths first of all; ids break ties.
    tasks = [("a", "~2"), ("z", "~1"), ("m", ""), ("b", "~2")]
    for task_id, path in tasks:
        saver.put_writes(config, [("x", task_id + "0"), ("y", task_id + "1")], task_id, path)
    expected = ["m0", "m1", "z0", "z1", "a0", "a1", "b0", "b1"]
    assert [value for _, _, value in writes(saver)] == expected
    assert [value for _, _, value in next(saver.list(THREAD)).pending_writes or []] == expected


def test_a_retry_keeps_regular_writes_and_replaces_special_ones(saver: DuckDBSaver) -> None:
    config = put(saver, {})
    saver.put_writes(config, [("x", "first"), ("__error__", "old")], "task")
    saver.put_writes(config, [("x", "second"), ("__error__", "new"), ("y", "added")], "task")
    assert {(channel, value) for _, channel, value in writes(saver)} == {
        ("x", "first"),
        ("__error__", "new"),
        ("y", "added"),
    }


def test_special_writes_have_places_of_their_own(saver: DuckDBSaver) -> None:
    config = put(saver, {})
    saver.put_writes(config, [("x", 1)], "task")
    for channel in ("__error__", "__interrupt__", "__resume__", "__scheduled__"):
        saver.put_writes(config, [(channel, channel)], "task")
    saver.put_writes(config, [("__resume__", "one"), ("__resume__", "two")], "task")
    found = {channel: value for _, channel, value in writes(saver)}
    assert found == {
        "x": 1, "__error__": "__error__", "__interrupt__": "__interrupt__",
        "__resume__": "two", "__scheduled__": "__scheduled__",
    }  # fmt: skip


def test_writes_may_arrive_before_their_checkpoint(saver: DuckDBSaver) -> None:
    put(saver, {})
    later = str(uuid6())
    saver.put_writes({"configurable": {**THREAD["configurable"], "checkpoint_id": later}}, [("x", 1)], "task")
    saver.prune(["t"])
    put(saver, {}, checkpoint_id=later)
    assert writes(saver) == [("task", "x", 1)]


# --- Checkpoints ---


def test_a_checkpoint_stored_again_replaces_itself(saver: DuckDBSaver) -> None:
    config = put(saver, {"x": "old", "gone": 1}, note="old")
    again = config["configurable"]["checkpoint_id"]
    put(saver, {"x": "new"}, versions={"x": 1, "gone": 1}, checkpoint_id=again, note="new")
    [found] = saver.list(THREAD)
    assert found.checkpoint["channel_values"] == {"x": "new"}
    assert found.metadata["note"] == "new"  # type: ignore[typeddict-item]
    assert count(saver, "checkpoint_blobs") == 2


def test_a_channel_that_was_removed_is_gone_from_then_on_only(saver: DuckDBSaver) -> None:
    first = put(saver, {"x": 1, "y": 2})
    second = put(saver, {"y": 2}, under=first, versions={"x": 2, "y": 1}, new={"x": 2})
    assert values(saver, first) == {"x": 1, "y": 2}
    assert values(saver, second) == {"y": 2}


def test_a_value_that_does_not_change_is_stored_once(saver: DuckDBSaver) -> None:
    config = put(saver, {"big": "x" * 1000, "n": 0})
    for step in range(1, 5):
        config = put(
            saver, {"big": "x" * 1000, "n": step}, under=config, versions={"big": 1, "n": 1 + step}, new={"n": 1 + step}
        )
    assert count(saver, "checkpoint_blobs") == 1 + 5
    assert values(saver) == {"big": "x" * 1000, "n": 4}


def test_two_readers_of_one_value_do_not_share_it(saver: DuckDBSaver) -> None:
    first = put(saver, {"x": [1]})
    put(saver, {"x": [1]}, under=first, new={})
    newest, oldest = saver.list(THREAD)
    newest.checkpoint["channel_values"]["x"].append(2)
    assert oldest.checkpoint["channel_values"]["x"] == [1]


def test_scalars_of_the_config_are_kept_as_metadata(saver: DuckDBSaver) -> None:
    config = {
        "configurable": {**THREAD["configurable"], "tenant": "a", "__secret": "b", "list": [1]},
        "metadata": {"app_run": "r1", "langgraph_step": 3, "step": "not this one"},
    }
    put(saver, {}, under=config)
    found = saver.get_tuple(THREAD)
    assert found is not None
    assert found.metadata == {"source": "loop", "step": 0, "tenant": "a", "app_run": "r1"}


def test_metadata_filters_are_values_not_sql(saver: DuckDBSaver) -> None:
    odd = "a'; DROP TABLE checkpoints; --\"."
    put(saver, {}, **{odd: odd, "nested": {"b": [1, 2]}, "flag": True, "nothing": None})
    put(saver, {}, plain=1)
    for wanted in ({odd: odd}, {"nested": {"b": [1, 2]}}, {"flag": True, odd: odd}):
        assert len(ids(saver, filter=wanted)) == 1
    assert ids(saver, filter={"' OR 1=1 --": 1}) == []
    assert ids(saver, filter={"flag": "true"}) == []
    assert len(ids(saver, filter={"source": "loop"}, limit=1)) == 1
    assert len(ids(saver)) == 2


def test_a_limit_counts_what_passes_the_filter(saver: DuckDBSaver) -> None:
    stored = [put(saver, {}, kind="a" if step % 2 else "b")["configurable"]["checkpoint_id"] for step in range(6)]
    assert ids(saver, filter={"kind": "b"}, limit=2) == [stored[4], stored[2]]
    before = {"configurable": {"thread_id": "t", "checkpoint_id": stored[4]}}
    assert ids(saver, filter={"kind": "b"}, before=before) == [stored[2], stored[0]]
    assert ids(saver, limit=0) == []


def test_a_put_that_fails_halfway_leaves_nothing(saver: DuckDBSaver) -> None:
    """The second statement of the put is refused: a lone surrogate is no text to DuckDB."""
    with pytest.raises(duckdb.Error):
        put(saver, {"\ud800": 1}, versions={}, new={"\ud800": 1})
    assert count(saver, "checkpoints") == 0
    put(saver, {"x": 1})
    assert values(saver) == {"x": 1}


def test_versions_sort_as_text_and_branches_never_share_one(saver: DuckDBSaver) -> None:
    version = None
    seen: list[str] = []
    for _ in range(120):
        version = saver.get_next_version(version, None)
        seen.append(version)
    assert seen == sorted(seen)
    assert saver.get_next_version(seen[3], None) != seen[4]


# --- Removing and copying ---


def grow(saver: DuckDBSaver, steps: int, thread: str = "t", ns: str = "") -> list[Any]:
    """A chain in which one value stays and one changes at each step, with a write at each checkpoint."""
    config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ns}}
    configs = []
    for step in range(steps):
        now = {"same": 1, "n": step + 1}
        new = now if step == 0 else {"n": step + 1}
        config = put(saver, {"same": "kept", "n": step}, under=config, versions=now, new=new, run_id=f"run-{step}")
        saver.put_writes(config, [("n", step + 1)], f"task-{step}")
        configs.append(config)
    return configs


def test_pruning_leaves_the_newest_whole_and_no_orphans(saver: DuckDBSaver) -> None:
    newest = grow(saver, 5)[-1]
    grow(saver, 2, ns="child")
    grow(saver, 2, thread="untouched")
    saver.prune(["t"])
    assert ids(saver, newest) == [newest["configurable"]["checkpoint_id"]]
    assert values(saver) == {"same": "kept", "n": 4}
    assert writes(saver) == [("task-4", "n", 5)]
    assert count(saver, "checkpoints") == 1 + 1 + 2
    assert count(saver, "checkpoint_writes") == 1 + 1 + 2
    assert count(saver, "checkpoint_blobs") == 2 + 2 + 3
    with pytest.raises(ValueError, match="keep_latest or delete"):
        saver.prune(["t"], strategy="keep_oldest")


def test_deleting_runs_leaves_the_rest_whole_and_no_orphans(saver: DuckDBSaver) -> None:
    configs = grow(saver, 4)
    saver.delete_for_runs(["run-0", "run-2"])
    assert values(saver, configs[3]) == {"same": "kept", "n": 3}
    assert values(saver, configs[1]) == {"same": "kept", "n": 1}
    assert saver.get_tuple(configs[2]) is None
    assert [count(saver, table) for table in ("checkpoints", "checkpoint_writes", "checkpoint_blobs")] == [2, 2, 3]


@pytest.mark.parametrize("way", ["delete_thread", "prune"])
def test_deleting_a_thread_leaves_nothing_of_it(saver: DuckDBSaver, way: str) -> None:
    grow(saver, 3)
    grow(saver, 3, ns="child")
    grow(saver, 1, thread="untouched")
    if way == "prune":
        saver.prune(["t"], strategy="delete")
    else:
        saver.delete_thread("t")
    assert [count(saver, table) for table in ("checkpoints", "checkpoint_writes", "checkpoint_blobs")] == [1, 1, 2]


def test_a_copied_thread_lives_on_its_own(saver: DuckDBSaver) -> None:
    configs = grow(saver, 3)
    saver.copy_thread("t", "copy")
    saver.copy_thread("t", "copy")
    saver.delete_thread("t")
    copied = list(saver.list({"configurable": {"thread_id": "copy"}}))
    assert [found.checkpoint["id"] for found in copied] == [c["configurable"]["checkpoint_id"] for c in configs[::-1]]
    assert [found.checkpoint["channel_values"]["n"] for found in copied] == [2, 1, 0]
    assert copied[0].pending_writes == [("task-2", "n", 3)]
    assert copied[0].parent_config == copied[1].config


def test_a_lineage_is_copied_from_the_root_to_the_named_checkpoint(saver: DuckDBSaver, other: DuckDBSaver) -> None:
    configs = grow(saver, PAGE + 10)
    sibling = put(saver, {"n": "sibling"}, under=configs[1], versions={"n": 999})
    before = saver.database.rows("SELECT count(*), max(checkpoint_id) FROM checkpoints")
    copied = copy_lineage(saver, configs[-3], other, "fork")
    chain = list(other.list({"configurable": {"thread_id": "fork"}}))
    assert chain[0].config == copied
    assert [found.checkpoint["channel_values"]["n"] for found in chain] == list(range(PAGE + 7, -1, -1))
    assert {found.checkpoint["channel_values"]["same"] for found in chain} == {"kept"}
    assert chain[0].pending_writes == []
    assert chain[1].pending_writes == [(f"task-{PAGE + 6}", "n", PAGE + 7)]
    assert chain[-1].parent_config is None
    assert sibling["configurable"]["checkpoint_id"] not in [found.checkpoint["id"] for found in chain]
    assert saver.database.rows("SELECT count(*), max(checkpoint_id) FROM checkpoints") == before
    assert writes(saver, configs[-3]) == [(f"task-{PAGE + 7}", "n", PAGE + 8)]


def test_copying_from_a_checkpoint_that_does_not_exist_says_so(saver: DuckDBSaver, other: DuckDBSaver) -> None:
    grow(saver, 1)
    with pytest.raises(InputError, match="no checkpoint nowhere"):
        copy_lineage(saver, {"configurable": {"thread_id": "t", "checkpoint_id": "nowhere"}}, other, "fork")
    assert count(other, "checkpoints") == 0


# --- Delta channels ---


def test_delta_history_is_that_of_the_reference_walk(saver: DuckDBSaver) -> None:
    """A random chain longer than a page, with a branch, parallel tasks, and values stored here and there."""
    dice = random.Random(3)
    config, chain = THREAD, []
    for step in range(PAGE + 16):
        present = {channel: step for channel in "abc" if dice.random() < {"a": 0.1, "b": 0.02, "c": 0}[channel]}
        versions = dict.fromkeys("abc", step + 1)
        config = put(saver, present, under=dice.choice(chain[-3:] or [config]), versions=versions)
        chain.append(config)
        for task in range(2):
            wrote = [(dice.choice("abc"), f"{step}.{task}.{n}") for n in range(2)]
            saver.put_writes(config, wrote, dice.randbytes(4).hex(), f"~{task}")
    for target in (THREAD, *dice.sample(chain, 3), put(saver, {})):
        for channels in (["a", "b"], ["c"], []):
            expected = BaseCheckpointSaver.get_delta_channel_history(saver, config=target, channels=channels)
            assert saver.get_delta_channel_history(config=target, channels=channels) == expected
    missing = {"configurable": {"thread_id": "nobody"}}
    assert saver.get_delta_channel_history(config=missing, channels=["a"]) == {"a": {"writes": []}}


def test_a_chain_that_loops_ends_the_walk(saver: DuckDBSaver) -> None:
    first = put(saver, {})
    second = put(saver, {}, under=first)
    put(saver, {}, under=second, checkpoint_id=first["configurable"]["checkpoint_id"])
    assert saver.get_delta_channel_history(config=second, channels=["x"]) == {"x": {"writes": []}}


def extend(current: list[str], batch: list[list[str]]) -> list[str]:
    return [*current, *(item for each in batch for item in each)]


class DeltaState(TypedDict, total=False):
    log: Annotated[list[str], DeltaChannel(extend, snapshot_frequency=4)]
    rounds: int


def delta_graph(saver: BaseCheckpointSaver[Any]) -> Any:
    def left(state: DeltaState) -> dict[str, Any]:
        return {"log": [f"left {state['rounds']}"]}

    def right(state: DeltaState) -> dict[str, Any]:
        return {"log": [f"right {state['rounds']}"]}

    def join(state: DeltaState) -> dict[str, Any]:
        return {"rounds": state["rounds"] + 1, "log": ["join"]}

    graph = StateGraph(DeltaState)
    for node in (right, left, join):
        graph.add_node(node.__name__, node)
    graph.add_edge(START, "left")
    graph.add_edge(START, "right")
    graph.add_edge(["left", "right"], "join")
    graph.add_edge("join", END)
    return graph.compile(checkpointer=saver)


def grow_delta(saver: BaseCheckpointSaver[Any], thread: Any, invocations: int) -> list[str]:
    graph = delta_graph(saver)
    for number in range(invocations):
        graph.invoke({"log": [f"input {number}"], "rounds": number}, thread)
    return list(graph.get_state(thread).values["log"])


def test_a_delta_channel_comes_back_as_with_the_reference_saver(saver: DuckDBSaver) -> None:
    thread: Any = {"configurable": {"thread_id": "t"}}
    expected = grow_delta(InMemorySaver(), thread, 7)
    assert len(expected) == 7 * 4
    assert grow_delta(saver, thread, 7) == expected
    # The channel is really rebuilt from writes, not stored each time.
    [[stored]] = saver.database.rows("SELECT count(*) FROM checkpoint_blobs WHERE channel = 'log' AND kind <> 'empty'")
    assert 0 < stored < 10
    history = [len(state.values.get("log", [])) for state in delta_graph(saver).get_state_history(thread)]
    assert history[0] == 28
    assert history == sorted(history, reverse=True)


@pytest.mark.parametrize("invocations", range(1, 8))
def test_pruning_keeps_what_a_delta_channel_is_rebuilt_from(saver: DuckDBSaver, invocations: int) -> None:
    thread: Any = {"configurable": {"thread_id": "t"}}
    expected = grow_delta(saver, thread, invocations)
    before = count(saver, "checkpoints")
    saver.prune(["t"])
    assert delta_graph(saver).get_state(thread).values["log"] == expected
    assert count(saver, "checkpoints") <= min(before, 12)
    delta_graph(saver).invoke({"log": ["more"], "rounds": 9}, thread)
    assert delta_graph(saver).get_state(thread).values["log"] == [*expected, "more", "left 9", "right 9", "join"]


def test_a_copied_lineage_rebuilds_its_delta_channels(saver: DuckDBSaver, other: DuckDBSaver) -> None:
    thread: Any = {"configurable": {"thread_id": "t"}}
    grow_delta(saver, thread, 6)
    for state in list(delta_graph(saver).get_state_history(thread))[:8]:
        fork = state.metadata["step"]
        copy_lineage(saver, state.config, other, str(fork))
        copied = delta_graph(other).get_state({"configurable": {"thread_id": str(fork)}})
        assert copied.values == state.values
        assert copied.next == state.next


# --- Whole graphs ---


class State(TypedDict, total=False):
    done: Annotated[list[str], operator.add]
    answer: str


def asking_graph(saver: BaseCheckpointSaver[Any], calls: list[str]) -> Any:
    def plan(state: State) -> dict[str, Any]:
        calls.append("plan")
        return {"done": ["plan"]}

    def ask(state: State) -> dict[str, Any]:
        return {"answer": interrupt("go on?"), "done": ["ask"]}

    def act(state: State) -> dict[str, Any]:
        calls.append("act")
        return {"done": [f"act on {state['answer']}"]}

    graph = StateGraph(State)
    for node in (plan, ask, act):
        graph.add_node(node.__name__, node)
    for edge in ((START, "plan"), ("plan", "ask"), ("ask", "act"), ("act", END)):
        graph.add_edge(*edge)
    return graph.compile(checkpointer=saver)


def test_a_graph_is_interrupted_resumed_and_travels_in_time(saver: DuckDBSaver) -> None:
    graph, thread = asking_graph(saver, []), {"configurable": {"thread_id": "t"}}
    assert "__interrupt__" in graph.invoke({"done": []}, thread)
    assert graph.invoke(Command(resume="yes"), thread)["done"] == ["plan", "ask", "act on yes"]
    history = list(graph.get_state_history(thread))
    assert [state.next for state in history] == [(), ("act",), ("ask",), ("plan",), ("__start__",)]
    branch = graph.update_state(history[1].config, {"answer": "no"})
    assert graph.invoke(None, branch)["done"] == ["plan", "ask", "act on no"]
    assert graph.get_state(history[0].config).values["answer"] == "yes"


async def test_the_same_graph_runs_asynchronously(saver: DuckDBSaver) -> None:
    graph, thread = asking_graph(saver, []), {"configurable": {"thread_id": "t"}}
    await graph.ainvoke({"done": []}, thread)
    assert (await graph.ainvoke(Command(resume="yes"), thread))["done"] == ["plan", "ask", "act on yes"]
    assert len([state async for state in graph.aget_state_history(thread)]) == 5


def test_a_run_grown_from_a_copied_checkpoint_takes_its_next_step_anew(saver: DuckDBSaver, other: DuckDBSaver) -> None:
    calls: list[str] = []
    graph, thread = asking_graph(saver, calls), {"configurable": {"thread_id": "t"}}
    graph.invoke({"done": []}, thread)
    graph.invoke(Command(resume="yes"), thread)
    history = list(graph.get_state_history(thread))
    fork: Any = {"configurable": {"thread_id": "fork"}}
    copy_lineage(saver, history[1].config, other, "fork")
    calls.clear()
    forked = asking_graph(other, calls)
    forked.update_state(fork, {"answer": "no"})
    assert forked.invoke(None, fork)["done"] == ["plan", "ask", "act on no"]
    copy_lineage(saver, history[3].config, other, "again")
    assert "__interrupt__" in forked.invoke(None, {"configurable": {"thread_id": "again"}})
    assert calls == ["act", "plan"]
    assert list(graph.get_state_history(thread)) == history


COUNTING = """
import operator, os, sys, time
from typing import Annotated
from pathlib import Path
from typing_extensions import TypedDict
from langgraph.graph import END, START, StateGraph
from memory.checkpoint_rows import CHECKPOINT_SCHEMA
from memory.checkpointer import DuckDBSaver
from memory.database import Database

class State(TypedDict):
    numbers: Annotated[list[int], operator.add]

def count(state):
    print(len(state["numbers"]), flush=True)
    return {"numbers": [len(state["numbers"])]}

with Database.open(Path(sys.argv[1]), [CHECKPOINT_SCHEMA]) as database:
    graph = StateGraph(State)
    graph.add_node("count", count)
    graph.add_edge(START, "count")
    graph.add_conditional_edges("count", lambda state: END if len(state["numbers"]) >= 30 else "count")
    compiled, thread = graph.compile(checkpointer=DuckDBSaver(database)), {"configurable": {"thread_id": "t"}}
    thread["recursion_limit"] = 200
    started = compiled.get_state(thread).values
    end = compiled.invoke(None if started else {"numbers": []}, thread, durability="sync")
    assert end["numbers"] == list(range(30)), end
    print("whole", flush=True)
"""


def test_a_run_killed_with_9_goes_on_where_it_was(tmp_path: Path) -> None:
    command = [sys.executable, "-c", COUNTING, str(tmp_path / "run" / "run.duckdb")]
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    steps = [int(child.stdout.readline()) for _ in range(12)]
    child.kill()
    steps += [int(line) for line in child.stdout.read().split()]
    child.wait()
    last = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert last.returncode == 0, last.stderr
    lines = last.stdout.split()
    assert lines.pop() == "whole"
    steps += map(int, lines)
    # A step in flight may be taken again, but never one that was stored.
    assert sorted(set(steps)) == list(range(30))
    assert len(steps) <= 31


def test_eight_threads_share_one_saver(saver: DuckDBSaver) -> None:
    def work(number: int) -> list[int]:
        own = saver.with_allowlist([("nowhere", f"Class{number}")])
        thread: Any = {"configurable": {"thread_id": f"t{number}", "checkpoint_ns": ""}}
        config = thread
        for step in range(8):
            config = put(own, {"n": [number, step]}, under=config, versions={"n": step + 1})
            own.put_writes(config, [("n", step)], "task")
            assert values(own, config) == {"n": [number, step]}
        return [found.checkpoint["channel_values"]["n"][1] for found in own.list(thread)]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == [list(range(7, -1, -1))] * 8
    assert count(saver, "checkpoints") == 64


def test_eight_threads_may_write_to_one_checkpoint(saver: DuckDBSaver) -> None:
    config = put(saver, {})
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: saver.put_writes(config, [("x", n), ("__error__", n)], f"task-{n % 4}"), range(40)))
    assert len(writes(saver)) == 8


@dataclass
class Allowed:
    number: int


@dataclass
class Foreign:
    number: int


def test_only_allowed_types_are_rebuilt_and_a_clone_shares_the_database(saver: DuckDBSaver) -> None:
    own = DuckDBSaver(saver.database, [Allowed])
    put(own, {"a": Allowed(1), "f": Foreign(2)})
    found = values(own)
    assert found["a"] == Allowed(1)
    assert not isinstance(found["f"], Foreign)
    assert not isinstance(values(saver)["a"], Allowed)
    clone = own.with_allowlist([(Foreign.__module__, "Foreign")])
    assert clone is not own
    assert values(clone) == {"a": Allowed(1), "f": Foreign(2)}
    assert not isinstance(values(own)["f"], Foreign)
    put(clone, {"a": Allowed(3)})
    assert values(own) == {"a": Allowed(3)}
    clone.delete_thread("t")
    assert own.get_tuple(THREAD) is None


def test_checkpoints_read_well_in_plain_sql(saver: DuckDBSaver) -> None:
    grow(saver, 3)
    sql = "SELECT metadata->>'run_id', checkpoint->'channel_versions'->>'n' FROM checkpoints ORDER BY checkpoint_id"
    assert saver.database.rows(sql) == [("run-0", "1"), ("run-1", "2"), ("run-2", "3")]
