"""ChemCoTBench, editing a molecule: add a functional group, remove one, or exchange one for another.

An edit is right where the count of the named group changes by exactly one and the rest of the molecule is still there.
The published scorers ask for the count alone: they take formaldehyde for any molecule to which an aldehyde was to be
added. What "still there" means is stated in `KEPT`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, cast

from memory.records import Record
from tools.benchmarks import molecules
from tools.benchmarks.benchmark import Benchmark, Graded, Item, nowhere
from tools.benchmarks.chemcotbench import groups, replies, rows
from tools.benchmarks.measures import Mean, over_subsets
from tools.raw_data.rows import Row

Subtask = Literal["add", "delete", "sub"]
KEYS = ("output", "answer")
KEPT = 0.2
"""Smallest Tanimoto similarity to the source molecule (Morgan, radius 2, 2048 bits) with which an edit counts, after
the constrained optimisation of Jin et al. 2018 (arXiv:1802.04364). Of the benchmark's 100 reference edits the least
similar has 0.27, the next 0.40. Two molecules by chance have 0.09 on average, and one pair in twenty more than 0.21."""
VIEWS = tuple(
    rows.view("mol_edit", subtask, subtask, trained_on=f"mol_edit/{subtask}") for subtask in ("add", "delete", "sub")
)
_SOURCE = re.compile(r"Input Molecule:\s*([^\s,]+)")
"""How the prompts name the molecule."""

Count = Callable[[str, str], int | None]


class Question(Record):
    """What the scorers need of an item."""

    subtask: Subtask
    source: str
    """The molecule to be edited, as SMILES."""
    added: str = ""
    """Group to be added (`add`, `sub`)."""
    removed: str = ""
    """Group to be removed (`delete`, `sub`)."""
    reference: str
    """One right edit, as SMILES."""


def read(output: str) -> str | None:
    """The edited molecule as it was written; None where there is no molecule that RDKit accepts."""
    said = replies.answer(output, KEYS) or replies.bare(output)
    return said if molecules.parsed(said) is not None else None


def score(answer: str | None, question: Question) -> float:
    """1 for a right edit, else 0."""
    if answer is None or not _changed(answer, question, groups.occurrences):
        return 0.0
    return float(molecules.tanimoto(answer, question.source, "morgan_2048") >= KEPT)


def similarity(answer: str | None, question: Question) -> float:
    """Tanimoto similarity to the reference edit (Morgan, radius 2, 2048 bits); 0 for no molecule."""
    return 0.0 if answer is None else molecules.tanimoto(answer, question.reference, "morgan_2048")


def fork(output: str, question: Question) -> float:
    """FT-Dojo's figure of an item: 1 where the counts change as asked, else 0; the rest of the molecule is free."""
    said = molecules.up_to_blank(replies.fork_smiles(output, KEYS) or "")
    return float(_changed(said, question, groups.published))


def authors(output: str, question: Question) -> float:
    """The authors' figure of an item: the same, for replies that consist of one JSON object. What cannot be parsed is
    wrong, since they divide by all items here."""
    said = (replies.authors(output) or {}).get("output")
    return float(isinstance(said, str) and _changed(molecules.up_to_blank(said), question, groups.published))


def _changed(smiles: str, question: Question, count: Count) -> bool:
    """Whether each named group is there once more, or once less, than in the source."""
    wanted = ((question.added, 1), (question.removed, -1))
    for group, step in wanted:
        if group:
            before, after = count(question.source, group), count(smiles, group)
            if before is None or after is None or after != before + step:
                return False
    return True


# --- the benchmark ----------------------------------------------------------------------------------------------------


def grade(output: str, item: Item) -> Graded:
    """All three scorers' figures."""
    question = Question.model_validate_json(item.reference)
    said = read(output)
    values = {
        "valid": float(said is not None),
        "similarity": similarity(said, question),
        "correct_ftdojo": fork(output, question),
        "correct_official": authors(output, question),
    }
    return Graded(score=score(said, question), answer=said, values=values)


def item_of(question: rows.Question) -> Item | None:
    """The item; None for a row that does not say which molecule is to be edited, or has no reference edit."""
    named = _SOURCE.search(question.query)
    source = question.text("source") or (named[1] if named else "")
    if not source or not question.gold:
        return None
    asked = Question(
        subtask=cast(Subtask, question.subtask),
        source=source,
        added=question.text("added_group"),
        removed=question.text("removed_group"),
        reference=question.gold,
    )
    return Item(
        id=f"{question.subtask}-{question.id}",
        prompt=question.query,
        answer=rows.answer(KEYS[0], question.gold),
        subset=question.subtask,
        columns=question.columns,
        reference=asked.model_dump_json(),
    )


def from_log(row: Row) -> rows.Question:
    """A row of the authors' logs."""
    meta = {key: str(row[key]) for key in ("reference", "added_group", "removed_group") if key in row}
    query = rows.asked(str(row["Instruction"]), KEYS[0], "a SMILES")
    return rows.question(str(row["task"]), query, source=str(row["molecule"]), **meta)


MOL_EDIT = Benchmark(
    name="chemcotbench_mol_edit",
    title="Add a functional group to a molecule, remove one, or exchange one for another",
    source="ChemCoTBench",
    licence=rows.LICENCE,
    domain="chemistry",
    sizes="50, 50",
    draw=nowhere,
    grade=grade,
    max_new_tokens=1024,
    measure=over_subsets("correct rate"),
    others=(
        Mean("validity", "valid"),
        Mean("similarity to the reference", "similarity"),
        over_subsets("correct_rate_ftdojo", "correct_ftdojo"),
        over_subsets("correct_rate_official", "correct_official"),
    ),
    held_out=rows.held_out(VIEWS),
    training=rows.training(VIEWS),
    drawn_from=rows.drawn_from(VIEWS, item_of, from_log, grade),
    items_in=rows.items_in(item_of, from_log),
    extras=rows.EXTRAS,
)
