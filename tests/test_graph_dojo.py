"""The dojo: the arithmetic of its table on cells made by hand, and whole small dojos with quick engines."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from math import sqrt
from pathlib import Path

import pytest

from graph.dojo.__main__ import main, parse
from graph.dojo.cells import Failed, Measured, Shown, all_measured, record_of, remove_weights, shown, task_of
from graph.dojo.grid import TASKS, USUAL, Cell, Method, grid
from graph.dojo.table import against, best, blocks_of, pooled, rows_of
from graph.dojo.text import aims, losses, markdown
from memory.errors import InputError
from memory.layout import RunFolder, made, read_record, write_record
from memory.records import Budget
from tests import example_run
from tools.statistics import mcnemar

ROOT = Path(__file__).parents[1]
ITEMS = 40
BASE0, BASE_FEW = 4, 8
"""Items that the untouched model has right, of ITEMS."""


def cell(
    root: Path, method: Method, right: int | None, *, task: str = "aiw", seed: int = 0, few: int = BASE_FEW
) -> Measured:
    """A finished cell whose handed-over model has the first `right` items right; None: nothing was accepted. Its run
    lies in `root`, its record in `root/dojo`."""
    one = Cell(task=task, seed=seed, method=method)
    folder = one.folder(root)

    def score(place: str, count: int, shots: int = 0) -> Shown:
        answers = [int(number < count) for number in range(ITEMS)]
        share = count / ITEMS
        made_up = example_run.score(folder, place, answers, split="test", shots=shots)
        stderr = sqrt(share * (1 - share) / (ITEMS - 1))
        return shown(made_up.model_copy(update={"stderr": stderr}), folder)

    measured = Measured(
        cell=one,
        metric="accuracy",
        higher_is_better=True,
        base_model="smollm2",
        base_sha256="b",
        test_sha256=f"{task} {seed}",
        zero_shot=score("test/base/zero_shot", BASE0),
        few_shot=score("test/base/few_shot", few, shots=5),
        tuned=None if right is None else score("test/tuned/tuned", right),
        winner=None if right is None else 2,
        better_shots=5,
        trials=3,
        scored_trials=2,
        budget=Budget(seconds=600),
        seconds=580.0,
        processors="2 x Epyc",
        tokens_per_second=298.7,
        stopped_because="the time is spent",
        proposers_sha256="p",
    )
    write_record(record_of(one, root / "dojo"), measured)
    return measured


def three(root: Path, rights: Sequence[int | None], task: str = "aiw", seed: int = 0) -> list[Measured]:
    """The cells of one task and seed, in the order of USUAL."""
    return [cell(root, method, right, task=task, seed=seed) for method, right in zip(USUAL, rights, strict=True)]


# --- the table --------------------------------------------------------------------------------------------------------


def test_the_rows_hold_what_a_program_needs(tmp_path: Path) -> None:
    blocks = blocks_of(three(tmp_path, (20, 36, 30)))
    rows = {row.method: row for row in rows_of(blocks)}
    assert list(rows) == ["base0", "base_few", "default_sft", "random_search", "search"]
    assert [rows[name].value for name in rows] == [0.1, 0.2, 0.5, 0.9, 0.75]
    ours = rows["search"]
    assert (ours.task, ours.seed, ours.metric, ours.n, ours.seconds, ours.trials) == ("aiw", 0, "exact", 40, 580, 3)
    assert ours.p_against_base_better == mcnemar(22, 0)
    assert ours.p_against_default == mcnemar(10, 0)
    assert ours.p_against_random == mcnemar(0, 6)
    assert (rows["default_sft"].p_against_base_better, rows["default_sft"].p_against_random) == (mcnemar(12, 0), None)
    assert rows["base0"].p_against_base_better is None
    assert best(blocks) == {"random_search"}


def test_a_method_without_an_accepted_trial_hands_over_the_prompt_that_was_better_on_validation(tmp_path: Path) -> None:
    blocks = blocks_of(three(tmp_path, (20, 36, None)))
    ours = rows_of(blocks)[-1]
    assert (ours.value, ours.handed_over, ours.p_against_base_better) == (BASE_FEW / ITEMS, "base, 5-shot", 1.0)
    text = "\n".join(losses(blocks))
    assert "aiw: ours ties with base_few, 0.200 and 0.200" in text
    assert "aiw: ours loses to default_sft, 0.200 and 0.500" in text
    assert "aiw: ours loses to random_search" in text


def test_losses_ties_and_missing_significance_are_named(tmp_path: Path) -> None:
    cells = [
        *three(tmp_path, (30, 30, 36), task="aiw"),
        *three(tmp_path, (20, 24, 20), task="syllogism"),
        *three(tmp_path, (4, 5, 10), task="spell_backward"),
    ]
    blocks = blocks_of(cells)
    assert [block.task for block in blocks] == ["syllogism", "aiw", "spell_backward"]
    highest, base, default, random = aims(blocks)
    assert (highest.tasks, highest.of, highest.goal) == (("aiw", "spell_backward"), 3, 5)
    assert base.tasks == ("syllogism", "aiw")
    assert default.tasks == ("aiw", "spell_backward")
    assert random.goal is None
    named = losses(blocks)
    assert len(named) == 3
    assert "syllogism: ours ties with default_sft" in named[0]
    assert "syllogism: ours loses to random_search, 0.500 and 0.600 (-0.100" in named[1]
    assert "spell_backward: ours is not shown to be above base_few (+0.050" in named[2]
    text = markdown(blocks, [], [])
    assert "**0.900 ± 0.048**" in text
    assert "| syllogism-0-search | 580 | 299 | 3 (2 scored) |" in text
    assert "on 2 of 3 tasks (aim: 5 of 6): aiw, spell_backward" in text
    assert "agree on the base rows" in text
    assert "What is missing" not in text


def test_other_strategies_of_search_get_columns_of_their_own(tmp_path: Path) -> None:
    cells = [*three(tmp_path, (20, 24, 30)), cell(tmp_path, "mcts", 36)]
    blocks = blocks_of(cells)
    text = markdown(blocks, [], [])
    assert "| task | base0 | base_few | default_sft | random_search | search | mcts | n |" in text
    assert "--methods default_sft random_search search mcts" in text
    assert "| search minus | base, better row | default_sft | random_search | mcts |" in text
    assert "`best_first` and `mcts` are the same proposer" in text
    assert rows_of(blocks)[-1].method == "mcts"
    assert aims(blocks)[0].tasks == ("aiw",), "the aim was set before there were other strategies"
    assert "aiw: ours loses to mcts" in "\n".join(losses(blocks))


def test_a_cell_of_a_strategy_is_a_run_with_that_strategy() -> None:
    for method, strategy in (("search", "greedy"), ("best_first", "best-first"), ("mcts", "mcts")):
        one = Cell.model_validate({"task": "aiw", "seed": 0, "method": method})
        planning = task_of(one, Budget(seconds=600)).planning
        assert (one.name, planning.search, planning.recall) == (f"aiw-0-{method}", strategy, False)


def test_the_records_of_the_project_can_be_read() -> None:
    found = all_measured(ROOT / "docs/dojo")
    assert len(found) == len(list((ROOT / "docs/dojo").glob("*.json")))
    assert "mcts" not in markdown(blocks_of(found), [], [])


def test_less_can_be_better(tmp_path: Path) -> None:
    cells = [one.model_copy(update={"higher_is_better": False}) for one in three(tmp_path, (20, 12, 2))]
    blocks = blocks_of(cells)
    assert best(blocks) == {"search"}
    comparison = against(blocks, "search", "default_sft")
    assert comparison is not None
    assert comparison.difference > 0
    assert rows_of(blocks)[-1].p_against_base_better == mcnemar(2, 0)


def test_seeds_are_pooled_with_an_error_over_items_and_seeds(tmp_path: Path) -> None:
    alike = [*three(tmp_path, (20, 20, 30)), *three(tmp_path, (20, 20, 30), seed=1)]
    blocks = blocks_of(alike)
    one, both = pooled(blocks[:1], "search"), pooled(blocks, "search")
    assert one is not None
    assert both is not None
    assert (both.value, both.n) == (0.75, 80)
    assert both.stderr == pytest.approx(one.stderr / sqrt(2))  # seeds add nothing that can be seen
    comparison = against(blocks, "search", "default_sft")
    assert comparison is not None
    assert (comparison.n, comparison.p_value) == (80, mcnemar(20, 0))

    apart = [*three(tmp_path, (20, 20, 10)), *three(tmp_path, (20, 20, 38), seed=1)]
    blocks = blocks_of(apart)
    far = pooled(blocks, "search")
    assert far is not None
    assert far.stderr == pytest.approx((0.95 - 0.25) / 2)  # sd / sqrt(2) of two values
    text = markdown(blocks, [], [])
    assert "| aiw, seed 0 |" in text
    assert "| aiw, 2 seeds | 0.100" in text
    assert "sqrt(max(v, w) / k)" in text


def test_a_partial_table_says_what_is_missing(tmp_path: Path) -> None:
    measured = cell(tmp_path, "search", 30)
    wanted = grid(["aiw"], [0], USUAL)
    failed = Failed(cell=wanted[0], reason="the server died")
    text = markdown(blocks_of([measured]), [failed], [wanted[1]])
    assert "aiw-0-default_sft failed: the server died" in text
    assert "aiw-0-random_search has not been run to its end" in text
    assert "| aiw, seed 0 | 0.100 ± 0.048 | 0.200 ± 0.064 | missing | missing | **0.750 ± 0.069** | 40 |" in text
    assert "on 0 of 0 tasks (aim: 5 of 6)" in text
    assert losses(blocks_of([cell(tmp_path, "default_sft", 20)])) == ["aiw: ours is missing."]


def test_base_rows_that_differ_are_named(tmp_path: Path) -> None:
    cells = [cell(tmp_path, "default_sft", 20, few=7), cell(tmp_path, "search", 30)]
    text = markdown(blocks_of(cells), [], [])
    assert "base_few differs between aiw-0-search (0.200) and aiw-0-default_sft (0.175): 1 of 40 items" in text
    assert "agree on the base rows" not in text


def test_cells_that_do_not_compare_are_refused(tmp_path: Path) -> None:
    first, second, _ = three(tmp_path, (20, 20, 30))
    for update in ({"budget": Budget(seconds=900)}, {"base_sha256": "other"}, {"test_sha256": "other"}):
        with pytest.raises(InputError, match="aiw-0-default_sft and aiw-0-random_search differ in"):
            blocks_of([first, second.model_copy(update=update)])


def test_overruns_other_processors_and_two_versions_of_a_proposer_are_named(tmp_path: Path) -> None:
    first, second, third = three(tmp_path, (20, 20, 30))
    other = cell(tmp_path, "search", 30, task="syllogism").model_copy(update={"proposers_sha256": "q"})
    second = second.model_copy(update={"processors": "2 x Xeon", "tokens_per_second": 200.0})
    cells = [first, second, third.model_copy(update={"seconds": 700.0}), other]
    text = markdown(blocks_of(cells), [], [])
    assert "aiw-0-search took 700 s of 600 s" in text
    assert "The cells of search were measured with 2 versions" in text
    assert "aiw, seed 0: the methods ran on different processors (2 x Epyc, 2 x Xeon)." in text
    assert "aiw, seed 0: trained at 200 to 299 tokens a second." in text


def test_weights_of_a_finished_cell_go_and_its_model_stays(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "aiw-0-search")
    whole, adapter = folder.trial(1) / "train/weights/model.safetensors", folder.trial(1) / "train/adapter"
    made(whole.parent)
    made(adapter)
    made(folder.model)
    whole.write_text("weights")
    (adapter / "adapter_model.safetensors").write_text("adapter")
    os.link(whole, folder.model / "model.safetensors")
    remove_weights(folder)
    assert not whole.exists()
    assert (folder.model / "model.safetensors").read_text() == "weights"
    assert (adapter / "adapter_model.safetensors").exists()


# --- the command line -------------------------------------------------------------------------------------------------


def test_the_defaults_are_six_tasks_one_seed_and_ten_minutes() -> None:
    wishes = parse([], {"HOME": "/nowhere"})
    assert wishes.tasks == TASKS
    assert (wishes.seeds, wishes.methods, wishes.budget.seconds) == ((0,), USUAL, 600)
    assert wishes.folder == Path("runs/dojo").absolute()
    assert len(grid(wishes.tasks, wishes.seeds, wishes.methods)) == 18


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--tasks", "sylogism"], "there is no benchmark sylogism. Did you mean syllogism?"),
        (["--methods", "serach"], "there is no method serach. Did you mean search?"),
        (["--budget", "1m"], "a budget of 1m is too small"),
        (["--seeds", "-1"], "'-1' is no whole number. Write a number such as 3."),
        (["--sead", "1"], "unrecognized arguments: --sead 1"),
    ],
)
def test_a_wrong_word_is_refused_with_one_line(argv: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line


def test_the_table_is_made_from_finished_cells_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["--table", "--folder", str(tmp_path / "cells"), "--docs", str(tmp_path / "docs")]
    assert main(argv) == 2
    assert "holds no finished cell" in capsys.readouterr().err
    three(tmp_path / "docs", (20, 20, 30))
    assert main([*argv, "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == json.loads((tmp_path / "docs/dojo.json").read_text())
    assert len(json.loads(out)) == 5
    assert "dojo.md" in err
    assert "syllogism-0-search has not been run" in (tmp_path / "docs/dojo.md").read_text()


# --- whole small dojos ------------------------------------------------------------------------------------------------


class Hall:
    """A folder of cells, and the command line that works in it."""

    def __init__(self, place: Path) -> None:
        self.cells, self.docs, self.cache = place / "cells", place / "docs", place / "cache"

    def line(self, *argv: str) -> list[str]:
        """The words of a command line that works here."""
        place = ["--folder", str(self.cells), "--docs", str(self.docs)]
        return ["--budget", "20m", "--max-trials", "2", *place, *argv]

    def begin(self, *argv: str, **faults: str) -> subprocess.Popen[str]:
        """Start the command line; do not wait."""
        line = [sys.executable, "-m", "tests.fake_dojo", *self.line(*argv)]
        env = {"PATH": os.environ["PATH"], "HOME": str(self.cache), "TUNEWRIGHT_CACHE": str(self.cache), **faults}
        return subprocess.Popen(line, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def call(self, *argv: str, code: int = 0, **faults: str) -> tuple[str, str]:
        """Run the command line to its end; what it said on both streams. Fails where the exit code is another one."""
        process = self.begin(*argv, **faults)
        out, err = process.communicate(timeout=200)
        assert process.returncode == code, f"{out}\n{err}"
        assert "Traceback" not in err
        return out, err

    def wait_for(self, name: str, node: str, process: subprocess.Popen[str]) -> None:
        """Until a node is at work in a cell."""
        events = self.cells / name / "events.jsonl"
        until = time.monotonic() + 90
        while not (events.exists() and f'"{node} at work"' in events.read_text()):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < until
            time.sleep(0.02)

    def finished_work(self) -> dict[str, int]:
        """Every result that an engine or the dojo has written, and when."""
        paths = [*self.cells.rglob("result.json"), *self.docs.glob("dojo/*.json")]
        return {str(path): path.stat().st_mtime_ns for path in paths}


TWO = ("--tasks", "aiw", "spell_backward")


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Hall:
    """A dojo of two tasks that was stopped in its first cell, killed in its fourth, and then run to its end."""
    hall = Hall(tmp_path_factory.mktemp("dojo"))
    process = hall.begin(*TWO, FAKE_AXOLOTL_STEP_S="0.05")
    hall.wait_for("aiw-0-default_sft", "trainer", process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command goes on" in err
    assert "Traceback" not in err
    process = hall.begin(*TWO)
    hall.wait_for("spell_backward-0-default_sft", "validator", process)
    process.kill()
    process.communicate()
    partial = (hall.docs / "dojo.md").read_text()
    assert "spell_backward-0-default_sft has not been run to its end" in partial
    before = hall.finished_work()
    hall.call(*TWO)
    after = hall.finished_work()
    assert {path: after[path] for path in before} == before, "finished work was repeated"
    return hall


@pytest.mark.slow
def test_a_dojo_that_was_stopped_and_killed_ends_with_the_whole_table(hall: Hall) -> None:
    rows = json.loads((hall.docs / "dojo.json").read_text())
    assert [(row["task"], row["method"]) for row in rows] == [
        (task, method) for task in ("aiw", "spell_backward") for method in ("base0", "base_few", *USUAL)
    ]
    for row in rows:
        assert row.keys() >= {"task", "seed", "method", "metric", "value", "n", "stderr", "seconds", "ci_low"}
        assert row["n"] == 60
        assert row["ci_low"] <= row["value"] <= row["ci_high"]
    ours = {row["task"]: row for row in rows if row["method"] == "search"}
    assert all(row["p_against_base_better"] < 0.05 for row in ours.values())
    assert all(row["trials"] == 2 for row in ours.values())
    text = (hall.docs / "dojo.md").read_text()
    assert "6 finished cells: 2 tasks" in text
    assert "agree on the base rows, item by item" in text
    assert "What is missing" not in text
    plan = json.loads((hall.cells / "aiw-0-random_search/trials/1/plan.json").read_text())
    assert plan["proposer"] == "random"


@pytest.mark.slow
def test_finished_cells_are_not_run_again_and_other_budgets_are_refused(
    hall: Hall, capsys: pytest.CaptureFixture[str]
) -> None:
    before = hall.finished_work()
    shutil.move(hall.cells, hall.cells.with_name("elsewhere"))  # the records suffice
    assert main(hall.line(*TWO)) == 0
    assert "6 cells, 6 have ended" in capsys.readouterr().out
    shutil.move(hall.cells.with_name("elsewhere"), hall.cells)
    assert hall.finished_work() == before
    assert main(hall.line("--tasks", "aiw", "--budget", "30m")) == 2
    assert "was begun with --budget 20m --max-trials 2" in capsys.readouterr().err


@pytest.mark.slow
def test_a_base_row_that_differs_between_real_cells_is_named(hall: Hall, tmp_path: Path) -> None:
    copy = Hall(tmp_path)
    shutil.copytree(hall.docs, copy.docs)
    record = copy.docs / "dojo/aiw-0-default_sft.json"
    measured = read_record(record, Measured)
    item, score = next(iter(measured.few_shot.items.items()))
    other = measured.few_shot.model_copy(update={"items": measured.few_shot.items | {item: 1 - score}})
    write_record(record, measured.model_copy(update={"few_shot": other}))
    assert main(copy.line("--table", *TWO)) == 0
    assert "base_few differs between aiw-0-search" in (copy.docs / "dojo.md").read_text()


@pytest.mark.slow
def test_a_failed_cell_is_recorded_and_resumed_only_when_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hall = Hall(tmp_path)
    one = ("--tasks", "aiw", "--methods", "default_sft")
    out, _ = hall.call(*one, code=1, FAKE_VLLM_DIE_AT="50")
    assert "aiw-0-default_sft FAILED: " in out
    assert main(hall.line(*one)) == 1
    said = capsys.readouterr().out
    assert "1 cells, 1 have ended" in said
    assert "FAILED" not in said
    out, _ = hall.call(*one, "--again")
    assert "aiw-0-default_sft: accuracy" in out
    assert not (hall.cells / "aiw-0-default_sft/failed.json").exists()
    assert "failed" not in (hall.docs / "dojo.md").read_text().partition("## What is missing")[2]
