"""The ledger answers plain SQL, and says the same however often a node tells it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory.database import Database
from memory.errors import StorageError
from memory.layout import RunFolder
from memory.ledger import LEDGER_SCHEMA, Ledger
from memory.state import State
from tests import example_run

TABLES = ("runs", "trials", "scores", "outcomes", "lessons", "costs", "losses")

BEST_TRIAL_PER_METRIC = """
    SELECT metric, model, value, ci_low, ci_high, n
    FROM scores
    WHERE split = 'validation' AND trial IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY metric ORDER BY value DESC, trial) = 1
"""
WRONG_TO_RIGHT = """
    SELECT new.item, new.gold, old.answer AS before, new.answer AS after
    FROM outcomes old JOIN outcomes new USING (split, shots, item, sample)
    WHERE split = 'validation' AND old.model = 'trial 1' AND new.model = 'trial 3' AND new.score > old.score
    ORDER BY item
"""
SECONDS_BY_PHASE = """
    SELECT phase, sum(seconds) AS seconds, round(100 * sum(seconds) / any_value(spent_seconds)) AS percent
    FROM costs CROSS JOIN runs
    GROUP BY phase ORDER BY seconds DESC
"""


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run")


@pytest.fixture
def ledger(folder: RunFolder) -> Iterator[Ledger]:
    with Database.open(folder.database, [LEDGER_SCHEMA]) as database:
        yield Ledger(database, folder)


def tell_all(ledger: Ledger, state: State) -> None:
    """What the nodes say in the course of a run."""
    baseline, test = state["baseline"], state["test"]
    assert baseline is not None
    assert test is not None
    ledger.record_baseline(baseline)
    for trial in state["trials"]:
        ledger.record_trial(trial)
    for lesson in state["lessons"]:
        ledger.record_lesson(lesson)
    ledger.record_test(test)
    ledger.record_run(state["task"], baseline.model, state["spent_seconds"])


def content(ledger: Ledger) -> dict[str, list[tuple[object, ...]]]:
    return {table: ledger.database.rows(f"SELECT * FROM {table} ORDER BY ALL") for table in TABLES}


def test_the_best_trial_per_metric_with_its_interval(ledger: Ledger, folder: RunFolder) -> None:
    ledger.rebuild(example_run.finished(folder))
    assert ledger.database.rows(BEST_TRIAL_PER_METRIC) == [("exact", "trial 1", 0.75, 0.55, 0.95, 4)]


def test_the_items_that_went_from_wrong_to_right_between_two_trials(ledger: Ledger, folder: RunFolder) -> None:
    ledger.rebuild(example_run.finished(folder))
    assert ledger.database.rows(WRONG_TO_RIGHT) == [("item-0", "Yes", None, "Yes")]


def test_the_seconds_by_phase_add_up_to_the_wall_clock(ledger: Ledger, folder: RunFolder) -> None:
    ledger.rebuild(example_run.finished(folder))
    # Nine evaluations of 8 s each, two trainings of 40 s; everything else of the 400 s is overhead.
    assert ledger.database.rows(SECONDS_BY_PHASE) == [
        ("overhead", 248.0, 62.0),
        ("training", 80.0, 20.0),
        ("generating", 72.0, 18.0),
    ]


def test_the_scoreboard_shows_base_rows_and_decisions(ledger: Ledger, folder: RunFolder) -> None:
    ledger.rebuild(example_run.finished(folder))
    rows = ledger.database.rows("SELECT model, shots, value, decision FROM scoreboard WHERE split = 'validation'")
    assert rows == [
        ("base", 0, 0.25, None),
        ("base", 5, 0.5, None),
        ("trial 1", 0, 0.75, "accepted"),
        ("trial 3", 0, 0.75, "accepted"),
    ]


def test_a_failed_trial_is_a_row_with_its_reason(ledger: Ledger, folder: RunFolder) -> None:
    ledger.record_trial(example_run.failed_trial(example_run.plan(2, 1)))
    rows = ledger.database.rows("SELECT trial, decision, failure_kind, failure_node, train_seconds FROM trials")
    assert rows == [(2, "failed", "CONTAMINATION", "validator", None)]


def test_told_twice_it_says_the_same_as_told_once_or_rebuilt(ledger: Ledger, folder: RunFolder) -> None:
    state = example_run.finished(folder)
    tell_all(ledger, state)
    once = content(ledger)
    tell_all(ledger, state)
    assert content(ledger) == once
    ledger.rebuild(state)
    assert content(ledger) == once
    assert all(once.values())


def test_a_trial_told_again_with_fewer_points_leaves_no_old_ones(ledger: Ledger, folder: RunFolder) -> None:
    trial = example_run.trial(folder, example_run.plan(1), [1, 1, 0, 0], "rejected")
    ledger.record_trial(trial)
    assert trial.training is not None
    shorter = trial.training.model_copy(update={"losses": trial.training.losses[:1]})
    ledger.record_trial(trial.model_copy(update={"training": shorter}))
    assert ledger.database.rows("SELECT step, loss FROM losses") == [(1, 2.0)]


def test_a_record_that_cannot_be_finished_leaves_nothing_behind(ledger: Ledger, folder: RunFolder) -> None:
    trial = example_run.trial(folder, example_run.plan(1), [1, 1, 0, 0], "accepted")
    assert trial.train_score is not None
    folder.resolve(trial.train_score.outcomes).unlink()
    with pytest.raises(StorageError, match=r"outcomes\.jsonl"):
        ledger.record_trial(trial)
    assert not any(content(ledger).values())


def test_outcomes_beyond_one_statement_all_arrive(ledger: Ledger, folder: RunFolder) -> None:
    right = random.Random(0).choices([0, 1], k=1000)
    trial = example_run.trial(folder, example_run.plan(1), right, "accepted")
    ledger.record_trial(trial)
    assert ledger.database.rows("SELECT count(*), sum(score) FROM outcomes") == [(2000, 2 * sum(right))]
