"""The rules of the house, read from the source itself: floors, imports, processes, settings, handlers, names.

A rule looks at every file, and its test names all that break it, with file and line.
"""

import ast
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FLOORS = ["memory", "tools", "nodes", "graph", "app"]
ENGINE_PACKAGES = {"torch", "transformers", "axolotl", "vllm", "lighteval", "peft", "trl"}
ENGINE_CODE = re.compile(r"tools/engines/\w+/\w+\.py")
"""Workers and what lies beside them run in the engine environments."""
PROCESS_CODE = {"tools/process.py", "tools/supervisor.py"}
FRONT_DOORS = {
    "app.py",
    "graph/run.py",
    "graph/mcp.py",
    "graph/__init__.py",
    "graph/studio.py",
    "graph/dojo/__main__.py",
    "tools/cluster/bench.py",
    "tools/engines/setup.py",
    "tools/benchmarks/__main__.py",
}


@dataclass(frozen=True)
class Source:
    """One file, parsed once for all rules."""

    path: Path

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    @property
    def floor(self) -> str:
        return self.path.relative_to(ROOT).parts[0].removesuffix(".py")

    @property
    def engine_code(self) -> bool:
        return ENGINE_CODE.fullmatch(self.name) is not None

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.path.read_text(), filename=str(self.path))

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @cached_property
    def imports(self) -> list[tuple[int, str]]:
        """Line and full name of everything that is imported, wherever it stands."""
        found: list[tuple[int, str]] = []
        for node in self.nodes:
            if isinstance(node, ast.Import):
                found += [(node.lineno, alias.name) for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
        return found

    def imports_of(self, packages: Collection[str]) -> Iterator[tuple[int, str]]:
        return ((line, f"imports {name}") for line, name in self.imports if name.split(".")[0] in packages)

    def attributes(self, names: Collection[str]) -> Iterator[tuple[int, str]]:
        found = (node for node in self.nodes if isinstance(node, ast.Attribute) and node.attr in names)
        return ((node.lineno, f"uses .{node.attr}") for node in found)


SOURCES = [
    Source(path)
    for floor in FLOORS
    for path in ([ROOT / "app.py"] if floor == "app" else sorted((ROOT / floor).rglob("*.py")))
    if path.exists()
]

Rule = Callable[[Source], Iterator[tuple[int, str]]]
"""What breaks a rule in one file: line, and what stands there."""


def hold(rule: Rule) -> None:
    """Fail with everything that breaks a rule, a line each."""
    found = [f"{source.name}:{line} {what}" for source in SOURCES for line, what in rule(source)]
    if found:
        pytest.fail("\n".join(found), pytrace=False)


def test_the_rules_see_the_house() -> None:
    assert {source.floor for source in SOURCES} >= {"memory", "tools", "nodes", "graph"}
    assert len(SOURCES) > 80


def test_arrows_point_down() -> None:
    def rule(source: Source) -> Iterator[tuple[int, str]]:
        return source.imports_of(FLOORS[FLOORS.index(source.floor) + 1 :])

    hold(rule)


def test_a_node_never_imports_a_node() -> None:
    people = re.compile(r"nodes\.(planner|data_engineer|validator|trainer|analyst)(\..+)?")

    def rule(source: Source) -> Iterator[tuple[int, str]]:
        if source.floor == "nodes":
            yield from ((line, f"imports {name}") for line, name in source.imports if people.fullmatch(name))

    hold(rule)


def test_engines_stay_in_their_environments() -> None:
    def rule(source: Source) -> Iterator[tuple[int, str]]:
        if not source.engine_code:
            yield from source.imports_of(ENGINE_PACKAGES)

    hold(rule)


def test_langgraph_stays_in_the_graph_and_the_checkpointer() -> None:
    def rule(source: Source) -> Iterator[tuple[int, str]]:
        if source.floor not in ("graph", "app") and source.name != "memory/checkpointer.py":
            yield from source.imports_of({"langgraph"})

    hold(rule)


def test_one_place_starts_processes() -> None:
    starters = {"fork", "execv", "execve", "execvp", "popen", "posix_spawn"}

    def rule(source: Source) -> Iterator[tuple[int, str]]:
        if source.name not in PROCESS_CODE and not source.engine_code:
            yield from source.imports_of({"subprocess", "multiprocessing", "pty"})
            yield from source.attributes(starters)

    hold(rule)


def test_settings_flow_down() -> None:
    def rule(source: Source) -> Iterator[tuple[int, str]]:
        if source.name not in FRONT_DOORS | PROCESS_CODE and not source.engine_code:
            yield from source.attributes({"environ", "getenv"})

    hold(rule)


def test_no_handler_swallows_everything() -> None:
    # The sandbox's child answers with whatever a person's function raises; a worker reports it and ends.
    boundaries = {"app.py", "graph/run.py", "tools/engines/worker_io.py", "tools/sandbox/child.py"}

    def rule(source: Source) -> Iterator[tuple[int, str]]:
        for node in source.nodes:
            if isinstance(node, ast.ExceptHandler) and source.name not in boundaries:
                names = ast.walk(node.type) if node.type else [ast.Name("Exception")]
                caught = {each.id for each in names if isinstance(each, ast.Name)}
                raises = any(isinstance(each, ast.Raise) for each in ast.walk(node))
                if caught & {"Exception", "BaseException"} and not raises:
                    yield node.lineno, "catches everything and raises nothing"

    hold(rule)


def test_a_file_is_a_noun_that_says_what_lives_there() -> None:
    def rule(source: Source) -> Iterator[tuple[int, str]]:
        if source.path.stem in {"utils", "helpers", "common", "manager", "base"}:
            yield 1, "is a name that says nothing"
        if not ast.get_docstring(source.tree):
            yield 1, "does not say what lives there and why"

    hold(rule)


def test_importing_does_nothing() -> None:
    def rule(source: Source) -> Iterator[tuple[int, str]]:
        if source.name != "graph/__init__.py" and source.path.name != "__main__.py":
            for node in source.tree.body:
                if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                    yield node.lineno, "runs at import"

    hold(rule)


def test_no_state_field_is_untyped() -> None:
    source = (ROOT / "memory" / "state.py").read_text()
    assert not re.search(r":\s*(Any|dict)\b", source)


def test_the_top_level_holds_what_the_design_names() -> None:
    allowed = {
        "graph",
        "nodes",
        "tools",
        "memory",
        "tests",
        "docs",
        "examples",
        "app.py",
        "pyproject.toml",
        "README.md",
    }
    allowed |= {"Makefile", "langgraph.json", "CHANGELOG.md", "LICENSE", "runs"}
    found = {path.name for path in ROOT.iterdir() if not path.name.startswith((".", "__"))}
    assert found <= allowed | {name for name in found if name.endswith(".egg-info")}
