"""Whole runs with quick engines that a person steers: approvals, wishes, messages to a run at work, stops, budget."""

from __future__ import annotations

import json
import time
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


def history(runs: Runs, folder: RunFolder) -> list[str]:
    """What happened at each checkpoint."""
    out, _ = runs.call("--history", folder.id, "--json")
    return [entry["happened"] for entry in json.loads(out)]


def until_started(runs: Runs, node: str, trial: int | None, seconds: float = 100) -> RunFolder:
    """Wait until a node works on a trial; the newest run."""
    end = time.monotonic() + seconds
    while not runs.started(node, trial):
        assert time.monotonic() < end
        time.sleep(0.02)
    return runs.folders()[-1]


def test_a_plan_waits_for_a_yes_and_a_no_with_a_wish_makes_another(runs: Runs) -> None:
    out, _ = runs.call(*START, "--approve", "plan", code=WAITING)
    (folder,) = runs.folders()
    first = asked(folder)
    assert f"--answer {folder.id}" in out
    assert first.plan.hypothesis in out
    assert gone(runs)
    spent = read_state(folder)["spent_seconds"]

    runs.call("--answer", folder.id, "use fewer epochs, and drop samples over 40 characters", "--plain", code=WAITING)
    second = asked(folder)
    assert second.plan.training.epochs == first.plan.training.epochs / 2
    assert "<= 40" in second.plan.data.model_dump_json()
    assert second.plan.wishes == (1,)
    assert second.plan.number == first.plan.number == 1
    assert read_state(folder)["spent_seconds"] - spent < 10

    runs.call("--answer", folder.id, '{"approve": true}', "--plain")
    state = read_state(folder)
    assert [trial.plan for trial in state["trials"]] == [second.plan]
    assert [wish.text for wish in state["wishes"]] == [
        "use fewer epochs, and drop samples over 40 characters", "yes",
    ]  # fmt: skip
    told = history(runs, folder)
    assert any("said: use fewer epochs" in words and "trial 1 is declined" in words for words in told)
    assert any("said: yes" in words for words in told)
    assert not letters(folder)
    with pytest.raises(InputError, match="has finished"):
        say(folder, "yes")


@pytest.mark.parametrize(("place", "node"), [("data", "validator"), ("train", "trainer")])
def test_data_and_training_wait_too_and_a_kill_while_waiting_loses_nothing(runs: Runs, place: str, node: str) -> None:
    process = runs.begin(*START, "--approve", place, "--wait", "5m")
    end = time.monotonic() + 100
    while not (runs.folders() and pending(runs.folders()[0])):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)
    (folder,) = runs.folders()
    question = asked(folder)
    assert question.place == place
    assert question.rows is not None
    assert (question.training_seconds is not None) == (place == "train")
    assert not runs.started(node, 1)
    process.kill()
    process.communicate()
    assert gone(runs)
    assert not held(folder)
    runs.call("--answer", folder.id, "approve", "--plain")
    assert len(read_state(folder)["trials"]) == 1


def test_of_two_answers_the_first_counts_and_the_second_is_told(runs: Runs) -> None:
    process = runs.begin(*START, "--approve", "plan", "--wait", "5m", FAKE_AXOLOTL_STEP_S="0.02")
    end = time.monotonic() + 100
    while not (runs.folders() and pending(runs.folders()[0])):
        assert time.monotonic() < end
        time.sleep(0.02)
    (folder,) = runs.folders()
    assert say(folder, "yes") == "trial 1 goes on"
    for _ in range(2):
        with pytest.raises(InputError, match=r"answered|nothing waits"):
            say(folder, "no")
        time.sleep(0.7)
    out, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    assert "yes" in out
    assert [wish.text for wish in read_state(folder)["wishes"]] == ["yes"]


def test_a_plain_no_is_not_answered_with_the_same_plan(runs: Runs) -> None:
    runs.call(*START, "--approve", "plan", code=WAITING)
    (folder,) = runs.folders()
    first = asked(folder)
    runs.call("--answer", folder.id, "no", "--plain", code=WAITING)
    second = asked(folder)
    assert second.plan.training != first.plan.training or second.plan.data != first.plan.data
    assert read_state(folder)["declined"] == [first.plan]
    assert not read_state(folder)["trials"]


