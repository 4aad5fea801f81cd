"""Work that costs money or runs generated code: a few rows first, and the whole only where it fits what is left.

What is on disk already costs nothing and is left out of the rehearsal; what the rehearsal did is not done again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from memory.errors import TrialError
from memory.records import FailureKind, Rehearsal
from tools.llm.meter import Meter

U = TypeVar("U")
R = TypeVar("R")

REHEARSED = 20
"""Rows of a rehearsal: enough to see a prompt or a function fail, and to tell a cost to about a tenth."""
MOST_FAILED = 0.2
"""Share of calls that may fail, of the rehearsal and of the whole; more is the step's fault and not the rows'."""

CAUTION = 2.0
"""Times what the first call of a rehearsal cost: what the others may cost each, until it is known."""


class RowError(Exception):
    """Nothing came of one row. `reason` is what is counted; the message names the row."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Room:
    """What the steps of a recipe may still take, and who is told how far they are."""

    seconds_left: Callable[[], float]
    """Wall clock that is left for making the training file."""
    rehearsed: Callable[[Rehearsal], None]
    progress: Callable[[str, int, int], None]
    """`progress(step, done, total)`."""


@dataclass(frozen=True)
class Job(Generic[U, R]):
    """The work of one step, unit by unit."""

    step: str
    units: Sequence[U]
    do: Callable[[U], R]
    """Does one unit. Raises RowError; what else it raises ends the trial or the run."""
    came: Callable[[R], int]
    """Rows that came of a unit."""
    rows: Callable[[U], int] = lambda _: 1
    """Rows that a unit stands for."""
    at_once: int = 1
    """Units at the same time."""
    new: Callable[[U], bool] = lambda _: True
    """Whether a unit has still to be paid for."""
    meter: Meter | None = None
    """Counts what it costs; None where it costs nothing."""
    most_dollars: float | None = 0.0
    """The most that a unit can cost; None where the price is not known."""


class Done(NamedTuple, Generic[R]):
    """What came of a job."""

    results: list[R | RowError]
    """One for each unit, in order."""
    rehearsals: tuple[Rehearsal, ...]
    """The one that was made; none where all was on disk."""


def worked_off(job: Job[U, R], room: Room) -> Done[R]:
    """Rehearse, look, and do the rest.

    Raises TrialError: DATA where too many units fail or nothing comes of them, BUDGET where the whole does not fit the
    dollars or the time left; and what `do` raises.
    """
    new = [place for place, unit in enumerate(job.units) if job.new(unit)]
    done: dict[int, R | RowError] = {}
    rehearsals: tuple[Rehearsal, ...] = ()
    if few := spread(new, math.ceil(REHEARSED / job.rows(job.units[new[0]])) if new else 1):
        done, took = _tried(job, few)
        rehearsal = _measured(job, done, took, new)
        rehearsals = (rehearsal,)
        room.rehearsed(rehearsal)
        _refuse(job, rehearsal, room)
    failed = sum(isinstance(each, RowError) for each in done.values())
    rest = _worked(job, [place for place in range(len(job.units)) if place not in done], _ahead(rehearsals))
    with closing(rest) as results:
        for place, result in results:
            done[place] = result
            failed += isinstance(result, RowError)
            if failed > MOST_FAILED * len(job.units):
                raise TrialError("DATA", f"{job.step}: {failed} of {len(done)} calls failed; the last: {result}")
            room.progress(job.step, len(done), len(job.units))
    return Done([done[place] for place in range(len(job.units))], rehearsals)


