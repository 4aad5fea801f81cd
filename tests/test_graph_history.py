"""History tells what happened at each checkpoint; a fork goes on from one and leaves the old run alone."""

from __future__ import annotations

import hashlib
import shutil
import stat
from pathlib import Path

import pytest

from graph.edits import edit
from graph.fork import fork
from graph.history import Entry, common, history, lines, resolve, shortest_prefixes
from graph.runner import compiled, config_of, open_database, state_of
from graph.runs import past_events, read_state
from memory.errors import InputError, RunBusyError, StorageError
from memory.events import Events
from memory.layout import RunFolder, read_record
from memory.origin import read_origin
from memory.records import Plan, Task
from tests import example_run

RECIPE = "lora, learning rate 0.001, 2 epochs, 100 rows, batch 8, rank 16, cosine, seed 0"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = RunFolder(tmp_path_factory.mktemp("runs") / "old")
    example_run.play(folder)
    return folder


def entries_of(folder: RunFolder) -> list[Entry]:
    with open_database(folder) as database:
        return history(compiled(database), folder)


@pytest.fixture(scope="module")
def told(finished: RunFolder) -> list[Entry]:
    return entries_of(finished)


def before(entries: list[Entry], node: str, trial: int | None = None) -> str:
    """A checkpoint after which `node` comes, of that trial."""
    for entry in entries:
        if entry.following == node and (trial is None or f"trial {trial} " in entry.happened):
            return entry.checkpoint
    raise AssertionError(f"nothing before {node}")


def test_history_tells_what_happened_at_each_checkpoint(told: list[Entry]) -> None:
    assert [(entry.node, entry.happened, entry.following) for entry in told] == [
        (None, "begun: syllogism with smollm2, 30m, greedy search", "analyst"),
        ("analyst", "base model: 0.250 ± 0.100 zero-shot, 0.500 ± 0.100 5-shot (n=4)", "planner"),
        ("planner", f"trial 1 planned: {RECIPE}", "data_engineer"),
        ("data_engineer", "trial 1 data: 100 rows, 0 dropped", "validator"),
        ("validator", "trial 1 validated: 1 checks, 1m30s of training predicted", "trainer"),
        ("trainer", "trial 1 trained: 4 steps in 1m, loss 2.000 → 0.500", "analyst"),
        ("analyst", "trial 1 accepted: 0.500 (base few-shot) -> 0.750 (p=0.002)", "planner"),
        ("planner", f"trial 2 planned: {RECIPE}", "data_engineer"),
        ("data_engineer", "trial 2 data: 100 rows, 0 dropped", "validator"),
        ("validator", "trial 2 failed in validator: CONTAMINATION: 3 rows of validation in the data", "planner"),
        ("planner", "trial 3 planned: learning_rate: 0.001 → 0.003", "data_engineer"),
        ("data_engineer", "trial 3 data: 100 rows, 0 dropped", "validator"),
        ("validator", "trial 3 validated: 1 checks, 1m30s of training predicted", "trainer"),
        ("trainer", "trial 3 trained: 4 steps in 1m, loss 2.000 → 0.500", "analyst"),
        ("analyst", "trial 3 accepted: 0.500 (base few-shot) -> 1.000 (p=0.002)", "planner"),
        ("planner", "stopped: no trials left", "analyst"),
        (
            "analyst",
            "sealed test opened: base 0.250 ± 0.100, few-shot 0.500 ± 0.100, tuned 1.000 ± 0.100 (trial 3)",
            None,
        ),
    ]


def test_every_short_id_names_one_checkpoint(told: list[Entry]) -> None:
    for entry in told:
        assert resolve(told, entry.checkpoint, "old") == entry
    assert len({entry.checkpoint for entry in told}) == len(told)
    assert len(lines(told)) == len(told) + 1


def test_prefixes_are_short_and_unique() -> None:
    ids = sorted(["1f1ed1ff-dd9c-63", "1f1ed1ff-dd9b-64", "2f1ed1ff-dd9b-64"])
    assert shortest_prefixes(ids) == {ids[0]: ids[0][:13], ids[1]: ids[1][:13], ids[2]: ids[2][:8]}
    assert common("ab", "ab") == 2


def test_a_run_that_was_stopped_says_by_what(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "stopped")
    example_run.play(folder, steps=3)
    assert "then validator stopped the run" in entries_of(folder)[-1].happened


