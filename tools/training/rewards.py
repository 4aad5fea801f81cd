"""Rewards of a reinforcement: the benchmark's own scorer, called on what the model answers while it trains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from memory.errors import InputError, TrialError
from tools.benchmarks.benchmark import Benchmark, Item
from tools.engines.axolotl import rewards
from tools.operators.rows import item_id


@dataclass(frozen=True)
class Rewards:
    """The scorer, and the items that training rows were made of."""

    benchmark: Benchmark
    items: Mapping[str, Item]
    """Of the training split, by id."""

    @property
    def longest_answer(self) -> int:
        """Tokens that an answer may have, as in every evaluation: a longer one is cut and scored as it stands."""
        return self.benchmark.max_new_tokens

    def answer(self, folder: Path) -> None:
        """Score what the training in `folder` asks about. Raises TrialError, and what the scorer raises: a failed score
        never counts as 0."""
        rewards.answer(folder, self.scores(*rewards.asked(folder)))

    def scores(self, rows: Sequence[str], answers: Sequence[str]) -> list[float]:
        """The score of each answer, 0 to 1, by the item of its training row. Raises TrialError: DATA for a row that is
        no item of the benchmark, ENV where a person's own scoring function fails."""
        return [self.score(row, answer) for row, answer in zip(rows, answers, strict=True)]

    def score(self, row: str, answer: str) -> float:
        """One of `scores`."""
        item = self.items.get(row) or self.items.get(item_id(row))
        if item is None:
            what = f"row {row} is no training item of {self.benchmark.name}, so nothing can score answers to it"
            raise TrialError("DATA", what, "Leave rows of other sources out.")
        try:
            return float(self.benchmark.grade(answer, item).score)
        except InputError as error:
            raise TrialError(
                "ENV", f"the scorer failed on an answer to row {row}: {error.message}", error.way_out
            ) from error
