"""Snapshots: the training waits, is told to go on or to stop, and loses nothing to a crash; they change nothing."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from memory.records import BaseModelCard, Snapshot, TrainingRun
from tests.training_engines import (
    RECIPE,
    SMALL,
    kill_in_mid_training,
    quick,
    real_axolotl,
    smollm2,
    write_data,
)
from tools.engines.axolotl import snapshots
from tools.training.engine import forget_snapshots, train

THREE = RECIPE.model_copy(update={"snapshots": 3})


class Judge:
    """Goes on until it has seen `enough` snapshots."""

    def __init__(self, enough: int = 99, thinks_s: float = 0.0) -> None:
        self.enough, self.thinks_s = enough, thinks_s
        self.seen: list[Snapshot] = []

    def __call__(self, snapshot: Snapshot) -> bool:
        time.sleep(self.thinks_s)
        self.seen.append(snapshot)
        return len(self.seen) < self.enough

    @property
    def steps(self) -> list[int]:
        return [snapshot.step for snapshot in self.seen]


def quality(weights: str) -> float:
    return float(json.loads((Path(weights) / "quality.json").read_text())["quality"])


def test_they_are_evenly_spaced_before_the_end() -> None:
    assert snapshots.steps(100, 3) == {25, 50, 75}
    assert snapshots.steps(3, 1) == {2}
    assert snapshots.steps(2, 8) == {1}
    assert snapshots.steps(1, 3) == snapshots.steps(10, 0) == set()


def test_each_is_announced_with_whole_weights_while_the_training_waits(
    model: BaseModelCard, data: Path, tmp_path: Path
) -> None:
    judge, plain = Judge(thinks_s=0.3), RECIPE
    run = train(quick(), THREE, model, data, tmp_path / "t", device="cpu", deadline_s=60, on_snapshot=judge)
    assert judge.steps == [2, 5, 8]
    assert run.snapshots == tuple(judge.seen)
    qualities = [quality(each.weights) for each in run.snapshots]
    assert qualities == sorted(qualities) and qualities[-1] < quality(run.weights)
    assert (run.steps, run.stopped_at_step, run.stopped_because) == (10, None, "")
    without = train(quick(), plain, model, data, tmp_path / "u", device="cpu", deadline_s=60)
    assert run.weights_sha256 == without.weights_sha256
    assert run.train_seconds == pytest.approx(without.train_seconds), "the wait is no training"
    assert not (tmp_path / "u" / "snapshots").exists()


def test_told_to_stop_it_ends_with_the_weights_of_that_moment(model: BaseModelCard, data: Path, tmp_path: Path) -> None:
    judge = Judge(enough=2)
    run = train(quick(), THREE, model, data, tmp_path / "t", device="cpu", deadline_s=60, on_snapshot=judge)
    assert (run.steps, run.stopped_at_step) == (5, 5)
    assert [point.step for point in run.losses] == [1, 2, 3, 4, 5]
    assert run.stopped_because == "the scores of its snapshots, at step 5 of 10"
    assert run.weights_sha256 == run.snapshots[-1].weights_sha256
    assert quality(run.weights) == quality(run.snapshots[-1].weights)
    best = run.at(run.snapshots[0])
    assert (best.weights, best.adapter) == (run.snapshots[0].weights, run.snapshots[0].adapter)


def test_killed_while_it_waits_it_asks_again_and_has_lost_nothing(
    model: BaseModelCard, data: Path, tmp_path: Path
) -> None:
    step = kill_in_mid_training(quick(FAKE_AXOLOTL_STEP_S="0.01"), THREE, model, data, tmp_path / "t", 2)
    assert step == 2
    judge = Judge()
    run = train(quick(), THREE, model, data, tmp_path / "t", device="cpu", deadline_s=60, on_snapshot=judge)
    assert run.resumed_from_step == 2
    assert judge.steps == [2, 5, 8]
    again = Judge(enough=1)
    kill_in_mid_training(quick(FAKE_AXOLOTL_STEP_S="0.01"), THREE, model, data, tmp_path / "u", 2)
    stopped = train(quick(), THREE, model, data, tmp_path / "u", device="cpu", deadline_s=60, on_snapshot=again)
    assert (stopped.stopped_at_step, stopped.steps) == (2, 2), "no step is trained after a no"
    assert stopped.weights_sha256 == stopped.snapshots[0].weights_sha256


def test_those_of_another_training_are_not_taken_for_its_own(model: BaseModelCard, data: Path, tmp_path: Path) -> None:
    kill_in_mid_training(quick(FAKE_AXOLOTL_STEP_S="0.01"), THREE, model, data, tmp_path / "t", 2)
    other, judge = THREE.model_copy(update={"learning_rate": 1e-3, "snapshots": 1}), Judge()
    run = train(quick(), other, model, data, tmp_path / "t", device="cpu", deadline_s=60, on_snapshot=judge)
    assert judge.steps == [5]
    assert len(run.snapshots) == 1


def test_all_but_one_can_be_forgotten(model: BaseModelCard, data: Path, tmp_path: Path) -> None:
    run = train(quick(), THREE, model, data, tmp_path / "t", device="cpu", deadline_s=60)
    forget_snapshots(tmp_path / "t", keep=Path(run.snapshots[1].weights))
    assert [Path(each.weights).exists() for each in run.snapshots] == [False, True, False]
    found = train(quick(), THREE, model, data, tmp_path / "t", device="cpu", deadline_s=60)
    assert found == run, "a finished training stays finished"
    forget_snapshots(tmp_path / "t")
    assert not any(Path(each.weights).exists() for each in run.snapshots)
    assert Path(run.weights).exists()


# --- the real engine ------------------------------------------------------------------------------------------------


@pytest.mark.engine
def test_real_snapshots_leave_the_training_as_it_is(tmp_path: Path) -> None:
    """The weights of a snapshot are those of a training that ends there, and the training itself ends as without."""
    real = real_axolotl()
    smollm = smollm2(real)
    data = write_data(tmp_path / "data.jsonl", 12)
    steady = SMALL.model_copy(update={"schedule": "constant", "warmup_ratio": 0.0})

    def run(name: str, judge: Judge, **changes: object) -> TrainingRun:
        recipe = steady.model_copy(update=changes)
        return train(real, recipe, smollm, data, tmp_path / name, device="cpu", deadline_s=300, on_snapshot=judge)

    plain, half = run("plain", Judge()), run("half", Judge(), epochs=1)
    judge = Judge(thinks_s=4.0)
    watched = run("watched", judge, snapshots=1)
    assert judge.steps == [3]
    assert watched.weights_sha256 == plain.weights_sha256
    assert [point.loss for point in watched.losses] == [point.loss for point in plain.losses]
    assert watched.train_seconds < plain.train_seconds + 3.0, "neither the wait nor the writing is training"
    assert judge.seen[0].weights_sha256 == half.weights_sha256
    assert (Path(judge.seen[0].adapter or "") / "adapter_model.safetensors").exists()
    kill_in_mid_training(real, steady.model_copy(update={"snapshots": 1}), smollm, data, tmp_path / "killed", 3)
    stopped = run("killed", Judge(enough=1), snapshots=1)
    assert (stopped.stopped_at_step, stopped.steps, len(stopped.losses)) == (3, 3, 3)
    assert stopped.weights_sha256 == half.weights_sha256
    assert not (tmp_path / "killed" / "checkpoints").exists()


@pytest.mark.engine
def test_a_real_snapshot_of_full_tuning_is_whole(tmp_path: Path) -> None:
    real = real_axolotl()
    smollm = smollm2(real)
    data = write_data(tmp_path / "data.jsonl", 8)
    recipe = SMALL.model_copy(update={"method": "full", "epochs": 1, "learning_rate": 1e-5, "snapshots": 1})
    run = train(real, recipe, smollm, data, tmp_path / "t", device="cpu", deadline_s=300, on_snapshot=Judge(enough=1))
    assert run.stopped_at_step == 1
    assert run.adapter is None and run.snapshots[0].adapter is None
    assert run.weights_sha256 not in (smollm.sha256, "")
