"""ChemCoTBench, predicting reactions: products, reactants, conditions, the next elementary step, the mechanism.

An item scores the Tanimoto similarity of its molecules to the gold's (`fs`, `retro`, `nepp`), 1 for the right molecules
in any order (`rcr`), 1 for the right letter (`mechsel`); the benchmark's score is the mean over the five.

The published golds of `retro` are the reactants written behind one another without a separator: 53 of 100 are no
molecule, 28 are a wrong one, and a perfect answer scores nothing on them. Ours come from the authors' lists of
reactants (rows.py). FT-Dojo's reader does not know the keys that the prompts of `nepp` and `rcr` ask for, so that an
answer in the form that was asked for scores 0 there; ours knows them.
"""

from __future__ import annotations

import re
from statistics import fmean
from typing import Literal

from nltk.metrics.distance import edit_distance

from memory.records import Record
from tools.benchmarks import molecules
from tools.benchmarks.chemcotbench import replies

Subtask = Literal["fs", "retro", "rcr", "nepp", "mechsel"]
KEYS: dict[Subtask, tuple[str, ...]] = {
    "fs": ("Major Product", "output", "answer"),
    "retro": ("Reactants", "output", "answer"),
    "rcr": ("SMILES", "condition", "output", "answer"),
    "nepp": ("pred_smi", "output", "answer"),
    "mechsel": ("choice", "output", "answer"),
}
"""The prompt's own key first."""
FORK_KEYS: dict[Subtask, tuple[str, ...]] = {
    "fs": KEYS["fs"],
    "retro": KEYS["retro"],
    "rcr": ("condition", "answer"),
    "nepp": ("output", "answer"),
    "mechsel": ("choice", "answer"),
}
"""Those that FT-Dojo reads."""
SIMILARITY: tuple[Subtask, ...] = ("fs", "retro", "nepp")
"""Subtasks whose published measure is a similarity of fingerprints."""
_LETTER = re.compile(r"[A-J]")


class Question(Record):
    """What the scorers need of an item."""

    subtask: Subtask
    gold: str
    """Molecules as SMILES, separated by dots, or a letter."""
    published_gold: str
    """The same as the data set has it; of `retro` without the separators."""


def read(output: str, subtask: Subtask) -> str | None:
    """The answer: a mixture of molecules as SMILES, or a letter; None where the output holds none."""
    said = replies.answer(output, KEYS[subtask])
    said = replies.bare(output) if said is None else said
    if subtask == "mechsel":
        return said.upper() if _LETTER.fullmatch(said.upper()) else None
    return said if molecules.parsed(said) is not None else None


def score(answer: str | None, question: Question) -> float:
    """0 to 1; an output without an answer is wrong."""
    if answer is None:
        return 0.0
    if question.subtask in SIMILARITY:
        return molecules.tanimoto(answer, question.gold, "morgan_counts")
    return exact(answer, question)


def exact(answer: str | None, question: Question) -> float:
    """1 for the gold's molecules, in any order and each as often, or for the gold's letter."""
    if answer is None:
        return 0.0
    if question.subtask == "mechsel":
        return float(answer == question.gold.strip().upper())
    return float(molecules.parts(answer) == molecules.parts(question.gold))


def distance(answer: str | None, question: Question) -> float:
    """Letters to be changed from the canonical answer to the canonical gold; all of the gold's for no molecule."""
    gold = molecules.canonical(question.gold) or ""
    return float(edit_distance(molecules.canonical(answer or "") or "", gold))


def fork_morgan(output: str, question: Question) -> float:
    """FT-Dojo's similarity of an item, against the golds as published."""
    return molecules.tanimoto(_fork_read(output, question.subtask), question.published_gold, "morgan_counts")


def fork_exact(output: str, question: Question) -> float:
    """FT-Dojo's exact match: the same InChI; for `rcr` the same text in lower case, so that another spelling of the
    same molecule is wrong; for `mechsel` the same letter, where "I think it is B" answers I."""
    said = _fork_read(output, question.subtask)
    if question.subtask == "rcr":
        return float(said.lower().strip() == question.published_gold.lower().strip())
    if question.subtask == "mechsel":
        letter, gold = (re.search("[A-Z]", text.upper()) for text in (said, question.published_gold))
        return float((letter[0] if letter else "") == (gold[0] if gold else ""))
    mine, theirs = molecules.inchi(said), molecules.inchi(question.published_gold)
    return float(mine is not None and mine == theirs)


def fork_distance(output: str, question: Question) -> float:
    """FT-Dojo's edit distance, lower is better: 0, the best there is, for what is no molecule."""
    said = molecules.canonical(_fork_read(output, question.subtask), stereo=False)
    gold = molecules.canonical(question.published_gold, stereo=False)
    return float(edit_distance(said, gold)) if said and gold else 0.0


def authors_fingerprints(output: str, question: Question) -> float:
    """The authors' similarity of an item: the mean over path, MACCS and Morgan fingerprints. They multiply its mean
    over the items by the share of valid answers and call the product FTS."""
    said = (replies.authors(output) or {}).get(KEYS[question.subtask][0])
    text = said if isinstance(said, str) else ""
    return fmean(
        molecules.tanimoto(text, question.published_gold, kind) for kind in ("rdkit", "maccs", "morgan_counts")
    )


def _fork_read(output: str, subtask: Subtask) -> str:
    value = replies.fork_object(output)
    keys = FORK_KEYS[subtask]
    if value is not None and (subtask != "mechsel" or any(value.get(key) for key in keys)):
        return str(next((value[key] for key in keys if key in value), None) or "")
    text = replies.fenced(output).strip()
    if subtask == "mechsel":
        patterns = [rf'"{key}"\s*:\s*"([A-Z])"' for key in keys] + [r"\b([A-Z])\b"]
        found = next(filter(None, (re.search(pattern, text) for pattern in patterns)), None)
        return found[1] if found else text
    quoted = replies.fork_quoted(output, keys) if subtask in ("fs", "retro") else None
    return text if quoted is None else quoted
