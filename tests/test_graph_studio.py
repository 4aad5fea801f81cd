"""`langgraph dev` finds the graph, draws it, and starts."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from graph.studio import make_graph

ROOT = Path(__file__).parents[1]


def test_the_factory_draws_the_five_nodes_without_touching_the_disk(tmp_path: Path) -> None:
    drawn = make_graph().compile().get_graph()
    assert set(drawn.nodes) == {
        "__start__", "analyst", "planner", "data_engineer", "validator", "trainer", "__end__",
    }  # fmt: skip
    assert {(edge.source, edge.target) for edge in drawn.edges} == {
        ("__start__", "analyst"),
        ("analyst", "planner"),
        ("analyst", "__end__"),
        ("planner", "data_engineer"),
        ("planner", "analyst"),
        ("data_engineer", "validator"),
        ("data_engineer", "planner"),
        ("validator", "trainer"),
        ("validator", "planner"),
        ("trainer", "analyst"),
        ("trainer", "planner"),
    }


@pytest.mark.slow
def test_langgraph_dev_starts_offline_and_serves_the_graph(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    argv = [sys.executable, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload", "--port", str(port)]
    env = {**os.environ, "LANGSMITH_TRACING": "false", "LANGGRAPH_CLI_NO_ANALYTICS": "1"}
    log = tmp_path / "log"
    with log.open("w") as output:
        process = subprocess.Popen(argv, cwd=ROOT, env=env, stdout=output, stderr=subprocess.STDOUT)
    try:
        until = time.monotonic() + 90
        while True:
            assert process.poll() is None and time.monotonic() < until, log.read_text()[-2000:]
            try:
                request = urllib.request.Request(
                    f"http://127.0.0.1:{port}/assistants/search",
                    data=b"{}",
                    headers={"Content-Type": "application/json"},
                )
                with urllib.request.urlopen(request, timeout=5) as answer:
                    found = json.load(answer)
                break
            except OSError:
                time.sleep(0.5)
        assert [assistant["graph_id"] for assistant in found] == ["tunewright"]
    finally:
        process.terminate()
        process.wait(20)
