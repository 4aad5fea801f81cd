"""LangGraph's checkpoints in the run's own DuckDB file: what makes a run resumable, replayable and forkable."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any

from duckdb import DuckDBPyConnection
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    get_serializable_checkpoint_metadata,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from memory.checkpoint_rows import (
    CHECKPOINT_KEY,
    EMPTY,
    BlobRow,
    CheckpointRow,
    Key,
    Stored,
    WriteRow,
    ancestors,
    copy_thread,
    delete_checkpoints,
    delete_thread,
    find,
    load,
    store,
    store_under,
)
from memory.database import Database
from memory.errors import InputError


class DuckDBSaver(BaseCheckpointSaver[str]):
    """A checkpointer on an open `Database` that has the tables of `CHECKPOINT_SCHEMA`.

    All state is in the database, so shallow copies (`with_allowlist`) share it safely, and any thread may call. The
    async methods are the sync ones in a worker thread. Every method raises StorageError where the disk refuses.
    """

    def __init__(self, database: Database, allowed_types: Iterable[type] = ()) -> None:
        """`allowed_types`: the classes, besides plain values, that stored state may be rebuilt into."""
        super().__init__(serde=JsonPlusSerializer(allowed_msgpack_modules=list(allowed_types)))
        self.database = database

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that `config` names, or the newest of its thread and namespace."""
        with self.database.transaction() as connection:
            stored = load(connection, _find(connection, config))
        return self._tuple(stored[0]) if stored else None

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints newest first; without a namespace in `config`, those of all namespaces.

        `filter`: metadata entries that must be equal.
        """
        place = config["configurable"] if config else {}
        with self.database.transaction() as connection:
            rows = find(
                connection,
                thread_id=str(place["thread_id"]) if place else None,
                checkpoint_ns=place.get("checkpoint_ns"),
                checkpoint_id=place.get("checkpoint_id") or None,
                before=_address(before)[2] if before else None,
                limit=None if filter else limit,
            )
            stored = load(connection, [row for row in rows if _matches(row, filter or {})][:limit])
        yield from map(self._tuple, stored)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint as the child of the one that `config` names; stored again, it replaces itself."""
        thread_id, checkpoint_ns, parent_id = _address(config)
        values = checkpoint["channel_values"]
        blobs = []
        for channel, version in new_versions.items():
            encoded = self.serde.dumps_typed(values[channel]) if channel in values else (EMPTY, b"")
            blobs.append(BlobRow(thread_id, checkpoint_ns, channel, str(version), *encoded))
        body = json.dumps({key: value for key, value in checkpoint.items() if key != "channel_values"})
        described = json.dumps(get_serializable_checkpoint_metadata(config, metadata))
        row = CheckpointRow(thread_id, checkpoint_ns, checkpoint["id"], parent_id, body, described)
        store(self.database, [("REPLACE", [row]), ("REPLACE", blobs)])
        return _config(row.key)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task wrote. A retry keeps the first regular writes and replaces the special ones."""
        thread_id, checkpoint_ns, _ = _address(config)
        checkpoint_id = config["configurable"]["checkpoint_id"]
        rows: dict[int, WriteRow] = {}
        for place, (channel, value) in enumerate(writes):
            idx = WRITES_IDX_MAP.get(channel, place)
            encoded = self.serde.dumps_typed(value)
            rows[idx] = WriteRow(thread_id, checkpoint_ns, checkpoint_id, task_id, idx, task_path, channel, *encoded)
        regular = [row for idx, row in rows.items() if idx >= 0]
        special = [row for idx, row in rows.items() if idx < 0]
        store(self.database, [("IGNORE", regular), ("REPLACE", special)])

    def delete_thread(self, thread_id: str) -> None:
        """Remove all checkpoints, values and writes of a thread."""
        with self.database.transaction() as connection:
            delete_thread(connection, thread_id)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints whose metadata names one of these runs."""
        with self.database.transaction() as connection:
            gone = [row.key for row in find(connection) if json.loads(row.metadata).get("run_id") in run_ids]
            delete_checkpoints(connection, gone)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a whole thread: all namespaces, branches, values and writes."""
        with self.database.transaction() as connection:
            copy_thread(connection, source_thread_id, target_thread_id)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Thin out threads: keep only the newest checkpoint of each namespace, or (`delete`) nothing.

        Ancestors from which the newest rebuilds its delta channels are kept too.
        """
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"unknown strategy {strategy!r}: keep_latest or delete")
        for thread_id in thread_ids:
            with self.database.transaction() as connection:
                if strategy == "delete":
                    delete_thread(connection, thread_id)
                    continue
                rows = find(connection, thread_id=thread_id)
                newest = {row.checkpoint_ns: row for row in reversed(rows)}
                kept = {key for row in newest.values() for key in _needed(connection, row)}
                delete_checkpoints(connection, [row.key for row in rows if row.key not in kept])

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Per channel: the nearest value stored at an ancestor of `config`, if any, and the writes since, oldest first.

        The writes at that ancestor count, for they were applied to its value; those at `config` itself do not.
        """
        histories: dict[str, DeltaChannelHistory] = {channel: {"writes": []} for channel in channels}
        open_channels = set(channels)
        with self.database.transaction() as connection:
            found = _find(connection, config)
            for ancestor in ancestors(connection, found[0], channels) if found else ():
                if not open_channels:
                    break
                for write in reversed(ancestor.writes):
                    if write.channel in open_channels:
                        histories[write.channel]["writes"].append(self._pending(write))
                for channel in open_channels & ancestor.blobs.keys():
                    histories[channel]["seed"] = self._load(ancestor.blobs[channel])
                open_channels -= ancestor.blobs.keys()
        for history in histories.values():
            history["writes"].reverse()
        return histories

    def get_next_version(self, current: str | None, channel: None) -> str:
        """A counter that sorts as text, and a suffix that keeps two branches of one thread from sharing a version."""
        number = int(current.split(".")[0]) + 1 if current else 1
        return f"{number:032}.{secrets.token_hex(8)}"

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        for found in await asyncio.to_thread(tuple, self.list(config, filter=filter, before=before, limit=limit)):
            yield found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await asyncio.to_thread(self.prune, thread_ids, strategy=strategy)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return await asyncio.to_thread(self.get_delta_channel_history, config=config, channels=channels)

    def _tuple(self, stored: Stored) -> CheckpointTuple:
        row = stored.row
        values = {channel: self._load(blob) for channel, blob in stored.blobs.items()}
        return CheckpointTuple(
            config=_config(row.key),
            checkpoint=json.loads(row.checkpoint) | {"channel_values": values},
            metadata=json.loads(row.metadata),
            parent_config=_config((*row.key[:2], row.parent_checkpoint_id)) if row.parent_checkpoint_id else None,
            pending_writes=[self._pending(write) for write in stored.writes],
        )

    def _load(self, row: BlobRow | WriteRow) -> Any:
        return self.serde.loads_typed((row.kind, row.value))

    def _pending(self, write: WriteRow) -> PendingWrite:
        return (write.task_id, write.channel, self._load(write))


def copy_lineage(source: DuckDBSaver, config: RunnableConfig, target: DuckDBSaver, thread_id: str) -> RunnableConfig:
    """Copy a checkpoint and all its ancestors into another saver under `thread_id`; returns the config of the copy.

    The writes stored at the named checkpoint stay behind: they are the outcome of the step that the new thread is about
    to take, and with them LangGraph would not take it. Subgraph namespaces are not followed. The source is only read.
    Raises InputError where the checkpoint does not exist.
    """
    with source.database.transaction() as connection:
        named = load(connection, _find(connection, config))
        if not named:
            raise InputError(f"no checkpoint {_address(config)[2]} in this run", "List them with --history.")
        row = named[0].row
        copied = [named[0]._replace(writes=[]), *ancestors(connection, row)]
    store_under(target.database, thread_id, copied)
    return _config((thread_id, row.checkpoint_ns, row.checkpoint_id))


def _address(config: RunnableConfig) -> tuple[str, str, str | None]:
    place = config["configurable"]
    return str(place["thread_id"]), place.get("checkpoint_ns") or "", place.get("checkpoint_id") or None


def _config(key: Key) -> RunnableConfig:
    return {"configurable": dict(zip(CHECKPOINT_KEY, key, strict=True))}


def _find(connection: DuckDBPyConnection, config: RunnableConfig) -> list[CheckpointRow]:
    """The named or newest checkpoint; empty where there is none."""
    thread_id, checkpoint_ns, checkpoint_id = _address(config)
    return find(connection, thread_id=thread_id, checkpoint_ns=checkpoint_ns, checkpoint_id=checkpoint_id, limit=1)


def _matches(row: CheckpointRow, wanted: Mapping[str, Any]) -> bool:
    metadata = json.loads(row.metadata)
    return all(metadata.get(key) == value for key, value in wanted.items())


def _needed(connection: DuckDBPyConnection, row: CheckpointRow) -> Iterator[Key]:
    """Keys of `row` and of the ancestors from which its delta channels are rebuilt: back to a stored value of each.

    LangGraph counts in the metadata what happened to each delta channel since its last stored value.
    """
    yield row.key
    counted = json.loads(row.metadata).get("counters_since_delta_snapshot", {})
    [stored] = load(connection, [row], counted)
    missing = row.blob_keys(counted).keys() - stored.blobs.keys()
    for ancestor in ancestors(connection, row, missing):
        if not missing:
            return
        yield ancestor.row.key
        missing -= ancestor.blobs.keys()
