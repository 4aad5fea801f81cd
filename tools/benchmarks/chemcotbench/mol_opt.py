"""ChemCoTBench, optimising a molecule: raise its logP, its likeness to drugs or its solubility.

An answer succeeds where it is a molecule, has more of the property than the source, and is still a relative of it. The
published scorers do not ask for the last, so that one good molecule, always answered, would win. The three subtasks on
binding need classifiers that no package ships (see oracles.py); they are not drawn, and refused where they are scored.
"""

from __future__ import annotations

from typing import Literal

from memory.records import Record
from tools.benchmarks import molecules
from tools.benchmarks.chemcotbench import oracles, replies
from tools.benchmarks.chemcotbench.mol_edit import KEPT

Subtask = Literal["drd", "gsk", "jnk", "logp", "qed", "solubility"]
KEYS = ("Final Target Molecule", "Final_Target_Molecule", "output", "answer")


class Question(Record):
    """What the scorers need of an item."""

    subtask: Subtask
    source: str
    """The molecule to be improved, as SMILES."""


def read(output: str) -> str | None:
    """The optimised molecule as it was written; None where there is no molecule that RDKit accepts."""
    said = replies.answer(output, KEYS) or replies.bare(output)
    return said if molecules.parsed(said) is not None else None


def score(answer: str | None, question: Question) -> float:
    """1 where the property rose in a relative of the source, else 0. Raises InputError where the oracle is missing."""
    kept = answer is not None and molecules.tanimoto(answer, question.source, "morgan_2048") >= KEPT
    return float(improvement(answer, question) > 0 and kept)


def improvement(answer: str | None, question: Question) -> float:
    """How much the property rose, in its own unit; 0 for no molecule. Raises InputError where the oracle is missing."""
    before = oracles.value(question.subtask, question.source)
    after = None if answer is None else oracles.value(question.subtask, answer)
    return 0.0 if before is None or after is None else after - before


def fork(output: str, question: Question) -> float:
    """FT-Dojo's success of an item: the property rose. Raises InputError where the oracle is missing, which FT-Dojo
    counts as no success."""
    said = replies.fork_smiles(output, KEYS) or ""
    return float(improvement(said, question) > 0)


def fork_valid(output: str) -> float:
    """FT-Dojo's validity of an item: 1 where what it read is a molecule."""
    return float(molecules.parsed(replies.fork_smiles(output, KEYS) or "") is not None)


def authors(output: str, question: Question) -> float:
    """The authors' improvement of an item; success is more than 0.

    What cannot be parsed has improved by 0. A text that is no molecule has the property 0, so that nonsense improves a
    source whose property is negative. Raises InputError where the oracle is missing.
    """
    before = oracles.value(question.subtask, question.source)
    said = (replies.authors(output) or {}).get(KEYS[0])
    if not isinstance(said, str) or before is None:
        return 0.0
    return (oracles.value(question.subtask, said) or 0.0) - before