def fingerprint(folder: RunFolder) -> dict[str, tuple[str, int]]:
    """Content and mode of every file of a run but its lock, which names the last process that held it."""
    return {
        str(path.relative_to(folder.root)): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mode)
        for path in sorted(folder.root.rglob("*"))
        if path.is_file() and path.name != "run.lock"
    }


def test_a_fork_holds_what_its_state_speaks_of_and_leaves_the_old_run_alone(tmp_path: Path) -> None:
    old, new = RunFolder(tmp_path / "old"), RunFolder(tmp_path / "new")
    example_run.play(old)
    untouched, told = fingerprint(old), entries_of(old)
    fork(old, before(told, "validator", 3), [], new)
    assert fingerprint(old) == untouched
    assert entries_of(old) == told
    shutil.rmtree(old.root)

    state = read_state(new)
    assert [trial.number for trial in state["trials"]] == [1, 2]
    assert [entry.happened for entry in entries_of(new)] == [entry.happened for entry in told[:12]]
    assert entries_of(new)[-1].following == "validator"
    dataset, first = state["dataset"], state["trials"][0]
    assert dataset is not None
    assert first.training is not None
    assert first.score is not None
    for path in (dataset.path, first.score.outcomes, first.training.weights, "data/train.jsonl", "trials/3/plan.json"):
        assert new.resolve(path).exists(), path
    assert stat.S_IMODE((new.sealed / "test.jsonl").stat().st_mode) == 0o600
    assert stat.S_IMODE(new.sealed.stat().st_mode) == 0o700
    assert not new.resolve("trials/3/train").exists()
    assert not new.test.exists()
    with open_database(new) as database:
        assert database.rows("SELECT trial, decision FROM trials ORDER BY trial") == [(1, "accepted"), (2, "failed")]
        assert database.rows("SELECT run_id, spent_seconds FROM runs") == [("new", 110.0)]


def test_a_fork_can_change_the_pending_plan(finished: RunFolder, told: list[Entry], tmp_path: Path) -> None:
    new = RunFolder(tmp_path / "new")
    edits = [edit("plan.learning_rate=0.01"), edit("plan.rows=50"), edit("budget=1h")]
    fork(finished, before(told, "data_engineer", 3), edits, new)
    state = read_state(new)
    plan = state["plan"]
    assert plan is not None
    assert (plan.training.learning_rate, plan.data.rows, state["task"].budget.seconds) == (0.01, 50, 3600)
    assert state["task"].budget.max_trials == 5
    assert "set by hand" in plan.hypothesis
    assert plan.change is not None
    assert plan.change.factor == "several"
    assert read_record(new.task, Task) == state["task"]
    assert read_record(new.trial(3) / "plan.json", Plan) == plan
    origin = read_origin(new)
    assert origin is not None
    assert str(origin).startswith("old@")
    assert str(origin).endswith(", plan.learning_rate=0.01, plan.rows=50, budget=1h")
    assert read_origin(finished) is None
    last = entries_of(new)[-1]
    assert last.happened == (
        "edited by hand: budget 30m -> 1h00m; plan.rows 100 -> 50; plan.learning_rate 0.003 -> 0.01"
    )
    assert last.following == "data_engineer"
    assert [len(state["trials"]), state["spent_seconds"]] == [2, 100.0]


def test_a_fork_can_search_in_another_way(finished: RunFolder, told: list[Entry], tmp_path: Path) -> None:
    new = RunFolder(tmp_path / "new")
    fork(finished, before(told, "planner"), [edit("search=mcts")], new)
    assert read_state(new)["task"].planning.search == "mcts"
    assert entries_of(new)[-1].happened == "edited by hand: search greedy -> mcts"


def test_a_fork_of_a_fork(finished: RunFolder, told: list[Entry], tmp_path: Path) -> None:
    first, second = RunFolder(tmp_path / "first"), RunFolder(tmp_path / "second")
    fork(finished, before(told, "data_engineer", 1), [edit("plan.epochs=3")], first)
    fork(first, entries_of(first)[-1].checkpoint, [edit("plan.epochs=4")], second)
    plan = read_state(second)["plan"]
    assert plan is not None
    assert plan.training.epochs == 4
    assert entries_of(second)[-1].following == "data_engineer"


def test_the_first_checkpoint_takes_another_seed_and_draws_its_own_splits(
    finished: RunFolder, told: list[Entry], tmp_path: Path
) -> None:
    new = RunFolder(tmp_path / "new")
    fork(finished, told[0].checkpoint, [edit("seed=7")], new)
    assert read_state(new)["task"].seed == 7
    assert entries_of(new)[-1].following == "analyst"
    assert not new.data.exists()


