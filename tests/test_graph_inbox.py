"""The letter box: letters are whole, in order, and of two answers to one question only the first lies there."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from graph.inbox import drop, letters, remove
from memory.errors import InputError, StorageError
from memory.layout import RunFolder

ROOT = Path(__file__).parents[1]
WRITER = """
import sys
from pathlib import Path
from graph.inbox import drop
from memory.errors import InputError
from memory.layout import RunFolder
folder = RunFolder(Path(sys.argv[1]))
for number in range(20):
    drop(folder, f"{sys.argv[2]} {number}")
try:
    drop(folder, f"answer of {sys.argv[2]}", "plan 1")
    print("first")
except InputError as error:
    print(error)
"""


def test_many_writers_lose_nothing_and_one_answer_counts(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    argv = [sys.executable, "-c", WRITER, str(folder.root)]
    writers = [
        subprocess.Popen([*argv, name], cwd=ROOT, stdout=subprocess.PIPE, text=True) for name in ("anna", "bert")
    ]
    said = [writer.communicate()[0].strip() for writer in writers]
    lying = [one.letter for one in letters(folder)]
    for name in ("anna", "bert"):
        assert [one.text for one in lying if one.text.startswith(name)] == [f"{name} {n}" for n in range(20)]
    assert len({one.at for one in lying}) == len(lying)
    assert [one.at for one in lying] == sorted(one.at for one in lying)
    assert said.count("first") == 1
    assert any(line.startswith("that question has been answered already: 'answer of") for line in said)


def test_a_letter_is_thrown_away_once_while_others_look(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert letters(folder) == []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            letters(folder)

    looker = threading.Thread(target=look)
    looker.start()
    for _ in range(50):
        remove(drop(folder, "yes"))
    done.set()
    looker.join()
    assert letters(folder) == []


def test_two_questions_have_an_answer_each(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    first = drop(folder, "yes", "plan 1")
    drop(folder, "no", "plan 2")
    with pytest.raises(InputError, match="answered already: 'yes'"):
        drop(folder, "no", "plan 1")
    remove(first)
    drop(folder, "no", "plan 1")


def test_what_is_no_letter_is_named(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    drop(folder, "yes").path.write_text("{}")
    with pytest.raises(StorageError, match=r"000001\.json is not a readable Letter"):
        letters(folder)
