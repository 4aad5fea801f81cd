"""BioProBench, ordering a protocol: bring its shuffled steps into their order.

An answer is a list of the shuffled steps' numbers. It scores the share of pairs of steps that stand in the right order;
2 * share - 1 is Kendall's tau, and its mean over the items is the benchmark's score. An output without an order is as
bad as the reversed one: tau is -1. Steps with the same text can be exchanged for each other.

The published scorers leave out what they cannot read. Their tau is pooled over the pairs of all items, so that a
protocol of 30 steps counts as much as 145 of three. FT-Dojo's asks for one certain order of identical steps, but for a
wrong one: the 16 items that have such steps cannot be solved, and their right answers are left out. The authors'
compares sets of numbers, so that [0, 0, 1, 2] passes for an order of three steps.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from memory.records import Outcome, Record
from tools.benchmarks.benchmark import Graded, Item
from tools.benchmarks.bioprobench.task import answered, asked, make, tagged
from tools.benchmarks.measures import Aggregate, Mean
from tools.raw_data.rows import Row

LONGEST = 2000
"""Characters of a list; 30 steps take 110."""


class Question(Record):
    """What the scorers need of an item."""

    shuffled: tuple[str, ...]
    """The steps as they are shown, numbered from 0."""
    correct: tuple[str, ...]


def read(output: str, steps: int) -> list[int] | None:
    """The numbers of the shuffled steps in the answered order; None where it is no order of all of them."""
    numbers = _listed(output)
    if numbers is None or any(type(number) is not int for number in numbers):
        return None
    return numbers if sorted(numbers) == list(range(steps)) else None


def _listed(output: str) -> list[Any] | None:
    """The list between the last tags, of whatever; None where there is no list."""
    content = tagged(output)
    if content is None or len(content) > LONGEST:
        return None
    try:
        value = ast.literal_eval(content)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None
    return list(value) if isinstance(value, list | tuple) else None


def _converted(values: Sequence[Any] | None) -> list[int] | None:
    """FT-Dojo's scorer makes whole numbers of what it finds, also of texts."""
    try:
        return None if values is None else [int(value) for value in values]
    except (ValueError, TypeError, OverflowError):
        return None


def places(order: Sequence[int], question: Question) -> list[int]:
    """For each answered step its place in the correct order; of identical steps the first goes to the first place."""
    free: dict[str, list[int]] = {}
    for place, step in enumerate(question.correct):
        free.setdefault(step, []).append(place)
    return [free[question.shuffled[number]].pop(0) for number in order]


def in_order(ranks: Sequence[int]) -> int:
    """Pairs that stand in the right order."""
    return sum(one < other for one, other in combinations(ranks, 2))


def fork_ranks(output: str, question: Question) -> tuple[bool, list[int]] | None:
    """What FT-Dojo's scorer compares: whether the order is its gold, and the gold's ranks of the answered numbers; None
    for what it leaves out. Its gold numbers identical steps all alike."""
    last = {step: number for number, step in enumerate(question.shuffled)}
    gold = [last[step] for step in question.correct]
    said = _converted(_listed(output))
    if said is None or len(said) != len(gold) or set(said) != set(gold):
        return None
    rank = {number: place for place, number in enumerate(gold)}
    answered_at = {number: place for place, number in enumerate(said)}
    return said == gold, [rank[number] for number in sorted(answered_at, key=lambda number: answered_at[number])]


def authors_ranks(output: str, question: Question) -> tuple[bool, list[int]] | None:
    """What the authors' scorer compares: whether the texts are the correct ones in their order, and the ranks of the
    answered texts, each text once; None for what it leaves out."""
    said = _listed(output)
    if (
        said is None
        or any(type(number) is not int for number in said)
        or set(said) != set(range(len(question.correct)))
    ):
        return None
    steps = [question.shuffled[number] for number in said]
    rank = {step: place for place, step in enumerate(question.correct)}
    answered_at = {step: place for place, step in enumerate(steps)}
    exact = steps == list(question.correct)
    return exact, [rank[step] for step in sorted(answered_at, key=lambda step: answered_at[step])]


def grade(output: str, item: Item) -> Graded:
    """The share of pairs in the right order."""
    question = Question.model_validate_json(item.reference)
    pairs = _pairs(len(question.correct))
    order = read(output, len(question.correct))
    ranks = [] if order is None else places(order, question)
    right = in_order(ranks)
    values = {
        "tau": 2 * right / pairs - 1,
        "exact": float(bool(ranks) and ranks == sorted(ranks)),
        "right": float(right),
        "pairs": float(pairs),
    }
    for name, published in (
        ("ftdojo", fork_ranks(output, question)),
        ("official", authors_ranks(output, question)),
    ):
        if published is not None:
            exact, theirs = published
            values |= {
                f"exact_{name}": float(exact),
                f"right_{name}": float(in_order(theirs)),
                f"pairs_{name}": float(_pairs(len(theirs))),
            }
    return Graded(score=right / pairs, answer=None if order is None else json.dumps(order), values=values)


def _pairs(steps: int) -> int:
    return steps * (steps - 1) // 2


def pooled(name: str, suffix: str = "") -> Aggregate:
    """Tau over the pairs of all items together."""

    def of(outcomes: Sequence[Outcome]) -> float:
        pairs = sum(outcome.values[f"pairs{suffix}"] for outcome in outcomes)
        return 2 * sum(outcome.values[f"right{suffix}"] for outcome in outcomes) / pairs - 1 if pairs else 0.0

    return Aggregate(name, of, f"right{suffix}")


def item_of(row: Row) -> Item:
    """The shuffled steps, numbered; the answer takes identical steps in the order in which they are shown."""
    question = Question.model_validate({"shuffled": row["wrong_steps"], "correct": row["correct_steps"]})
    numbers: dict[str, list[int]] = {}
    for number, step in enumerate(question.shuffled):
        numbers.setdefault(step, []).append(number)
    order = [numbers[step].pop(0) for step in question.correct]
    listed = "\n".join(f"{number}: {step}" for number, step in enumerate(question.shuffled))
    return Item(
        id=str(row["id"]),
        prompt=asked(f"{row['question']}\n\n{listed}", "the numbers in the right order, as in [2, 0, 1]"),
        answer=answered(json.dumps(order)),
        columns={"steps": len(order), "kind": str(row["type"])},
        reference=question.model_dump_json(),
    )


ORD = make(
    "ORD",
    "Bring the shuffled steps of a protocol into their order",
    item_of,
    grade,
    Mean("Kendall's tau", "tau"),
    (
        Mean("exact match", "exact"),
        pooled("tau over all pairs"),
        Mean("exact_match_ftdojo", "exact_ftdojo"),
        pooled("kendall_tau_ftdojo", "_ftdojo"),
        Mean("exact_match_official", "exact_official"),
        pooled("kendall_tau_official", "_official"),
    ),
    max_new_tokens=256,
    window=4096,  # the longest list of steps has 3,191 tokens with the embedded model's tokenizer
)