def test_a_fork_runs_on_along_the_routes(finished: RunFolder, told: list[Entry], tmp_path: Path) -> None:
    new = RunFolder(tmp_path / "new")
    fork(finished, before(told, "planner"), [edit("max_trials=2")], new)
    with open_database(new) as database:
        graph = compiled(database)
        graph.update_state(config_of(new), {"plan": example_run.plan(1)}, as_node="planner")
        assert graph.get_state(config_of(new)).next == ("data_engineer",)
        assert state_of(graph, new)["task"].budget.max_trials == 2


@pytest.mark.parametrize(
    ("node", "trial", "change", "says"),
    [
        ("validator", 3, "plan.rows=10", "plan.rows cannot be changed before validator"),
        ("trainer", 3, "plan.epochs=1", "plan.epochs cannot be changed before trainer"),
        ("planner", None, "plan.epochs=1", "plan.epochs cannot be changed before planner"),
        ("trainer", 3, "budget=5s", "a budget of 5s is spent: the run had used 2m by then"),
        ("trainer", 3, "max_trials=2", "max_trials=2 is less than the 3 trials"),
        ("trainer", 3, "seed=4", "seed drew the splits"),
        ("data_engineer", 3, "sample_cap=10", "Add --set plan.rows=10"),
        ("data_engineer", 3, "plan.batch_size=4", "Add --set plan.micro_batch=4"),
    ],
)
def test_an_edit_that_cannot_work_is_refused(
    finished: RunFolder, told: list[Entry], tmp_path: Path, node: str, trial: int | None, change: str, says: str
) -> None:
    new = RunFolder(tmp_path / "new")
    with pytest.raises(InputError) as refused:
        fork(finished, before(told, node, trial), [edit(change)], new)
    assert says in str(refused.value)
    assert not new.root.exists()


def test_nothing_can_be_changed_after_the_planner_stopped(
    finished: RunFolder, told: list[Entry], tmp_path: Path
) -> None:
    stopped, end = (entry.checkpoint for entry in told[-2:])
    for checkpoint, edits in ((stopped, [edit("budget=9h")]), (end, [])):
        with pytest.raises(InputError, match="earlier"):
            fork(finished, checkpoint, edits, RunFolder(tmp_path / "new"))


def test_an_unknown_checkpoint_is_refused_with_the_way_out(
    finished: RunFolder, told: list[Entry], tmp_path: Path
) -> None:
    known = told[3].checkpoint
    with pytest.raises(InputError, match="Did you mean"):
        fork(finished, known[:-1] + "x", [], RunFolder(tmp_path / "new"))
    with pytest.raises(InputError, match="checkpoints of old start with"):
        fork(finished, known[:4], [], RunFolder(tmp_path / "new"))


def test_a_busy_run_is_refused_in_one_line(finished: RunFolder, tmp_path: Path) -> None:
    with open_database(finished), pytest.raises(RunBusyError):
        fork(finished, "1", [], RunFolder(tmp_path / "new"))


def test_a_fork_that_cannot_be_finished_leaves_nothing(tmp_path: Path) -> None:
    old, new = RunFolder(tmp_path / "old"), RunFolder(tmp_path / "new")
    example_run.play(old, steps=8)
    checkpoint = entries_of(old)[-1].checkpoint
    shutil.rmtree(old.root / "trials" / "1")
    with pytest.raises(StorageError, match="missing"):
        fork(old, checkpoint, [], new)
    assert not new.root.exists()


def test_a_fork_knows_the_events_up_to_its_checkpoint_and_no_later_ones(tmp_path: Path) -> None:
    old, new = RunFolder(tmp_path / "old"), RunFolder(tmp_path / "new")
    Events(old.events).emit("note", "long ago")
    example_run.play(old, steps=2)
    Events(old.events).emit("note", "later")
    old.events.open("a").write('{"half')
    fork(old, entries_of(old)[-1].checkpoint, [edit("plan.epochs=3")], new)
    words = [event.says for event in past_events(new)]
    assert words[0] == "long ago"
    assert words[1].startswith("forked from old@")
    assert words[1].endswith("plan.epochs=3")
    Events(new.events).emit("note", "only here")
    assert "only here" not in old.events.read_text()
