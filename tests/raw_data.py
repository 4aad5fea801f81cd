"""Raw data for tests: the real files of public benchmarks where they lie on this machine, and small ones made here."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from tools.raw_data.source import RawFile
from tools.raw_data.store import Store

ROOT = Path(__file__).parents[1]
REAL = Path(os.environ.get("TUNEWRIGHT_TEST_DATA") or ROOT.parent / "shared" / "data")


def real(name: str) -> Path:
    """A real file or folder; skips the test where it is not on this machine."""
    path = REAL / name
    if not path.exists():
        pytest.skip(f"{path} is not there: the real files of public benchmarks are not part of this repository")
    return path


def put(store: Store, file: RawFile, rows: Iterable[Mapping[str, object]]) -> Path:
    """Write rows where the store finds the file, in the hub's layout."""
    assert store.given is not None
    path = store.given / file.source.name / file.name
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    if path.suffix == ".parquet":
        import duckdb

        plain = path.with_suffix(".jsonl")
        plain.write_text("\n".join(lines))
        duckdb.sql(f"COPY (FROM read_json_auto('{plain}')) TO '{path}' (FORMAT parquet)")
        plain.unlink()
    else:
        path.write_text("\n".join(lines) + "\n")
    return path
