"""BioProBench, knowing a protocol: fill a gap in a step with one of five choices, and say how sure you are.

The score is the accuracy; beside it stands the Brier score, the mean of (confidence - right)^2, which is 0 for answers
that are right and sure. An output without one of the choices is wrong, and its Brier score is 1, the worst; a choice
without a readable confidence counts as wholly sure.

The published scorers leave what they cannot read out of both figures; they read a confidence of 0.9 as 0 %, and a
choice in other case or in quotes as wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from tools.benchmarks.benchmark import Graded, Item
from tools.benchmarks.bioprobench.task import answered, asked, first_tagged, make, tagged
from tools.benchmarks.measures import Mean
from tools.metrics.texts import bare
from tools.raw_data.rows import Row

_NUMBER = re.compile(r"(\d{1,3})(\.\d+)?\s*(%?)")
MOST = 100
"""Per cent."""


def read(output: str, choices: Sequence[str]) -> tuple[str | None, float]:
    """The choice and the confidence from 0 to 1; None where the output names none of the choices."""
    content = tagged(output) or ""
    head, sign, tail = content.rpartition("&")
    for text in (content, head) if sign else (content,):
        said = [choice for choice in choices if bare(choice).casefold() == bare(text).casefold()]
        if said:
            return said[0], _confidence(tail) if sign else 1.0
    return None, 1.0


def _confidence(text: str) -> float:
    """`85`, `85 %` and `0.85` are the same; what is no such number is 1."""
    number = _NUMBER.search(text)
    if number is None:
        return 1.0
    whole, decimals, percent = number.groups()
    value = float(whole + (decimals or ""))
    share = value if decimals and value <= 1 and not percent else value / MOST
    return share if share <= 1 else 1.0


def brier(answer: str | None, confidence: float, gold: str) -> float:
    """The Brier score of one answer, 0 is best."""
    return 1.0 if answer is None else (confidence - (answer == gold)) ** 2


def fork(output: str) -> tuple[str, int] | None:
    """What the published scorers read: a text, and a confidence in per cent; None for what they leave out."""
    content = first_tagged(output)
    if content is None:
        return None
    parts = content.split("&") if "&" in content else list(content.rpartition(" ")[::2])
    number = re.search(r"\d+", parts[-1])
    if len(parts) != 2 or number is None or len(number[0]) > 4 or int(number[0]) > MOST:
        return None
    return parts[0].strip(), int(number[0])


def grade(output: str, item: Item) -> Graded:
    """1 for the right choice."""
    choices = json.loads(item.reference)["choices"]
    gold = json.loads(item.reference)["gold"]
    said, confidence = read(output, choices)
    values = {"brier": brier(said, confidence, gold)}
    published = fork(output)
    if published is not None:
        text, percent = published
        values |= {"accuracy_ftdojo": float(text == gold), "brier_ftdojo": (percent / MOST - (text == gold)) ** 2}
    return Graded(score=float(said == gold), answer=said, values=values)


def item_of(row: Row) -> Item:
    """A sentence with a gap, and five choices."""
    gold, choices = str(row["answer"]), [str(choice) for choice in row["choices"]]  # type: ignore[attr-defined]
    listed = "\n".join(f"- {choice}" for choice in choices)
    question = f"Which of the choices belongs in the gap of this step of a protocol?\n\n{row['question']}\n\n{listed}"
    return Item(
        id=str(row["id"]),
        prompt=asked(question, "the choice & your confidence from 0 to 100%"),
        answer=answered(f"{gold} & 100%"),
        columns={"kind": str(row["type"])},
        reference=json.dumps({"gold": gold, "choices": choices}),
    )


PQA = make(
    "PQA",
    "Which of five choices fills the gap in a step of a protocol, and how sure is it?",
    item_of,
    grade,
    Mean("accuracy"),
    (
        Mean("Brier", "brier", higher_is_better=False),
        Mean("accuracy_ftdojo", "accuracy_ftdojo"),
        Mean("Brier_ftdojo", "brier_ftdojo", higher_is_better=False),
    ),
    max_new_tokens=256,
)
