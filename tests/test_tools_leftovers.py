"""Environments of other lock files: said in one line, removed on request, never under somebody who uses one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tools.engines import environments, leftovers

ROOT = Path(__file__).parents[1]
OLD, HALF, MINE = "train-0123456789ab", "score-ba9876543210", "train-ffffffffffff"


def make(cache: Path, name: str, size: int | None = 3_000_000_000) -> Path:
    """What an install leaves; without `size`, what one leaves that was broken off."""
    folder = cache / "envs" / name
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(sys.executable)
    (folder / "library").write_bytes(bytes(200_000))
    for log in (f"{name}.log", f"{name}.verify.log"):
        folder.with_name(log).touch()
    if size is not None:
        ready = environments.Ready(name=name.split("-")[0], lock_sha256="0", packages=1, seconds=1, bytes=size)
        (folder / "ready.json").write_text(ready.model_dump_json())
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Two environments that nobody names, one that is named, and a folder that is no environment."""
    make(tmp_path, OLD)
    make(tmp_path, HALF, None)
    make(tmp_path, MINE)
    (tmp_path / "envs" / "my-notes").mkdir()
    return tmp_path


def prune(cache: Path) -> list[str]:
    """The lines that it says."""
    lines: list[str] = []
    leftovers.prune(cache, {MINE}, lines.append)
    return lines


@contextmanager
def running(*argv: str | Path) -> Iterator[None]:
    """A process that has printed its first line."""
    process = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "up\n"
        yield
    finally:
        process.kill()
        process.communicate()


def test_one_line_names_them_with_their_size_and_the_command(cache: Path) -> None:
    said = leftovers.advice(cache, {MINE})
    assert said == (
        f"no longer needed by this checkout: {HALF} (half-finished), {OLD} (3.0 GB); "
        "to remove them: python -m tools.engines.setup --prune"
    )
    assert leftovers.advice(cache, {MINE, OLD, HALF}) is None
    assert leftovers.advice(cache / "nowhere", {MINE}) is None


def test_they_are_removed_and_nothing_else_is(cache: Path) -> None:
    gone = [f"{HALF} (half-finished)", f"{OLD} (3.0 GB)"]
    assert prune(cache) == [f"removed {name}; 0.0 GB came free" for name in gone]
    assert {path.name for path in (cache / "envs").iterdir() if path.is_dir()} == {MINE, "my-notes"}
    assert sorted(path.name for path in (cache / "envs").glob("*.log")) == [f"{MINE}.log", f"{MINE}.verify.log"]
    assert prune(cache) == [f"every environment in {cache} belongs to this checkout"]


@pytest.mark.parametrize("damage", ["", "[]", "{}", '{"bytes": "many"}'])
def test_a_torn_marker_is_an_install_that_is_not_whole(cache: Path, damage: str) -> None:
    (cache / "envs" / OLD / "ready.json").write_text(damage)
    assert f"{OLD} (half-finished)" in str(leftovers.advice(cache, {MINE}))
    assert len(prune(cache)) == 2


def test_space_that_others_hold_too_is_not_said_to_come_free(cache: Path) -> None:
    inside, outside = cache / "envs" / OLD / "torch.so", cache / "in uv's cache"
    with inside.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 60_000_000)
    os.link(inside, cache / "envs" / OLD / "a second name in it")
    assert prune(cache)[1] == f"removed {OLD} (3.0 GB); 0.1 GB came free"
    make(cache, OLD)
    with inside.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 60_000_000)
    os.link(inside, outside)
    said = prune(cache)
    assert said[0] == f"removed {OLD} (3.0 GB); 0.0 GB came free"
    assert said[1].startswith("0.1 GB of it are in other environments or in uv's cache as well")
    assert outside.stat().st_size == 60_000_000


def test_one_that_a_run_has_claimed_stays_until_the_run_is_gone(cache: Path) -> None:
    folder = cache / "envs" / OLD
    code = (
        "import sys, time, pathlib; from tools.engines import leftovers; "
        "leftovers.claim(pathlib.Path(sys.argv[1])) and print('up', flush=True); time.sleep(60)"
    )
    with running(sys.executable, "-c", code, folder):
        assert prune(cache)[1] == f"kept {OLD} (3.0 GB): a run is using it"
        assert (folder / "library").exists()
    assert prune(cache) == [f"removed {OLD} (3.0 GB); 0.0 GB came free"]
    assert not leftovers.claim(folder)


def test_one_that_a_process_runs_from_stays(cache: Path) -> None:
    python = cache / "envs" / OLD / "bin" / "python"
    with running(python, "-ISc", "import time; print('up', flush=True); time.sleep(60)"):
        assert prune(cache)[1].startswith(f"kept {OLD} (3.0 GB): process ")
    assert python.exists()


def test_one_that_a_set_up_is_at_work_on_stays(cache: Path) -> None:
    with environments.only_one(cache / "envs" / HALF, lambda line: None):
        assert prune(cache)[0] == f"kept {HALF} (half-finished): a set-up is at work on it"
    assert (cache / "envs" / HALF).exists()


def front_door(cache: Path, *argv: str) -> str:
    """What the set-up prints."""
    command = [sys.executable, "-m", "tools.engines.setup", "--cache", str(cache), *argv]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return ended.stdout


def test_the_set_up_says_it_last_and_prune_keeps_what_this_checkout_names(tmp_path: Path) -> None:
    cache = tmp_path / "a cache"
    for name in environments.names(cache):
        make(cache, name)
    assert "no longer needed" not in front_door(cache, "--no-model")
    make(cache, OLD)
    last = front_door(cache, "--no-model").splitlines()[-1]
    assert last == (
        f"no longer needed by this checkout: {OLD} (3.0 GB); "
        f"to remove them: python -m tools.engines.setup --prune --cache '{cache}'"
    )
    assert front_door(cache, "--prune") == f"removed {OLD} (3.0 GB); 0.0 GB came free\n"
    assert {path.name for path in (cache / "envs").glob("*/")} == environments.names(cache)
    assert len(environments.names(cache)) == 4
