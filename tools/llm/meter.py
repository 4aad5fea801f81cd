"""What the calls of a run cost, kept on disk so that a cap holds over kills and resumes."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from memory.errors import ModelError, StorageError
from memory.layout import disk, made, write_rows
from memory.records import ModelCall, ModelUse

CALLS = "calls.jsonl"


class Meter:
    """Counts calls, for several threads at once. A call is written down before it is sent, with the most it can cost.

    A process that is killed in mid-call leaves that estimate standing: the server may have billed it.
    """

    def __init__(self, folder: Path, budget_usd: float | None) -> None:
        """`folder` takes the list of calls; `budget_usd` None sets no cap."""
        self.path = folder / CALLS
        self.budget_usd = budget_usd
        self.trial: int | None = None
        """The trial that calls are for from now on."""
        self._turn = threading.Lock()
        self._calls = {call.id: call for call in all_calls(folder)}
        if self._calls:
            write_rows(self.path, self._calls.values())  # without the half line that a power cut may have left
        self._numbers = itertools.count(len(self._calls) + 1)

    def begin(self, purpose: str, model: str, most_dollars: float | None) -> ModelCall:
        """Write down a call that is about to be sent. Raises ModelError (budget) where it could exceed the cap."""
        with self._turn:
            if self.budget_usd is not None:
                self._refuse_beyond(self.budget_usd, model, most_dollars)
            call = ModelCall(
                id=str(next(self._numbers)),
                state="sent",
                purpose=purpose,
                model=model,
                trial=self.trial,
                dollars=most_dollars,
            )
            self._write(call)
        return call

    def end(self, call: ModelCall) -> None:
        """Write down what a call came to. Raises StorageError."""
        with self._turn:
            self._write(call)

    @property
    def spent_usd(self) -> float:
        """Dollars of all calls with a known price, those that are on their way at their most."""
        return sum(call.dollars or 0.0 for call in self._calls.values())

    def spent_before(self, trial: int) -> tuple[float, int]:
        """Dollars of all calls for earlier trials, and how many trials those were: what a planner may be told, for it
        is the same after a resume in the middle of the planning."""
        calls = [call for call in self._calls.values() if call.trial is not None and call.trial < trial]
        return sum(call.dollars or 0.0 for call in calls), len({call.trial for call in calls})

    def _refuse_beyond(self, budget: float, model: str, most: float | None) -> None:
        if most is None:
            raise ModelError("budget", f"no price is known for {model}", f"Give it: --price {model}=IN/OUT.")
        if self.spent_usd + most > budget:
            raise ModelError(
                "budget",
                f"a call of {model} can cost ${most:.4f}, and ${budget - self.spent_usd:.4f} of ${budget:g} are left",
                "Give a larger --budget-usd.",
            )

    def _write(self, call: ModelCall) -> None:
        made(self.path.parent)
        with disk(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(call.model_dump_json() + "\n")
        self._calls[call.id] = call


def all_calls(folder: Path) -> list[ModelCall]:
    """The calls of a run, each as it was last written; none where no model was asked. Raises StorageError."""
    path = folder / CALLS
    if not path.exists():
        return []
    whole = path.read_text(encoding="utf-8").split("\n")[:-1]
    try:
        calls = [ModelCall.model_validate_json(line) for line in whole]
    except ValidationError as error:
        raise StorageError(f"{path} is no list of model calls: {error.errors()[0]['msg']}") from error
    return list({call.id: call for call in calls}.values())


def uses(calls: Iterable[ModelCall]) -> tuple[ModelUse, ...]:
    """The calls added up, by purpose and model in the order in which they were first made."""
    groups: dict[tuple[str, str], list[ModelCall]] = {}
    for call in calls:
        groups.setdefault((call.purpose, call.model), []).append(call)
    return tuple(
        ModelUse(
            purpose=purpose,
            model=model,
            calls=len(group),
            prompt_tokens=sum(call.prompt_tokens for call in group),
            answer_tokens=sum(call.answer_tokens for call in group),
            dollars=_sum(call.dollars for call in group),
            seconds=sum(call.seconds for call in group),
        )
        for (purpose, model), group in groups.items()
    )


def _sum(dollars: Iterable[float | None]) -> float | None:
    """The sum; None where one of them is not known."""
    known = list(dollars)
    return None if None in known else sum(each or 0.0 for each in known)
