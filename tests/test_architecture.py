"""The rules of the house, read from the source itself: floors, imports, processes, settings, handlers, names."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FLOORS = ["memory", "tools", "nodes", "graph", "app"]
ENGINE_PACKAGES = {"torch", "transformers", "axolotl", "vllm", "lighteval", "peft", "trl"}
ENGINE_CODE = re.compile(r"tools/engines/\w+/\w+\.py")
"""Workers and what lies beside them run in the engine environments."""
FRONT_DOORS = {
    "app.py",
    "graph/run.py",
    "graph/__init__.py",
    "graph/studio.py",
    "tools/engines/setup.py",
    "tools/benchmarks/__main__.py",
}

SOURCES = sorted(
    path
    for floor in FLOORS
    for path in ([ROOT / "app.py"] if floor == "app" else (ROOT / floor).rglob("*.py"))
    if path.exists()
)
FILES = pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def floor_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


def imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


@FILES
def test_arrows_point_down(path: Path) -> None:
    above = set(FLOORS[FLOORS.index(floor_of(path)) + 1 :])
    roots = {module.split(".")[0] for module in imports(tree_of(path))}
    assert not roots & above


@FILES
def test_a_node_never_imports_a_node(path: Path) -> None:
    people = {f"nodes.{name}" for name in ("planner", "data_engineer", "validator", "trainer", "analyst")}
    if floor_of(path) == "nodes":
        assert not people & set(imports(tree_of(path)))


@FILES
def test_engines_stay_in_their_environments(path: Path) -> None:
    if not ENGINE_CODE.fullmatch(name_of(path)):
        assert not ENGINE_PACKAGES & {module.split(".")[0] for module in imports(tree_of(path))}


@FILES
def test_langgraph_stays_in_the_graph_and_the_checkpointer(path: Path) -> None:
    if floor_of(path) not in ("graph", "app") and name_of(path) != "memory/checkpointer.py":
        assert not any(module.split(".")[0] == "langgraph" for module in imports(tree_of(path)))


@FILES
def test_one_place_starts_processes(path: Path) -> None:
    starters = {"subprocess", "multiprocessing", "pty"}
    if name_of(path) in ("tools/process.py", "tools/supervisor.py") or ENGINE_CODE.fullmatch(name_of(path)):
        return
    tree = tree_of(path)
    assert not starters & {module.split(".")[0] for module in imports(tree)}
    calls = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not calls & {"fork", "execv", "execve", "execvp", "popen", "posix_spawn"}


@FILES
def test_settings_flow_down(path: Path) -> None:
    if name_of(path) in FRONT_DOORS | {"tools/process.py", "tools/supervisor.py"} or ENGINE_CODE.fullmatch(
        name_of(path)
    ):
        return
    reads = [
        node
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv")
    ]
    assert not reads


@FILES
def test_no_handler_swallows_everything(path: Path) -> None:
    if name_of(path) in {"app.py", "graph/run.py", "tools/engines/worker_io.py"}:
        return
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ExceptHandler):
            caught = (
                {each.id for each in ast.walk(node.type) if isinstance(each, ast.Name)} if node.type else {"Exception"}
            )
            reraises = any(isinstance(each, ast.Raise) for each in ast.walk(node))
            assert reraises or not caught & {"Exception", "BaseException"}, f"line {node.lineno}"


@FILES
def test_a_file_is_a_noun_that_says_what_lives_there(path: Path) -> None:
    assert path.stem not in {"utils", "helpers", "common", "manager", "base"}
    assert ast.get_docstring(tree_of(path)), "the first line says what lives there and why"


@FILES
def test_importing_does_nothing(path: Path) -> None:
    if name_of(path) == "graph/__init__.py" or path.name == "__main__.py":
        return
    for node in tree_of(path).body:
        call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        assert not call, f"line {node.lineno} runs at import"


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