def test_what_is_said_to_a_run_at_work_is_a_checkpoint_and_the_next_plan_carries_it(runs: Runs) -> None:
    start = ("--benchmark", "spell_backward", "--budget", "20m", "--max-trials", "2", "--plain")
    process = runs.begin(*start, FAKE_AXOLOTL_STEP_S="0.02")
    folder = until_started(runs, "trainer", 1)
    out, _ = runs.call("--answer", folder.id, "try a lower learning rate, and add 10 minutes")
    assert "the next plan carries it; the budget grows by 10m" in out
    _, err = runs.call("--answer", folder.id, "make it better somehow", code=2)
    assert "is not understood. What can be said" in err
    _, err = runs.call("--answer", folder.id, "yes", code=2)
    assert "nothing waits" in err
    out, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    assert "of 30m spent" in out
    state = read_state(folder)
    assert state["task"].budget.seconds == 1800
    first, second = state["trials"]
    assert second.plan.wishes == (1,)
    assert second.plan.change is not None
    assert second.plan.change.factor in ("learning_rate", "several")
    assert "learning_rate" in second.plan.change.factor + second.plan.change.after
    assert 'You said: "try a lower learning rate, and add 10 minutes"' in second.plan.hypothesis
    assert first.plan.wishes == ()
    told = history(runs, folder)
    assert "said: try a lower learning rate, and add 10 minutes; budget 20m -> 30m" in told
    assert any(event.kind == "said" for event in past_events(folder))


def test_stop_after_this_trial_ends_with_the_report(runs: Runs) -> None:
    start = ("--benchmark", "spell_backward", "--budget", "20m", "--max-trials", "3", "--plain")
    process = runs.begin(*start, FAKE_AXOLOTL_STEP_S="0.02")
    folder = until_started(runs, "trainer", 1)
    runs.call("--answer", folder.id, "stop after this trial")
    _, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    state = read_state(folder)
    assert len(state["trials"]) == 1
    assert state["stop"] == 'You said: "stop after this trial".'
    assert (folder.root / "report.md").exists()


@pytest.mark.parametrize(("words", "node"), [("stop", "validator"), ("stop now", "trainer")])
def test_stop_ends_the_process_and_the_run_goes_on_later(runs: Runs, words: str, node: str) -> None:
    process = runs.begin(*START, FAKE_AXOLOTL_STEP_S="0.05")
    folder = until_started(runs, node, 1)
    runs.call("--answer", folder.id, words)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert f"--resume {folder.id}" in err
    assert gone(runs)
    assert not read_state(folder)["trials"]
    _, err = runs.call("--answer", folder.id, "stop", code=2)
    assert "nothing to stop" in err
    runs.call("--resume", folder.id, "--plain")
    assert [wish.text for wish in read_state(folder)["wishes"]] == [words]


def test_a_waiting_checkpoint_can_be_forked_and_asks_again(runs: Runs) -> None:
    runs.call(*START, "--approve", "plan", code=WAITING)
    (folder,) = runs.folders()
    out, _ = runs.call("--history", folder.id, "--json")
    last = json.loads(out)[-1]
    assert last["following"] == "data_engineer"
    place = f"{folder.id}@{last['checkpoint']}"
    runs.call("--fork", place, "--set", "plan.epochs=2", "--plain", code=WAITING)
    fork = runs.folders()[-1]
    assert asked(fork).plan.training.epochs == 2
    assert asked(folder).plan.training.epochs != 2
    runs.call("--fork", place, "--set", "approve=never", "--plain")
    assert len(read_state(runs.folders()[-1])["trials"]) == 1


def test_a_page_answers_a_run_that_nobody_holds(runs: Runs) -> None:
    runs.call(*START, "--approve", "plan", code=WAITING)
    (folder,) = runs.folders()
    launch = Launch("tests.fake_run", {"TUNEWRIGHT_CACHE": str(runs.cache)})
    assert say(folder, "yes, and stop after this trial", launch) == "trial 1 goes on, and the run ends after it"
    end = time.monotonic() + 100
    while (found := read_snapshot(folder)) is None or found.state.get("test") is None:
        assert time.monotonic() < end, folder.process_log.read_text()
        time.sleep(0.05)
    assert gone(runs)
