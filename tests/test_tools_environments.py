"""Environments: installed once, repaired when half-finished, refused in one line when they cannot be had."""

from __future__ import annotations

import base64
import hashlib
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from memory.errors import InputError, SetupError
from tools.engines import environments, leftovers
from tools.engines.environments import Spec

SLOW = "import time, pathlib; pathlib.Path('verifying').touch(); time.sleep(60)"


def make_wheel(folder: Path) -> None:
    """A pure-Python package `tiny` 1.0 with one module."""
    files = {
        "tiny.py": "answer = 42\n",
        "tiny-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
        "tiny-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip('=')},{len(text)}\n"
        for name, text in files.items()
    )
    with zipfile.ZipFile(folder / "tiny-1.0-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
        wheel.writestr("tiny-1.0.dist-info/RECORD", record + "tiny-1.0.dist-info/RECORD,,\n")


@pytest.fixture
def tiny(tmp_path: Path) -> Spec:
    """An environment of one package that lies in a folder: no network needed."""
    make_wheel(tmp_path)
    lock = tmp_path / "lock.txt"
    lock.write_text(f"# comment\n--no-index\n--find-links {tmp_path}\ntiny==1.0\n")
    return Spec("tiny", lock, "import tiny; assert tiny.answer == 42", 0.001)


def ensure(spec: Spec, cache: Path, verify: bool = False) -> list[str]:
    """The lines that a set-up says."""
    lines: list[str] = []
    environment = environments.ensure(spec, cache, lines.append, verify=verify)
    assert subprocess.run([environment.python, "-c", spec.verify]).returncode == 0
    return lines


def test_installs_once_and_then_does_nothing(tiny: Spec, tmp_path: Path) -> None:
    lines = ensure(tiny, tmp_path / "cache")
    assert lines[0] == "tiny environment: installing 1 packages ..."
    assert lines[1].startswith("tiny environment: installed in ")
    (log,) = (tmp_path / "cache" / "envs").glob("*.verify.log")
    verified = log.stat().st_mtime_ns
    environments.ensure(tiny, tmp_path / "cache", lines.append)
    assert len(lines) == 2
    assert log.stat().st_mtime_ns == verified


def test_another_lock_file_is_another_environment(tiny: Spec, tmp_path: Path) -> None:
    before = environments.folder_of(tiny, tmp_path)
    tiny.lock.write_text(tiny.lock.read_text() + "# changed\n")
    assert environments.folder_of(tiny, tmp_path) != before


def test_a_set_up_killed_half_way_is_repaired(tiny: Spec, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    slow = Spec(tiny.name, tiny.lock, SLOW, tiny.gigabytes)
    code = (
        "from pathlib import Path; from tools.engines.environments import Spec, ensure\n"
        f"ensure(Spec('tiny', Path({str(slow.lock)!r}), {SLOW!r}, 0.001), Path({str(cache)!r}), print)"
    )
    victim = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.getcwd()})
    folder = environments.folder_of(slow, cache)
    while not (folder / "verifying").exists():
        assert victim.poll() is None
        time.sleep(0.05)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    assert environments.installed(tiny, cache) is None
    assert ensure(tiny, cache)[0] == "tiny environment: found an install that is not whole; starting over"
    assert ensure(tiny, cache) == []


def test_a_torn_marker_or_a_lost_interpreter_is_repaired(tiny: Spec, tmp_path: Path) -> None:
    ensure(tiny, tmp_path)
    folder = environments.folder_of(tiny, tmp_path)
    (folder / "ready.json").write_text('{"name": "ti')
    assert "starting over" in ensure(tiny, tmp_path)[0]
    for name in ("python", "python3", "python3.11"):
        (folder / "bin" / name).unlink(missing_ok=True)
    assert "starting over" in ensure(tiny, tmp_path)[0]


def test_verify_notices_a_missing_module_and_repairs_it(tiny: Spec, tmp_path: Path) -> None:
    ensure(tiny, tmp_path)
    next(environments.folder_of(tiny, tmp_path).rglob("tiny.py")).unlink()
    lines = ensure(tiny, tmp_path, verify=True)
    assert "No module named 'tiny'" in lines[0]
    assert ensure(tiny, tmp_path, verify=True) == ["tiny environment: verified in 0 s"]


def test_a_package_that_cannot_be_had_is_one_line_with_its_name(tiny: Spec, tmp_path: Path) -> None:
    tiny.lock.write_text(tiny.lock.read_text() + "tinier==2.0\n")
    with pytest.raises(SetupError, match="tinier") as caught:
        environments.ensure(tiny, tmp_path / "cache", lambda line: None)
    assert "\n" not in str(caught.value)
    assert environments.installed(tiny, tmp_path / "cache") is None


def test_one_that_was_removed_is_installed_anew_and_one_in_use_is_not_removed(tiny: Spec, tmp_path: Path) -> None:
    lines: list[str] = []
    code = (
        "from pathlib import Path; from tools.engines.environments import Spec, ensure\n"
        f"ensure(Spec('tiny', Path({str(tiny.lock)!r}), {tiny.verify!r}, 0.001), Path({str(tmp_path)!r}), print)"
    )
    folder = environments.folder_of(tiny, tmp_path)
    for _ in range(2):  # each process is gone before the environment is removed, and with it the claim
        leftovers.prune(tmp_path, (), lines.append)
        assert not folder.exists()
        subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.getcwd()}, check=True)
    assert lines[-1].startswith(f"removed {folder.name} ")
    assert ensure(tiny, tmp_path) == [], "it is there already"
    leftovers.prune(tmp_path, (), lines.append)
    assert lines[-1].startswith(f"kept {folder.name} ")
    assert lines[-1].endswith("a run is using it")


def test_an_import_that_fails_leaves_no_marker(tiny: Spec, tmp_path: Path) -> None:
    wrong = Spec(tiny.name, tiny.lock, "import absent", tiny.gigabytes)
    with pytest.raises(SetupError, match="No module named 'absent'"):
        environments.ensure(wrong, tmp_path, lambda line: None)
    assert environments.installed(wrong, tmp_path) is None


def test_too_little_space_is_said_before_anything_is_done(tiny: Spec, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"needs 9000000.0 GB of disk space") as caught:
        environments.ensure(Spec("tiny", tiny.lock, "", 9e6), tmp_path, lambda line: None)
    assert "TUNEWRIGHT_CACHE" in caught.value.way_out
    assert not environments.folder_of(tiny, tmp_path).exists()


def test_pip_settings_reach_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", "/some/wheels /other/wheels")
    monkeypatch.delenv("UV_FIND_LINKS", raising=False)
    assert environments.pip_settings()["UV_FIND_LINKS"] == "/some/wheels,/other/wheels"
    monkeypatch.setenv("UV_FIND_LINKS", "/mine")
    assert "UV_FIND_LINKS" not in environments.pip_settings()


@pytest.mark.parametrize("hardware", ["cpu", "cuda"])
def test_the_lock_files_pin_every_line_and_name_no_source(hardware: environments.Hardware) -> None:
    for spec in environments.specs(hardware).values():
        assert len(environments.pinned(spec.lock)) > 50
        assert "://" not in spec.lock.read_text()


def test_where_the_cache_lies(tmp_path: Path) -> None:
    assert environments.cache_folder({"TUNEWRIGHT_CACHE": str(tmp_path)}) == tmp_path
    assert environments.cache_folder({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "tunewright"
    assert environments.cache_folder({}) == Path.home() / ".cache" / "tunewright"
