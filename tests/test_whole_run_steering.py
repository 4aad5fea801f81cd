"""Whole runs with quick engines that a person steers from terminals and a page: real processes, through the front door.

What each sentence does is tested in test_graph_steering.py.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from graph.background import Launch, held, pending, say
from graph.inbox import letters
from graph.runs import past_events, read_state
from graph.snapshot import read_snapshot
from memory.errors import InputError
from memory.layout import RunFolder
from memory.records import Question
from tests.test_whole_run import Runs, gone

pytestmark = pytest.mark.slow

START = ("--benchmark", "spell_backward", "--budget", "20m", "--max-trials", "1", "--plain")
WAITING = 4


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path / "runs", tmp_path / "cache")


def asked(folder: RunFolder) -> Question:
    """The question that the run waits with."""
    question = pending(folder)
    assert question is not None
    return question


def until(holds: Callable[[], bool], seconds: float = 150) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_run_killed_while_it_waits_takes_its_answers_afterwards(runs: Runs) -> None:
    process = runs.begin(*START, "--approve", "plan", "--wait", "5m")
    until(lambda: bool(runs.folders()) and pending(runs.folders()[0]) is not None)
    (folder,) = runs.folders()
    first = asked(folder)
    assert held(folder)
    process.kill()
    process.communicate()
    assert gone(runs)
    assert not held(folder)

    out, _ = runs.call("--answer", folder.id, "no, use fewer epochs", "--plain", code=WAITING)
    second = asked(folder)
    assert second.plan.training.epochs == first.plan.training.epochs / 2
    assert (second.plan.number, second.plan.wishes) == (1, (1,))
    assert second.plan.hypothesis in out
    assert f"waiting for your answer: python -m graph.run --answer {folder.id} TEXT" in out

    runs.call("--answer", folder.id, '{"approve": true}', "--plain")
    state = read_state(folder)
    assert [trial.plan for trial in state["trials"]] == [second.plan]
    assert letters(folder) == []
    out, _ = runs.call("--history", folder.id)
    assert "said: no, use fewer epochs; the plan of trial 1 is declined" in out
    _, err = runs.call("--answer", folder.id, "yes", code=2)
    assert "the run has finished" in err


def test_a_second_terminal_speaks_to_a_run_at_work_and_stops_it(runs: Runs) -> None:
    process = runs.begin(*START, FAKE_AXOLOTL_STEP_S="2", FAKE_VLLM_DELAY_S="0.05")
    until(lambda: runs.started("analyst", None))
    (folder,) = runs.folders()
    out, _ = runs.call("--answer", folder.id, "try a lower learning rate, and add 10 minutes")
    assert "the next plan carries it; the budget grows by 10m" in out
    _, err = runs.call("--answer", folder.id, "make it better somehow", code=2)
    assert "is not understood. What can be said" in err
    until(lambda: runs.started("trainer", 1))
    assert say(folder, "stop now") == "the run stops at once, and can go on later"
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert f"--resume {folder.id}" in err
    assert gone(runs)
    assert any(event.kind == "said" for event in past_events(folder))
    state = read_state(folder)
    assert state["task"].budget.seconds == 1800
    assert not state["trials"]
    with pytest.raises(InputError, match="nothing to stop"):
        say(folder, "stop")
    out, _ = runs.call("--history", folder.id, "--json")
    happened = [entry["happened"] for entry in json.loads(out)]
    assert "said: try a lower learning rate, and add 10 minutes; budget 20m -> 30m" in happened


def test_a_waiting_checkpoint_is_forked_and_a_page_answers_the_fork(runs: Runs) -> None:
    runs.call(*START, "--approve", "plan", code=WAITING)
    (folder,) = runs.folders()
    out, _ = runs.call("--history", folder.id, "--json")
    last = json.loads(out)[-1]
    assert last["following"] == "data_engineer"
    runs.call("--fork", f"{folder.id}@{last['checkpoint']}", "--set", "plan.epochs=3", "--plain", code=WAITING)
    fork = runs.folders()[-1]
    assert asked(fork).plan.training.epochs == 3
    assert asked(folder).plan.training.epochs != 3
    launch = Launch("tests.fake_run", {"TUNEWRIGHT_CACHE": str(runs.cache)})
    assert say(fork, "yes, and stop after this trial", launch) == "trial 1 goes on, and the run ends after it"
    until(lambda: (found := read_snapshot(fork)) is not None and found.state.get("test") is not None)
    assert gone(runs)
    assert read_state(fork)["stop"] == 'You said: "yes, and stop after this trial".'