def spread(places: Sequence[int], most: int) -> list[int]:
    """At most so many of the places, at even distances: rows may lie in an order."""
    step = max(1, len(places) // most)
    return list(places[::step][:most])


def money_left(job: Job[U, R]) -> float | None:
    """Dollars under the cap; None where there is none."""
    return None if job.meter is None or job.meter.budget_usd is None else job.meter.budget_usd - job.meter.spent_usd


class _Took(NamedTuple):
    """What a rehearsal took."""

    seconds: float
    dollars: float
    unit_seconds: float
    """Seconds a unit, the first left out: it may bring up a server."""


def _tried(job: Job[U, R], few: list[int]) -> tuple[dict[int, R | RowError], _Took]:
    """The results of a rehearsal, and what it took."""
    began, spent = time.monotonic(), job.meter.spent_usd if job.meter else 0.0
    done: dict[int, R | RowError] = {}
    for place, result in _worked(job, few[:1]):
        done[place] = result
    first, paid = time.monotonic() - began, job.meter.spent_usd - spent if job.meter else 0.0
    for place, result in _worked(job, few[1:], CAUTION * paid * (len(few) - 1)):
        done[place] = result
    seconds = time.monotonic() - began
    unit_seconds = (seconds - first) / (len(few) - 1) if len(few) > 1 else first
    return done, _Took(seconds, (job.meter.spent_usd if job.meter else 0.0) - spent, unit_seconds)


def _measured(job: Job[U, R], done: dict[int, R | RowError], took: _Took, new: Sequence[int]) -> Rehearsal:
    failures = [each for each in done.values() if isinstance(each, RowError)]
    known = job.most_dollars is not None
    return Rehearsal(
        step=job.step,
        rows=sum(job.rows(job.units[place]) for place in done),
        calls=len(done),
        came=sum(job.came(each) for each in done.values() if not isinstance(each, RowError)),
        failed=len(failures),
        first_failure=str(failures[0]) if failures else "",
        seconds=round(took.seconds, 3),
        dollars=took.dollars if known else None,
        whole_rows=sum(job.rows(job.units[place]) for place in new),
        whole_seconds=round(took.seconds + took.unit_seconds * (len(new) - len(done)), 1),
        whole_dollars=took.dollars * len(new) / len(done) if known else None,
    )


def _refuse(job: Job[U, R], rehearsal: Rehearsal, room: Room) -> None:
    """Raises TrialError where the whole is not worth beginning."""
    if rehearsal.failed > MOST_FAILED * rehearsal.calls:
        raise _refused("DATA", rehearsal, "too many calls failed", "Change the step, or leave it out.")
    if rehearsal.came == 0:
        raise _refused("DATA", rehearsal, "no row came out of it", "Change the step, or leave it out.")
    money, ahead = money_left(job), _ahead((rehearsal,))
    if money is not None and ahead and ahead + (job.most_dollars or 0.0) > money:
        why = f"${money:.4f} are left, and a call has to be able to cost ${job.most_dollars or 0.0:.4f}"
        raise _refused("BUDGET", rehearsal, why, "Ask for fewer rows, or raise --budget-usd.")
    seconds, left = rehearsal.whole_seconds - rehearsal.seconds, room.seconds_left()
    if seconds > max(0.0, left):
        raise _refused("BUDGET", rehearsal, f"{max(0.0, left):.0f} s are left for data", "Ask for fewer rows.")


def _refused(kind: FailureKind, rehearsal: Rehearsal, why: str, way_out: str) -> TrialError:
    return TrialError(kind, f"{why}: {rehearsal.says}", way_out)


def _ahead(rehearsals: Iterable[Rehearsal]) -> float:
    """Dollars that the rest will cost, as far as prices are known."""
    return sum((each.whole_dollars or 0.0) - (each.dollars or 0.0) for each in rehearsals)


def _worked(
    job: Job[U, R], places: Sequence[int], ahead: float = 0.0
) -> Generator[tuple[int, R | RowError], None, None]:
    """The units at these places, one result after the other. A call reserves the most that it can cost, so that fewer
    are on their way where money is short; `ahead` is what all of them will come to."""

    def attempt(place: int) -> R | RowError:
        try:
            return job.do(job.units[place])
        except RowError as error:
            return error

    money, at_once = money_left(job), job.at_once
    if money is not None and job.most_dollars:
        at_once = max(1, min(at_once, int((money - ahead) / job.most_dollars)))
    with _mapping(at_once) as each:
        yield from zip(places, each(attempt, places), strict=True)


@contextmanager
def _mapping(at_once: int) -> Iterator[Callable[[Callable[[int], R], Iterable[int]], Iterator[R]]]:
    """`map`, in so many threads; leaving early cancels what was not begun."""
    if at_once == 1:
        yield map
        return
    with ThreadPoolExecutor(at_once) as pool:
        yield pool.map
