"""A Ray cluster on this machine for tests: a head that takes no jobs, and nodes with one core each, on loopback."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

STORE_BYTES = 80_000_000
"""The smallest object store that Ray takes."""


class LocalNodes:
    """The cluster and its nodes; each is processes of its own."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster  # Ray reads its switches when it is imported

        self.alive: list[Any] = []
        """The nodes that take jobs."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.from_elsewhere = f"ray://127.0.0.1:{port}"
        """What a machine outside of the cluster connects to."""
        head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": STORE_BYTES}
        self.cluster: Any = Cluster(initialize_head=True, head_node_args={**head, "ray_client_server_port": port})

    @property
    def address(self) -> str:
        """What RAY_ADDRESS names."""
        return str(self.cluster.address)

    def add(self) -> Any:
        """One more node."""
        self.alive.append(self.cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES))
        return self.alive[-1]

    def kill(self, node: Any) -> None:
        """End a node as a power cut does."""
        self.alive.remove(node)
        self.cluster.remove_node(node, allow_graceful=False)


@contextmanager
def local_nodes(cache: Path) -> Iterator[LocalNodes]:
    """A cluster that `auto` finds, whose nodes have `cache` as theirs."""
    settings = {
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # Ray's only switch that keeps it on loopback
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_memory_monitor_refresh_ms": "0",
        "RAY_worker_niceness": "0",  # jobs would wait for everything else on this machine
        "TUNEWRIGHT_CACHE": str(cache),
    }
    before = {name: os.environ.get(name) for name in (*settings, "RAY_ADDRESS")}
    os.environ.update(settings)
    nodes = LocalNodes()
    os.environ["RAY_ADDRESS"] = nodes.address
    try:
        yield nodes
    finally:
        import ray

        ray.shutdown()  # a test may have left this process connected; a head that is in use is not let go
        nodes.cluster.shutdown()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
