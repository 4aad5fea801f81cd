"""Small tasks of a person's own, written to disk as a person would: data beside a TOML file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from memory.records import OwnTask
from tools.benchmarks.benchmark import Split
from tools.own_task.splitting import OwnSplits, own_splits
from tools.own_task.task_file import TaskFile, read_task, toml_of

Rows = Sequence[dict[str, Any]]


def questions(count: int, first: int = 0) -> list[dict[str, Any]]:
    """Different questions with open answers."""
    return [
        {"question": f"What is item {number}?", "answer": f"thing {number}"} for number in range(first, first + count)
    ]


def labelled(**counts: int) -> list[dict[str, Any]]:
    """Questions with closed answers: so many rows of each label."""
    return [
        {"question": f"What kind is {label} {number}?", "answer": label}
        for label, count in counts.items()
        for number in range(count)
    ]


def write_rows(path: Path, rows: Rows) -> Path:
    """Rows as JSONL."""
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def write_task(folder: Path, rows: Rows, name: str = "mine", **keys: Any) -> Path:
    """A task file with its data; `keys` are those of the task file."""
    write_rows(folder / "data.jsonl", rows)
    values = {"name": name, "train": "data.jsonl", "prompt": "{question}", "metric": {"kind": "exact_match"}} | keys
    path = folder / f"{name}.toml"
    path.write_text(toml_of(TaskFile.model_validate(values), {}, []), encoding="utf-8")
    return path


def task_of(folder: Path, rows: Rows, **keys: Any) -> OwnTask:
    """The task of such a file."""
    return read_task(write_task(folder, rows, **keys))


def splits_of(folder: Path, rows: Rows, seed: int = 0, **keys: Any) -> OwnSplits:
    """Its splits."""
    return own_splits(task_of(folder, rows, **keys), seed)


def prompts(splits: OwnSplits, split: Split) -> list[str]:
    """The questions of a split."""
    return [item.prompt for item in splits.items[split]]


def said(splits: OwnSplits, kind: str) -> list[str]:
    """What was found of one kind."""
    return [found.says for found in splits.findings.found if found.kind == kind]
