"""The watchdog of a training: NaN, divergence, stall and overrun, told from the loss points alone.

GRPO's loss is about zero whatever happens. There a training diverges where it leaves the model that it began with, or
loses the reward that it began with.

Times are seconds on the caller's clock; 0 is the launch of the engine.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from statistics import fmean, median

from memory.errors import TrialError
from memory.records import LossPoint

START_POINTS = 5
"""The starting level is the median of this many first losses."""
SUSTAINED_POINTS = 5
"""This many losses in a row must stand above the limit: a spike that recovers is none."""
DIVERGENCE_FACTOR = 2.0
"""Losses beyond this multiple of the starting level, after warm-up, do not come back (Google's Tuning Playbook)."""
DIVERGENCE_MARGIN = 0.5
"""Nats above the starting level at the least: twice a loss near zero, as after a resume, is still near zero."""
KL_LIMIT = 2.0
"""Nats a token: healthy trainings stay below 0.5, and beyond 2 the learning rate is too high (Axolotl's guide to
training stability)."""
REWARD_POINTS = 10
"""Rewards that tell where a reinforcement began, and so many in a row that tell that it is lost: a step's mean over a
few questions jumps about."""
REWARD_SHARE = 0.25
"""A reward that stays below this share of where it began is lost."""
STALL_SECONDS = 60.0
STALL_STEPS = 10.0
"""No new step for this many median steps, and at least STALL_SECONDS, is a stall."""
START_SECONDS = 900.0
"""Longest start-up: imports, tokenising, loading the model."""
OVERRUN_STEPS = 8
OVERRUN_SHARE = 0.05
"""The end is extrapolated once this many steps, and this share of all, are done."""
OVERRUN_MARGIN = 1.15
"""An extrapolated end up to this multiple of the deadline is let go on: extrapolation is no better than that."""


@dataclass
class Watchdog:
    """Feed it every loss point and, between them, ticks. Raises TrialError (DIVERGED or BUDGET) with the figures."""

    deadline_s: float
    """Seconds after launch by which the training should have ended."""
    warmup_ratio: float = 0.0
    """Share of the steps in which the learning rate still rises: no divergence is judged there."""
    last_seen: float = 0.0
    points: list[LossPoint] = field(default_factory=list)
    total_steps: int = 0
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=SUSTAINED_POINTS))

    def point(self, point: LossPoint, total_steps: int, now: float) -> None:
        """A new point of the curve at time `now`. Raises TrialError."""
        self.points.append(point)
        self.total_steps, self.last_seen = total_steps, now
        self._finite(point)
        self._diverging(point)
        self._overrunning(point, now)

    def waited(self, now: float, *, goes_on: bool) -> None:
        """The training waited for its caller until `now`: that silence was no stall."""
        self.last_seen = now
        if not goes_on and self.points:
            self.total_steps = self.points[-1].step

    def tick(self, now: float) -> None:
        """Nothing new at time `now`. Raises TrialError where that has lasted too long."""
        silent = now - self.last_seen
        if not self.points:
            if silent > START_SECONDS:
                raise TrialError(
                    "DIVERGED", f"the training did not reach its first step within {silent:.0f} s", "See its log."
                )
            return
        if self.points[-1].step >= self.total_steps:
            return  # the steps are done; weights are being written
        limit = max(STALL_SECONDS, STALL_STEPS * self.step_seconds)
        if silent > limit:
            at = f"step {self.points[-1].step} of {self.total_steps}"
            usual = f"a step usually takes {self.step_seconds:.1f} s"
            raise TrialError(
                "DIVERGED", f"the training stalled at {at}: no new step for {silent:.0f} s; {usual}", "See its log."
            )

    @property
    def step_seconds(self) -> float:
        """Median seconds of a step so far; 0 before the second point."""
        pairs = zip(self.points, self.points[1:], strict=False)
        paces = [(b.seconds - a.seconds) / (b.step - a.step) for a, b in pairs if b.step > a.step]
        return median(paces) if paces else 0.0

    def _finite(self, point: LossPoint) -> None:
        """A NaN loss stays NaN. An infinite gradient norm may pass (loss scaling); a NaN one means NaN weights next."""
        norm_is_nan = point.grad_norm is not None and math.isnan(point.grad_norm)
        if not math.isfinite(point.loss) or norm_is_nan:
            what = "gradient" if math.isfinite(point.loss) else "loss"
            after = f"; the loss before was {self.points[-2].loss:.3f}" if len(self.points) > 1 else ""
            raise TrialError(
                "DIVERGED",
                f"the {what} is not a number at step {point.step} (learning rate {point.learning_rate:.1e}){after}",
                "Lower the learning rate.",
            )

    def _diverging(self, point: LossPoint) -> None:
        """Loss above the limit for SUSTAINED_POINTS in a row, after warm-up and after the starting level is known."""
        if point.reward is not None:
            self._straying(point)
            return
        self.recent.append(point.loss)
        settled = len(self.points) >= START_POINTS + SUSTAINED_POINTS
        if not settled or point.step - SUSTAINED_POINTS < self.warmup_ratio * self.total_steps:
            return
        # The first point is the untouched model's: where the rate is far too high, the next ones are ruined already.
        start = min(self.points[0].loss, median(each.loss for each in self.points[:START_POINTS]))
        limit = max(DIVERGENCE_FACTOR * start, start + DIVERGENCE_MARGIN)
        if min(self.recent) > limit:
            raise TrialError(
                "DIVERGED",
                f"the loss is {median(self.recent):.2f} at step {point.step} after starting at {start:.2f}: "
                f"above {limit:.2f} for {SUSTAINED_POINTS} steps (learning rate {point.learning_rate:.1e})",
                "Lower the learning rate.",
            )

    def _straying(self, point: LossPoint) -> None:
        """KL above its limit for SUSTAINED_POINTS in a row, or the reward lost."""
        divergences = [each.kl for each in self.points[-SUSTAINED_POINTS:] if each.kl is not None]
        if len(divergences) == SUSTAINED_POINTS and min(divergences) > KL_LIMIT:
            raise TrialError(
                "DIVERGED",
                f"the KL divergence from the start is {median(divergences):.1f} nats a token at step {point.step}: "
                f"above {KL_LIMIT:g} for {SUSTAINED_POINTS} steps (learning rate {point.learning_rate:.1e})",
                "Lower the learning rate.",
            )
        rewards = [each.reward for each in self.points if each.reward is not None]
        began, now = rewards[:REWARD_POINTS], rewards[REWARD_POINTS:][-REWARD_POINTS:]
        if len(now) == REWARD_POINTS and max(now) < REWARD_SHARE * fmean(began):
            raise TrialError(
                "DIVERGED",
                f"the reward is {fmean(now):.2f} at step {point.step} after starting at {fmean(began):.2f}: below "
                f"{REWARD_SHARE:.0%} of that for {REWARD_POINTS} steps (learning rate {point.learning_rate:.1e})",
                "Lower the learning rate.",
            )

    def _overrunning(self, point: LossPoint, now: float) -> None:
        """Where the pace so far ends the training well beyond the deadline."""
        first = self.points[0]
        done = point.step - first.step
        if done < max(OVERRUN_STEPS, OVERRUN_SHARE * self.total_steps):
            return
        pace = (point.seconds - first.seconds) / done
        end = now + (self.total_steps - point.step) * pace
        if end > OVERRUN_MARGIN * self.deadline_s:
            raise TrialError(
                "BUDGET",
                f"at {pace:.1f} s a step the training would end after {end:.0f} s; it has {self.deadline_s:.0f} s",
                "Train fewer rows or fewer epochs.",
            )
