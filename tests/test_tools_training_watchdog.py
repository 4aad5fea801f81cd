"""The watchdog: what must stop a training does, what only looks bad does not."""

from __future__ import annotations

import math

import pytest

from memory.errors import TrialError
from memory.records import LossPoint
from tools.training.watchdog import Watchdog

TOTAL = 100


def point(step: int, loss: float, *, norm: float = 1.0, pace: float = 2.0) -> LossPoint:
    return LossPoint(step=step, epoch=step / 50, loss=loss, learning_rate=1e-3, grad_norm=norm, seconds=step * pace)


def run(losses: list[float], *, warmup: float = 0.0, total: int = TOTAL, deadline: float = 1000.0) -> Watchdog:
    """Feed a curve of one point every two seconds, after a start-up of ten."""
    dog = Watchdog(deadline_s=deadline, warmup_ratio=warmup)
    for step, loss in enumerate(losses, 1):
        dog.tick(9 + 2 * step)
        dog.point(point(step, loss), total, 10 + 2 * step)
    return dog


def falling(steps: int, start: float = 2.5) -> list[float]:
    return [start * math.exp(-step / 40) for step in range(steps)]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_no_number_stops_at_once(bad: float) -> None:
    with pytest.raises(
        TrialError, match=r"the loss is not a number at step 7 \(learning rate 1\.0e-03\); the loss before"
    ) as caught:
        run([*falling(6), bad, *falling(3)])
    assert caught.value.kind == "DIVERGED"


def test_a_gradient_that_is_no_number_stops_at_once() -> None:
    dog = run(falling(3))
    with pytest.raises(TrialError, match="the gradient is not a number at step 4"):
        dog.point(point(4, 2.0, norm=math.nan), TOTAL, 18)


def test_a_healthy_curve_runs_through() -> None:
    run(falling(TOTAL))


@pytest.mark.parametrize("height", [3.0, 6.0, 50.0])
def test_a_loss_that_stays_above_twice_its_start_is_divergence(height: float) -> None:
    with pytest.raises(TrialError, match=r"after starting at 2\.\d+: above 4\.\d+ for 5 steps") as caught:
        run([*falling(15), *[2.5 * height] * 10])
    assert caught.value.kind == "DIVERGED"


def test_a_slow_climb_is_divergence_too() -> None:
    with pytest.raises(TrialError, match="after starting at"):
        run([2.0 * 1.05**step for step in range(60)])


def test_a_model_ruined_by_its_first_steps_is_divergence() -> None:
    """A measured curve: learning rate 1e6, after which the model gives every token the same probability."""
    with pytest.raises(TrialError, match="after starting at 3"):
        run([3.21, 2.11, *[10.8] * 30])


def test_spikes_that_recover_are_none() -> None:
    curve = falling(TOTAL)
    for at in (20, 40, 41, 60, 61, 62, 63):
        curve[at] = 40.0
    dog = run(curve)
    assert len(dog.points) == TOTAL


def test_a_spike_of_the_gradient_is_no_divergence() -> None:
    dog = run(falling(20))
    for step in range(21, 40):
        dog.point(point(step, 1.0, norm=5000.0), TOTAL, 10 + 2 * step)


def test_a_loss_that_rises_in_warm_up_gets_its_chance() -> None:
    run([*[1.0] * 5, *[2.6] * 13, *falling(60, 1.0)], warmup=0.2)
    with pytest.raises(TrialError, match="after starting at"):
        run([*[1.0] * 5, *[2.6] * 40], warmup=0.2)


def test_twice_a_loss_near_zero_is_no_divergence() -> None:
    run([*[0.01] * 10, *[0.05] * 10, *[0.2] * 10])


def test_ten_median_steps_of_silence_are_a_stall_but_never_less_than_a_minute() -> None:
    dog = run(falling(10))
    dog.tick(30 + 59)
    with pytest.raises(
        TrialError, match=r"stalled at step 10 of 100: no new step for 61 s; a step usually takes 2\.0 s"
    ) as caught:
        dog.tick(30 + 61)
    assert caught.value.kind == "DIVERGED"
    slow = Watchdog(deadline_s=1e6)
    for step in range(1, 6):
        slow.point(point(step, 2.0, pace=30.0), TOTAL, 30.0 * step)
    slow.tick(150 + 299)
    with pytest.raises(TrialError, match="no new step for 301 s"):
        slow.tick(150 + 301)


def test_start_up_and_merge_are_no_stall() -> None:
    dog = Watchdog(deadline_s=5000)
    dog.tick(600)
    with pytest.raises(TrialError, match="did not reach its first step within 901 s"):
        dog.tick(901)
    done = run(falling(10), total=10)
    done.tick(900)


def test_an_end_well_beyond_the_deadline_is_told_early() -> None:
    with pytest.raises(
        TrialError, match=r"at 2\.0 s a step the training would end after 210 s; it has 100 s"
    ) as caught:
        run(falling(TOTAL), deadline=100.0)
    assert caught.value.kind == "BUDGET"


def test_an_end_a_little_beyond_the_deadline_is_let_go_on() -> None:
    assert len(run(falling(TOTAL), deadline=190.0).points) == TOTAL


def test_the_slow_first_step_does_not_count() -> None:
    dog = Watchdog(deadline_s=250)
    for step in range(1, 30):
        seconds = 40 + 2 * step
        dog.point(point(step, 2.0).model_copy(update={"seconds": float(seconds)}), TOTAL, 10 + seconds)


def reinforced(rewards: list[float], kls: list[float]) -> Watchdog:
    """Feed the curve of a reinforcement: its loss is about zero, now and then far from it."""
    dog = Watchdog(deadline_s=1000.0)
    for step, (reward, kl) in enumerate(zip(rewards, kls, strict=True), 1):
        at = point(step, 0.9 if step > 10 else -0.001).model_copy(update={"reward": reward, "kl": kl})
        dog.point(at, TOTAL, 10 + 2 * step)
    return dog


def test_of_a_reinforcement_reward_and_kl_are_judged_and_not_its_loss() -> None:
    jumping = [0.0 if step % 3 else 0.8 for step in range(60)]
    reinforced(jumping, [0.02 * (step % 5) for step in range(60)])
    reinforced([0.0] * 60, [5.0 if step == 30 else 0.1 for step in range(60)])
    with pytest.raises(TrialError, match=r"KL divergence from the start is 3\.0 nats a token at step 35") as caught:
        reinforced([0.5] * 60, [*[0.1] * 30, *[3.0] * 30])
    assert caught.value.kind == "DIVERGED"
    with pytest.raises(TrialError, match=r"the reward is 0\.05 at step 40 after starting at 0\.50"):
        reinforced([*[0.5] * 30, *[0.05] * 30], [0.1] * 60)
