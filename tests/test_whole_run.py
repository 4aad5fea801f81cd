"""Whole runs with quick engines: real processes, the real graph, database and files, driven through the front door."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from graph.runs import read_state
from memory.database import Database
from memory.layout import RunFolder
from memory.ledger import LEDGER_SCHEMA
from memory.state import State
from tests.conftest import MakeDisk, content

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
START = ("--benchmark", "spell_backward", "--budget", "20m", "--max-trials", "2", "--plain")


class Runs:
    """A folder of runs, and the command line that works in it."""

    def __init__(self, root: Path, cache: Path) -> None:
        self.root = root
        self.cache = cache

    def begin(self, *argv: str, **faults: str) -> subprocess.Popen[str]:
        """Start the command line; do not wait."""
        env = {"PATH": os.environ["PATH"], "HOME": str(self.cache), "TUNEWRIGHT_CACHE": str(self.cache), **faults}
        return subprocess.Popen(
            [sys.executable, "-m", "tests.fake_run", *argv, "--run-dir", str(self.root)],
            cwd=ROOT,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def call(self, *argv: str, code: int = 0, **faults: str) -> tuple[str, str]:
        """Run the command line to its end; what it said on both streams. Fails where the exit code is another one."""
        process = self.begin(*argv, **faults)
        out, err = process.communicate(timeout=200)
        assert process.returncode == code, f"{out}\n{err}"
        assert "Traceback" not in err
        return out, err

    def folders(self) -> list[RunFolder]:
        """The runs, oldest first."""
        return [
            RunFolder(task.parent) for task in sorted(self.root.glob("*/task.json"), key=lambda p: p.stat().st_ctime)
        ]

    def started(self, node: str, trial: int | None) -> bool:
        """Whether a node has come to work on a trial in the newest run."""
        folders = self.folders()
        lines = folders[-1].events.read_text().split("\n")[:-1] if folders and folders[-1].events.exists() else []
        said = [json.loads(line) for line in lines]
        return any((e.get("node"), e.get("trial"), e.get("phase")) == (node, trial, "start") for e in said)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """A run that nothing disturbed."""
    place = tmp_path_factory.mktemp("finished")
    runs = Runs(place / "runs", place / "cache")
    runs.call(*START)
    return runs


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path / "runs", tmp_path / "cache")


def outcome(state: State) -> list[tuple[object, ...]]:
    """What a run came to: decision, recipe, score and weights of each trial, and the sealed test."""
    test = state["test"]
    assert test is not None
    trials = [
        (
            trial.decision,
            trial.plan.training,
            trial.score and trial.score.value,
            trial.training and trial.training.steps,
        )
        for trial in state["trials"]
    ]
    return [*trials, (test.winner, test.tuned and test.tuned.value, test.zero_shot.value, test.few_shot.value)]


def finished_work(folder: RunFolder) -> dict[str, int]:
    """Every result that an engine has written, and when."""
    return {str(path.relative_to(folder.root)): path.stat().st_mtime_ns for path in folder.root.rglob("result.json")}


def processes_of(runs: Runs) -> list[str]:
    """Command lines of living processes that speak of these runs."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return [line for line in lines if str(runs.root) in line]


def gone(runs: Runs, seconds: float = 10.0) -> bool:
    """Whether all processes of the runs end within some seconds."""
    until = time.monotonic() + seconds
    while processes_of(runs) and time.monotonic() < until:
        time.sleep(0.05)
    return not processes_of(runs)


def test_a_run_ends_with_a_report_a_model_and_a_ledger(finished: Runs) -> None:
    (folder,) = finished.folders()
    report = json.loads((folder.root / "report.json").read_text())
    assert {"run_id", "task", "baseline", "trials", "test", "decision", "budget", "lineage"} <= report.keys()
    assert report["decision"]["outcome"] == "improved"
    assert report["test"]["tuned"]["value"] > report["test"]["few_shot"]["value"]
    assert report["budget"]["server_starts"] == 1
    text = (folder.root / "report.md").read_text()
    for trial in report["trials"]:
        assert trial["plan"]["hypothesis"] in text
        assert trial["decision"] in text
        blame = json.loads((folder.trial(trial["plan"]["number"]) / "verdict.json").read_text())["blame"]
        assert blame == trial["blame"]
        assert f"- To blame: {blame['to']}. {blame['says']}" in text
    assert report["attribution"]["contrasts"][0]["changes"][0]["factor"] == "fine-tuning"
    assert report["attribution"]["foresight"][0]["n"] == len(report["trials"])
    for title in ("## What each change did", "## What was expected", "## What is still wrong"):
        assert title in text
    assert report["lineage"]["weights_sha256"] in (folder.model / "README.md").read_text()
    assert (folder.model / "quality.json").exists()
    assert (folder.sealed.stat().st_mode & 0o777, (folder.sealed / "test.jsonl").stat().st_mode & 0o777) == (
        0o700,
        0o600,
    )
    with Database.open(folder.database, [LEDGER_SCHEMA]) as database:
        rows = database.rows("SELECT model, value FROM scores WHERE split = 'test' ORDER BY model DESC, shots")
        assert rows[0] == (f"trial {report['test']['winner']}", report["test"]["tuned"]["value"])
        assert database.rows("SELECT count(*) FROM outcomes WHERE split = 'validation'") == [(200 * (2 + 2),)]
    assert gone(finished)


