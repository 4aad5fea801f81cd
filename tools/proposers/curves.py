"""What a training curve says: whether the loss still fell at the end, and whether it ever broke out upwards."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev

from memory.records import LossPoint, Record

FEWEST_POINTS = 8
"""Fewer loss points say nothing about a shape."""
STILL_FALLING = 0.05
"""Relative drop from the third to the last quarter above which a curve had not settled."""
SPIKE = 1.5
"""A stretch of the curve this many times as high as the lowest one before it is a spike (recipes call 2 to 10 a
jump)."""
WILD_GRADIENT = 10.0
"""Gradient norm that a healthy training rarely exceeds (Axolotl's stability guide)."""
WILD_SHARE = 0.2
"""So many of them above it are no accident."""


class Curve(Record):
    """A training curve in four figures."""

    points: int
    start: float
    """Mean loss of the first eighth."""
    end: float
    """Mean loss of the last quarter."""
    drop: float
    """Relative drop from the third to the last quarter, less one standard error; at most 1, negative where it rose."""
    spike: float
    """The highest ratio of a stretch (an eighth) to the lowest stretch before it; 1 where the curve only fell."""
    wild: float
    """Share of points after warm-up with a gradient norm above `WILD_GRADIENT`."""

    @property
    def falling(self) -> bool:
        """Whether the loss still fell when the training ended, other than back from a spike."""
        return self.drop > STILL_FALLING and self.smooth

    @property
    def smooth(self) -> bool:
        """Whether the curve shows no sign of too high a learning rate."""
        return self.spike < SPIKE and self.wild < WILD_SHARE


def curve_of(losses: Sequence[LossPoint]) -> Curve | None:
    """The shape of a curve, or None where it has too few points, or where rewards were learnt from: GRPO's loss says
    nothing."""
    if len(losses) < FEWEST_POINTS or losses[0].reward is not None:
        return None
    values = [point.loss for point in losses]
    quarter = max(2, len(values) // 4)
    third, last = values[-2 * quarter : -quarter], values[-quarter:]
    noise = (stdev(third) ** 2 / quarter + stdev(last) ** 2 / quarter) ** 0.5
    late = losses[len(losses) // 10 :]
    norms = [point.grad_norm for point in late if point.grad_norm is not None]
    return Curve(
        points=len(values),
        start=fmean(values[: max(1, len(values) // 8)]),
        end=fmean(last),
        drop=(fmean(third) - fmean(last) - noise) / max(fmean(third), 1e-6),
        spike=_highest_rise(values),
        wild=sum(norm > WILD_GRADIENT for norm in norms) / len(norms) if norms else 0.0,
    )


def _highest_rise(values: Sequence[float]) -> float:
    """Highest ratio of a stretch's mean to the lowest mean before it; a floor keeps ratios of tiny losses quiet.

    A rise counts beyond two standard errors of the difference: with few labels in a batch the loss of single steps
    jumps about, and that is no sign of a high learning rate.
    """
    size = max(3, len(values) // 8)
    stretches = [values[i : i + size] for i in range(0, len(values) - size + 1, size)]
    floor = 0.1 * max(fmean(stretch) for stretch in stretches)
    lowest, rise = stretches[0], 1.0
    for stretch in stretches[1:]:
        noise = ((stdev(stretch) ** 2 + stdev(lowest) ** 2) / size) ** 0.5
        rise = max(rise, (fmean(stretch) - 2 * noise) / max(fmean(lowest), floor))
        lowest = min(lowest, stretch, key=fmean)
    return rise
