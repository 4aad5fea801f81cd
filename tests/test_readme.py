"""README and tree tell the truth: the tree names every file, the commands exist, the SQL runs."""

import re
import shlex
from pathlib import Path
from typing import get_args

import pytest

from graph.arguments import parse
from graph.settings import Action
from memory.database import Database
from memory.layout import RunFolder
from memory.ledger import LEDGER_SCHEMA, Ledger
from tests import example_run

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
TREE = (ROOT / "docs/tree.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_tree_names_every_source_file_and_nothing_else() -> None:
    (tree,) = re.findall(r"```text\n(.*?)```", TREE, re.DOTALL)
    shown: set[str] = set()
    folder: list[str] = []
    for line in tree.splitlines():
        name = line.split()[0] if line.strip() else ""
        depth = (len(line) - len(line.lstrip())) // 2
        folder = folder[:depth]
        if name.endswith("/"):
            folder.append(name)
        elif name:
            shown.add("".join(folder) + name)
    floors = ("graph", "nodes", "tools", "memory")
    there = {
        str(path.relative_to(ROOT))
        for floor in floors
        for path in (ROOT / floor).rglob("*.py")
        if path.name != "__init__.py"
    }
    assert {name for name in shown if name.startswith(floors) and name.endswith(".py")} == there


def test_every_make_target_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"(?:^|`)make ([a-z-]+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("line", re.findall(r"^python -m graph\.run (.+?)(?:\s+#.*)?$", README, re.MULTILINE))
def test_every_command_line_parses(line: str, tmp_path: Path) -> None:
    assert parse(shlex.split(line), {"HOME": str(tmp_path)}).action in get_args(Action)


def test_the_queries_run(tmp_path: Path) -> None:
    queries = [query for block in blocks("sql") for query in block.split(";") if query.strip()]
    assert len(queries) == 3
    folder = RunFolder(tmp_path / "run")
    with Database.open(folder.database, [LEDGER_SCHEMA]) as database:
        Ledger(database, folder).rebuild(example_run.finished(folder))
        for query in queries:
            assert database.rows(query), query
