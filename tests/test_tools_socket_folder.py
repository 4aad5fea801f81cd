"""The socket's folder: private, gone with its owner, and cleared away after an owner that was killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
HEAD = "import os, signal, sys\nfrom tools.socket_folder import SocketFolder, remove_abandoned\n"


def python(place: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process whose temporary directory is `place`."""
    argv = [sys.executable, "-c", HEAD + code]
    env = {**os.environ, "TMPDIR": str(place)}
    return subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def test_folders_of_killed_owners_are_removed_and_those_of_the_living_stay(tmp_path: Path) -> None:
    killed = python(tmp_path, "print(SocketFolder().path); sys.stdout.flush(); os.kill(os.getpid(), signal.SIGKILL)")
    assert Path(killed.stdout.strip()).exists()
    unlocked = tmp_path / "tunewright-server-unlocked"
    unlocked.mkdir()
    code = """
living = SocketFolder()
remove_abandoned()
assert os.listdir(os.environ["TMPDIR"]) == [living.path.name]
living.remove()
living.remove()
assert os.listdir(os.environ["TMPDIR"]) == []
"""
    ended = python(tmp_path, code)
    assert ended.returncode == 0, ended.stderr


def test_what_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "lock").touch()
    (tmp_path / "tunewright-server-link").symlink_to(precious)
    (tmp_path / "tunewright-server-file").touch()
    full = tmp_path / "tunewright-server-without-a-lock"
    full.mkdir()
    (full / "something").touch()
    foreign = tmp_path / "tunewright-server-foreign"
    foreign.mkdir()
    (foreign / "lock").touch()
    if os.geteuid() == 0:
        os.chown(foreign, 12345, 12345)
    else:
        foreign.rename(tmp_path / "foreign")
    before = sorted(tmp_path.rglob("*"))
    assert python(tmp_path, "remove_abandoned()").returncode == 0
    assert sorted(tmp_path.rglob("*")) == before


def test_starts_at_the_same_time_do_not_take_each_others_folder_for_abandoned(tmp_path: Path) -> None:
    code = """
from concurrent.futures import ThreadPoolExecutor
sys.setswitchinterval(1e-6)
def start(_):
    folder = SocketFolder()
    remove_abandoned()
    there = (folder.path / "lock").exists()
    folder.remove()
    return there
with ThreadPoolExecutor(8) as pool:
    assert all(pool.map(start, range(400)))
"""
    ended = python(tmp_path, code)
    assert ended.returncode == 0, ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_path_too_long_for_a_socket_is_one_line_with_a_way_out(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    ended = python(deep, "SocketFolder()")
    assert "is too long for a socket. Set TMPDIR to a short folder" in ended.stderr
    assert list(deep.iterdir()) == []