def test_what_rose_highest_is_handed_over_though_it_may_be_noise(runs: Runs) -> None:
    runs.call(*START, FAKE_SCRIPT="rising")
    (folder,) = runs.folders()
    state = read_state(folder)
    first, second = state["trials"]
    assert (first.decision, second.decision) == ("accepted", "inconclusive")
    assert first.score is not None
    assert second.score is not None
    assert second.score.value > first.score.value
    test = state["test"]
    assert test is not None
    assert test.winner == 2
    text = (folder.root / "report.md").read_text()
    assert "Trial 2 is handed over: of the trials that rose it is the best on validation." in text
    assert "That it is better than trial 1 is not shown" in text
    assert second.training is not None
    assert second.training.weights_sha256 in (folder.model / "README.md").read_text()


def test_resuming_a_finished_run_shows_its_result_and_repeats_nothing(finished: Runs) -> None:
    (folder,) = finished.folders()
    before = finished_work(folder)
    out, _ = finished.call("--resume", folder.id)
    assert "On the sealed test" in out
    assert finished_work(folder) == before


@pytest.mark.parametrize(
    ("node", "trial"),
    [
        ("analyst", None),  # baseline, and again at the sealed test
        ("planner", None),
        ("data_engineer", 1),
        ("validator", 1),
        ("trainer", 1),
        ("analyst", 1),
        ("trainer", 2),
    ],
)
def test_kill_9_in_any_node_loses_nothing(runs: Runs, finished: Runs, node: str, trial: int | None) -> None:
    slow = {"FAKE_VLLM_DELAY_S": "0.01"} if node == "analyst" else {}
    process = runs.begin(*START, **slow)
    until = time.monotonic() + 60
    while not runs.started(node, trial):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.005)
    time.sleep(0.3 if node in ("trainer", "analyst") else 0)
    process.kill()
    process.communicate()
    assert gone(runs), "engines outlive their run"
    (folder,) = runs.folders()
    before = finished_work(folder)
    runs.call("--resume", folder.id, "--plain")
    after = finished_work(folder)
    assert {path: after[path] for path in before} == before, "finished work was repeated"
    (undisturbed,) = finished.folders()
    assert outcome(read_state(folder)) == outcome(read_state(undisturbed))


def test_a_killed_training_goes_on_from_its_checkpoint(runs: Runs) -> None:
    process = runs.begin(*START, FAKE_SCRIPT="sound", FAKE_AXOLOTL_STEP_S="0.05")
    until = time.monotonic() + 60
    while not list(runs.root.glob("*/trials/1/train/checkpoints/checkpoint-*/whole")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.01)
    time.sleep(0.5)
    process.kill()
    process.communicate()
    (folder,) = runs.folders()
    runs.call("--resume", folder.id, "--plain", FAKE_SCRIPT="sound")
    training = read_state(folder)["trials"][0].training
    assert training is not None
    assert training.resumed_from_step > 0
    assert [point.step for point in training.losses] == list(range(1, training.steps + 1))


def test_ctrl_c_stops_cleanly_and_says_how_to_go_on(runs: Runs) -> None:
    process = runs.begin(*START, FAKE_AXOLOTL_STEP_S="0.05")
    until = time.monotonic() + 60
    while not runs.started("trainer", 1):
        assert time.monotonic() < until
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    (folder,) = runs.folders()
    assert process.returncode == 130
    assert f"--resume {folder.id}" in err
    assert "Traceback" not in err
    assert gone(runs)
    runs.call("--resume", folder.id, "--plain")


