"""The learning-rate range test: the rate rises from step to step, and where the loss leaves its best is too much.

Smith 2015 (arXiv 1506.01186). A short sweep reads high: every rate gets one step only, and an adapter's B, which is
zero at first, lets the first ones change nothing. What it names is a limit; the rate to train at lies well below it.
With 24 steps the loss left its best at 1.4e-2 (syllogism) and 2.0e-2 (family_relationships), with 40 steps at 5.1e-3
and 7.5e-3 (SmolLM2-135M, LoRA rank 16, batch 4); there trainings did best at 2e-3 to 3e-3. So with 24 steps the rate to
train at is a tenth to a fifth of the limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from memory.records import SweepPoint, TrainingRecipe

LOWEST, HIGHEST = 1e-5, 2e-2
"""For an adapter; full tuning takes a tenth of both."""
FULL_SHARE = 0.1
SMOOTHING = 0.7
"""Share of the running mean that each step keeps: a loss over a batch of four short answers is noisy."""
SETTLED = 3
"""The first losses are too few for a mean: the best is looked for from here on."""
DIVERGED, MARGIN = 2.0, 0.5
"""The loss has left its best once it is this multiple of it, and at least so many nats above: twice a loss near zero is
still near zero."""


class Sweep(NamedTuple):
    """What the losses of a sweep say."""

    points: tuple[SweepPoint, ...]
    diverges_at: float | None


def rates(recipe: TrainingRecipe, steps: int) -> tuple[float, ...]:
    """The learning rates of a sweep, from low to high, evenly spaced in their logarithm."""
    share = FULL_SHARE if recipe.method == "full" else 1.0
    return tuple(share * LOWEST * (HIGHEST / LOWEST) ** (at / max(1, steps - 1)) for at in range(steps))


def read(tried: Sequence[float], losses: Sequence[float]) -> Sweep:
    """The smoothed curve, and the first rate whose loss exceeds DIVERGED times the best, and the best by MARGIN.

    `losses` belong to the first of `tried`; fewer than that mean that the next one was not a number. The running mean
    is corrected for its start (Kingma and Ba 2014, arXiv 1412.6980, section 3).
    """
    points, mean, best = [], 0.0, float("inf")
    diverges_at = None
    for at, (rate, loss) in enumerate(zip(tried, losses, strict=False), 1):
        mean = SMOOTHING * mean + (1 - SMOOTHING) * loss
        smooth = mean / (1 - SMOOTHING**at)
        points.append(SweepPoint(rate=rate, loss=smooth))
        best = min(best, smooth) if at >= SETTLED else best
        if diverges_at is None and smooth > max(DIVERGED * best, best + MARGIN):
            diverges_at = rate
    if diverges_at is None and len(losses) < len(tried):
        diverges_at = tried[len(losses)]
    return Sweep(tuple(points), diverges_at)
