"""Real files of published benchmarks, where they are on this machine; their licences keep them out of the project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def folder(*names: str) -> Path:
    """A folder of real data. Skips the test where it is absent."""
    given = os.environ.get("TUNEWRIGHT_TEST_DATA")
    path = (Path(given) if given else ROOT.parent / "shared" / "data").joinpath(*names)
    if not path.exists():
        pytest.skip(f"{path} is not on this machine: it holds real files that may not be copied into the project")
    return path
