"""Benchmarks made from reasoning-gym: the library's questions, stored with its own entry, scored by its own verifier.

Source: github.com/open-thought/reasoning-gym (Apache-2.0). The verifiers give partial credit (a tenth for any
weekday, a share for a gold that is buried in other text); partial credit would pay for chatter, so here an answer is
right, 1, only where the verifier gives its full mark, and wrong, 0, otherwise.

The library's generators seed item i with `seed + i`: neighbouring seeds give the same questions, shifted by one. The
seeds of the splits therefore lie 10^9 apart.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import metadata
from typing import Any, get_args

from memory.errors import SetupError
from tools.benchmarks.benchmark import Benchmark, Graded, Item, Split

VERSION = "0.1.25"
SEED_STRIDE = 1_000_000_000
"""Distance between the seeds of two splits; no split draws that many candidates."""

Parse = Callable[[str], str | None]
Setting = int | float | str | list[str]


@dataclass(frozen=True)
class Puzzle:
    """A generator of the library with its settings, and what is told to the model beside the question."""

    dataset: str
    """The library's name of the generator."""
    settings: dict[str, Setting] = field(default_factory=dict)
    form: str = ""
    """One line on the form of the answer, where the question does not say it."""
    subset: str = ""
    """Key of the entry's metadata that names the subset; empty for none."""
    columns: tuple[str, ...] = ()
    """Keys of the entry's metadata that become columns."""


def closed(answers: Iterable[str]) -> Parse:
    """Extraction for closed answers: the stripped output, if it is one of them to the letter."""
    known = frozenset(answers)

    def parse(output: str) -> str | None:
        answer = output.strip()
        return answer if answer in known else None

    return parse


def one_word(output: str) -> str | None:
    """Extraction for one-word answers: the stripped output; nothing, or several words, hold no answer."""
    words = output.split()
    return words[0] if len(words) == 1 else None


def text(output: str) -> str | None:
    """Extraction for free text: the stripped output; an empty one holds no answer."""
    return output.strip() or None


def make(
    name: str, title: str, puzzle: Puzzle, parse: Parse, *, max_new_tokens: int, answers: tuple[str, ...] | None = None
) -> Benchmark:
    """A benchmark from one of the library's generators; `answers` are all its answers where they are closed."""

    def draw(split: Split, seed: int) -> Iterator[Item]:
        return _draw(puzzle, split, seed)

    def grade(output: str, item: Item) -> Graded:
        answer = parse(output)
        if answer is None:
            return Graded(score=0.0, answer=None)
        verifier = _generator(puzzle.dataset, json.dumps(puzzle.settings), 0)
        mark = verifier.score_answer(answer, json.loads(item.reference))
        return Graded(score=1.0 if mark == 1.0 else 0.0, answer=answer)

    return Benchmark(
        name=name,
        title=title,
        source=f"reasoning-gym {VERSION}, {puzzle.dataset}",
        licence="Apache-2.0",
        draw=draw,
        grade=grade,
        max_new_tokens=max_new_tokens,
        closed_answers=answers,
        generated=True,
    )


def _draw(puzzle: Puzzle, split: Split, seed: int) -> Iterator[Item]:
    """Endless candidates of one split."""
    splits = get_args(Split)
    first = (seed * len(splits) + splits.index(split)) * SEED_STRIDE
    generator = _generator(puzzle.dataset, json.dumps(puzzle.settings), first)
    for index in range(SEED_STRIDE):
        entry = generator[index]
        facts = entry["metadata"]
        yield Item(
            id=f"{split}-{index}",
            prompt="\n".join(part for part in (entry["question"].strip(), puzzle.form) if part),
            answer=entry["answer"],
            subset=str(facts[puzzle.subset]) if puzzle.subset else "",
            columns={key: facts[key] for key in puzzle.columns},
            reference=json.dumps(entry),
        )


@lru_cache(maxsize=32)
def _generator(dataset: str, settings: str, seed: int) -> Any:
    """The library's generator. Raises SetupError for another version of the library, which would draw other questions.

    The library is imported here because that takes seconds and warns about the syntax of its own code.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        import reasoning_gym
    if (installed := metadata.version("reasoning-gym")) != VERSION:
        raise SetupError(
            f"reasoning-gym {installed} is installed; its questions may differ from {VERSION}", "Run `make setup`."
        )
    generator = reasoning_gym.create_dataset(dataset, seed=seed, size=SEED_STRIDE, **json.loads(settings))
    if isinstance(getattr(generator, "letters", None), set):
        generator.letters = _SortedSet(generator.letters)
    return generator


class _SortedSet(set[str]):
    """A set that is walked in sorted order. Some generators choose from the letters of a set, whose order changes from
    process to process; the same seed must give the same items everywhere."""

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(super().__iter__()))

    def __sub__(self, other: object) -> _SortedSet:
        if not isinstance(other, set):
            return NotImplemented
        return _SortedSet(letter for letter in super().__iter__() if letter not in other)
