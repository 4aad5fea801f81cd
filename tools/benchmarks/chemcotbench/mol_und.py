"""ChemCoTBench, understanding a molecule: count a group or its rings, find its scaffold, compare two SMILES.

Five subtasks, each with its own published measure: the mean absolute error of the counts of functional groups and of
rings, the Tanimoto similarity of the Murcko scaffold, the accuracy of two yes-or-no questions. An item scores 1 for the
right count, 1 for the right yes or no, and its similarity for a scaffold; the benchmark's score is the mean over the
subtasks, and the published measures stand beside it.

A constant is hard to beat here: "1" has an error of 0.09 on groups, "2" of 0.15 on rings, "Yes" is right on two thirds
of the ring systems and half of the pairs.
"""

from __future__ import annotations

import re
from typing import Literal

from memory.records import Record
from tools.benchmarks import molecules
from tools.benchmarks.chemcotbench import replies

Subtask = Literal["fg_count", "ring_count", "Murcko_scaffold", "ring_system_scaffold", "equivalence"]
KEYS: dict[Subtask, tuple[str, ...]] = {
    "fg_count": ("count", "output", "answer"),
    "ring_count": ("count", "output", "answer"),
    "Murcko_scaffold": ("Output Scaffold", "output", "answer"),
    "ring_system_scaffold": ("output", "answer"),
    "equivalence": ("output", "answer"),
}
"""The prompt's own key first."""
COUNTS = ("fg_count", "ring_count")
YES_NO = ("ring_system_scaffold", "equivalence")
_COUNT = re.compile(r"\d{1,6}")
"""More digits are no count of anything in a molecule."""


class Question(Record):
    """What the scorers need of an item."""

    subtask: Subtask
    gold: str
    """A count, a SMILES, or Yes or No."""


def read(output: str, subtask: Subtask) -> str | None:
    """The answer: a count, Yes or No, or a text for a SMILES; None where the output holds none."""
    said = replies.answer(output, KEYS[subtask])
    said = replies.bare(output) if said is None else said
    if subtask in COUNTS:
        return str(int(said)) if _COUNT.fullmatch(said) else None
    if subtask in YES_NO:
        return said.capitalize() if said.lower() in ("yes", "no") else None
    return said if molecules.parsed(said) is not None else None


def score(answer: str | None, question: Question) -> float:
    """0 to 1; an output without an answer is wrong."""
    if answer is None:
        return 0.0
    if question.subtask == "Murcko_scaffold":
        return molecules.tanimoto(answer, question.gold, "morgan_1024")
    return float(answer == question.gold)


def error(answer: str | None, question: Question) -> float:
    """How far a count is off. An output without a count is as far off as the answer 0, and by 1 at least."""
    gold = int(question.gold)
    return float(abs(int(answer) - gold)) if answer is not None else float(max(gold, 1))


def fork(output: str, question: Question) -> float:
    """FT-Dojo's figure of an item: the error of a count, the similarity of a scaffold, 1 or 0 for yes or no.

    Any number in the text counts as the count, no number as 0, and any "yes" before any "no".
    """
    said = _fork_read(output, question.subtask)
    if question.subtask in COUNTS:
        return _fork_error(said, int(question.gold))
    if question.subtask in YES_NO:
        return float(said.lower() == question.gold.lower())
    return molecules.tanimoto(said, question.gold, "morgan_1024")


def authors(output: str, question: Question) -> float | None:
    """The authors' figure of an item; None where they leave it out, since its reply could not be parsed.

    They take the scaffold of the predicted scaffold before they compare, so that whole molecules may pass. In
    `ring_system_scaffold` they count how often "yes" was said, whatever the gold.
    """
    said = (replies.authors(output) or {}).get(KEYS[question.subtask][0], "")
    if said == "" or said is None:
        return None
    text = str(said)
    if question.subtask in COUNTS:
        return float(abs(int(text) - int(question.gold))) if _COUNT.fullmatch(text.strip()) else None
    if question.subtask == "ring_system_scaffold":
        return float(text.lower() == "yes")
    if question.subtask == "equivalence":
        return float(text.lower() == question.gold.lower())
    return scaffold_similarity(question.gold, text)


def scaffold_similarity(one: str, other: str) -> float:
    """Of the Murcko scaffolds of two molecules: 1 where they are the same, else the Tanimoto similarity of their Morgan
    fingerprints (radius 2, 1024 bits); 0 where one is no molecule. The authors call it soft scaffold consistency."""
    mine, theirs = molecules.scaffold(one), molecules.scaffold(other)
    if mine is None or theirs is None:
        return 0.0
    return 1.0 if mine == theirs else molecules.tanimoto(mine, theirs, "morgan_1024")


def _fork_read(output: str, subtask: Subtask) -> str:
    keys = tuple(key for key in KEYS[subtask] if not (subtask in COUNTS and key == "output"))
    value = replies.fork_object(output) or {}
    said = next((value[key] for key in keys if key in value), None)
    if said is not None:
        return str(said).strip()
    text = replies.fenced(output)
    if subtask in COUNTS:
        patterns = [rf'"{key}"\s*:\s*"?(\d+)"?' for key in keys] + [r"\b(\d+)\b"]
    elif subtask in YES_NO:
        patterns = [rf'"{key}"\s*:\s*"((?i:yes|no))"' for key in keys] + [r"\b((?i:yes))\b", r"\b((?i:no))\b"]
    else:
        patterns = [rf'"(?i:{key})"\s*:\s*"([^"]*)"' for key in keys]
    found = next(filter(None, (re.search(pattern, text) for pattern in patterns)), None)
    return (found[1] if found else text).strip()


def _fork_error(said: str, gold: int) -> float:
    """What is no whole number counts as 0; so does a number that is too long for a float."""
    try:
        return float(abs(int(said) - gold)) if said else float(abs(gold))
    except (ValueError, OverflowError):
        return float(abs(gold))