def test_failures_in_data_configuration_and_training_go_back_to_the_planner(runs: Runs) -> None:
    runs.call("--benchmark", "spell_backward", "--budget", "20m", "--plain", FAKE_SCRIPT="failing_thrice", code=3)
    (folder,) = runs.folders()
    trials = read_state(folder)["trials"]
    failures = [(trial.failure.kind, trial.failure.node) if trial.failure else None for trial in trials]
    assert failures == [("DATA", "data_engineer"), ("CONFIG", "validator"), ("DIVERGED", "trainer"), None]
    assert trials[3].score is not None
    text = (folder.root / "report.md").read_text()
    assert "Failure in data_engineer" in text


def test_a_single_training_row_has_no_error_bar_and_so_no_score_of_its_own(runs: Runs) -> None:
    runs.call("--benchmark", "spell_backward", "--budget", "20m", "--plain", FAKE_SCRIPT="one_row", code=3)
    (trial,) = read_state(runs.folders()[0])["trials"]
    assert trial.score is not None
    assert trial.train_score is None


def test_a_server_that_dies_in_an_evaluation_is_started_once_more(runs: Runs, tmp_path: Path) -> None:
    out, _ = runs.call(*START, FAKE_VLLM_DIE_AT="450", FAKE_VLLM_ONCE=str(tmp_path / "died"))
    assert "scoring again with a fresh server" in out
    (folder,) = runs.folders()
    assert json.loads((folder.root / "report.json").read_text())["budget"]["server_starts"] == 2


def test_a_server_that_dies_again_and_again_stops_the_run_which_can_go_on(runs: Runs) -> None:
    _, err = runs.call(*START, FAKE_VLLM_DIE_AT="150", code=1)
    (folder,) = runs.folders()
    assert "vLLM server died" in err
    assert f"--resume {folder.id}" in err
    runs.call("--resume", folder.id, "--plain")


def test_a_request_that_fails_is_never_an_empty_answer(runs: Runs) -> None:
    _, err = runs.call(*START, FAKE_VLLM_FAIL_AT="150", code=1)
    assert "no room" in err
    (folder,) = runs.folders()
    assert read_state(folder)["baseline"] is None


def test_a_fork_changes_the_plan_and_leaves_the_old_run_alone(finished: Runs) -> None:
    folder = finished.folders()[0]
    out, _ = finished.call("--history", folder.id, "--json")
    planned = next(entry for entry in json.loads(out) if entry["following"] == "data_engineer")
    before = content(folder)
    out, _ = finished.call(
        "--fork", f"{folder.id}@{planned['checkpoint']}", "--set", "plan.learning_rate=0.0005", "--plain"
    )
    assert content(folder) == before
    fork = finished.folders()[-1]
    assert fork.id != folder.id
    first = read_state(fork)["trials"][0]
    assert first.plan.training.learning_rate == 0.0005
    assert folder.id in (fork.root / "report.md").read_text()


def test_a_full_disk_is_one_clear_line_and_nothing_is_lost(small_disk: MakeDisk, tmp_path: Path) -> None:
    disk = small_disk("4m")
    runs = Runs(disk.path / "runs", tmp_path / "cache")
    _, err = runs.call(*START, code=1)
    assert "No space left on device" in err or "disk is full" in err
    disk.grow("200m")
    (folder,) = runs.folders()
    runs.call("--resume", folder.id, "--plain")
    assert read_state(folder)["test"] is not None


def test_trials_learn_from_pairs_and_from_scores_of_what_the_model_itself_says(runs: Runs) -> None:
    runs.call("--benchmark", "spell_backward", "--budget", "20m", "--plain", FAKE_SCRIPT="objectives")
    (folder,) = runs.folders()
    state = read_state(folder)
    imitation, pairs, scores = state["trials"]
    assert [trial.failure for trial in state["trials"]] == [None] * 3
    assert pairs.dataset is not None and scores.dataset is not None
    assert any(
        "pair right and wrong outputs of trial 1" in step for group in pairs.dataset.groups for step in group.steps
    )
    rows = [json.loads(line) for line in folder.resolve(pairs.dataset.path).read_text().splitlines()]
    assert all(row["rejected"] != row["messages"][1]["content"] for row in rows)
    assert pairs.verdict is not None
    rejected = next(check for check in pairs.verdict.checks if check.name == "rejected")
    assert (rejected.passed, rejected.figure) == (True, pairs.dataset.rows)
    (too_easy_or_hard,) = (note for note in scores.dataset.dropped if "pass_rate > 0" in note.reason)
    assert too_easy_or_hard.rows + scores.dataset.rows == 64
    assert scores.training is not None and imitation.training is not None
    assert all(point.reward is not None for point in scores.training.losses)
    assert all(point.reward is None for point in imitation.training.losses)
