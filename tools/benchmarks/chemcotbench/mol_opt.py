"""ChemCoTBench, optimising a molecule: raise its logP, its likeness to drugs or its solubility.

An answer succeeds where it is a molecule, has more of the property than the source, and is still a relative of it. The
published scorers do not ask for the last, so that one good molecule, always answered, would win. The three subtasks on
binding need classifiers that no package ships (see oracles.py); they are not drawn, and refused where they are scored.
"""

from __future__ import annotations

import re
from typing import Literal, cast

from memory.records import Record
from tools.benchmarks import molecules
from tools.benchmarks.benchmark import Benchmark, Graded, Item, nowhere
from tools.benchmarks.chemcotbench import oracles, replies, rows
from tools.benchmarks.chemcotbench.mol_edit import KEPT
from tools.benchmarks.chemcotbench.mol_und import scaffold_similarity
from tools.benchmarks.measures import Mean, over_subsets
from tools.raw_data.rows import Row

Subtask = Literal["drd", "gsk", "jnk", "logp", "qed", "solubility"]
KEYS = ("Final Target Molecule", "Final_Target_Molecule", "output", "answer")
VIEWS = tuple(rows.view("mol_opt", subtask, subtask, trained_on=f"mol_opt/{subtask}") for subtask in oracles.FORMULAS)
"""Those whose oracle is here."""
RAISED = {"logp": "logP", "qed": "likeness to drugs (QED)", "solubility": "solubility in water"}
"""What prompts of ours ask for."""
BEST = {"logp": 0.5, "solubility": 0.5, "qed": 0.3}
"""Improvement from which on the published scorers speak of a best one."""
_SOURCE = re.compile(r"Source Molecule:\s*(\S+)")
"""How the prompts name the molecule."""


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
    said = molecules.up_to_blank(replies.fork_smiles(output, KEYS) or "")
    return float(improvement(said, question) > 0)


def fork_valid(output: str) -> float:
    """FT-Dojo's validity of an item: 1 where what it read is a molecule."""
    said = molecules.up_to_blank(replies.fork_smiles(output, KEYS) or "")
    return float(molecules.parsed(said) is not None)


def authors(output: str, question: Question) -> float:
    """The authors' improvement of an item; success is more than 0.

    What cannot be parsed has improved by 0. A text that is no molecule has the property 0, so that nonsense improves a
    source whose property is negative. Raises InputError where the oracle is missing.
    """
    before = oracles.value(question.subtask, question.source)
    said = (replies.authors(output) or {}).get(KEYS[0])
    if not isinstance(said, str) or before is None:
        return 0.0
    return (oracles.value(question.subtask, molecules.up_to_blank(said)) or 0.0) - before


# --- the benchmark ----------------------------------------------------------------------------------------------------


def grade(output: str, item: Item) -> Graded:
    """All three scorers' figures."""
    question = Question.model_validate_json(item.reference)
    said = read(output)
    gained, published = improvement(said, question), authors(output, question)
    values = {
        "valid": float(said is not None),
        "improvement": gained,
        "best": float(gained >= BEST[question.subtask]),
        "scaffold": 0.0 if said is None else scaffold_similarity(question.source, said),
        "success_ftdojo": fork(output, question),
        "valid_ftdojo": fork_valid(output),
        "improvement_official": published,
        "success_official": float(published > 0),
    }
    return Graded(score=score(said, question), answer=said, values=values)


def item_of(question: rows.Question) -> Item | None:
    """The item; None for a row that does not say which molecule is to be improved. Only training rows have a gold: the
    answer of the others is their source, which improves nothing. Raises InputError where the oracle is missing."""
    oracles.refuse_missing(question.subtask)
    named = _SOURCE.search(question.query)
    source = question.text("source") or (named[1].rstrip(".,") if named else "")
    if not source:
        return None
    return Item(
        id=f"{question.subtask}-{question.id}",
        prompt=question.query,
        answer=rows.answer(KEYS[0], question.gold or source),
        subset=question.subtask,
        columns=question.columns,
        reference=Question(subtask=cast(Subtask, question.subtask), source=source).model_dump_json(),
    )


def from_log(row: Row) -> rows.Question:
    """A row of the authors' logs."""
    prop, source = str(row["prop"]), str(row["src_smiles"])
    query = f"Change the molecule {source} a little so that its {RAISED.get(prop, prop)} rises."
    return rows.question(prop, rows.asked(query, KEYS[0], "a SMILES"), source=source)


MOL_OPT = Benchmark(
    name="chemcotbench_mol_opt",
    title="Change a molecule so that its logP, its drug-likeness or its solubility rises",
    source="ChemCoTBench, without the three subtasks on binding",
    licence=rows.LICENCE,
    domain="chemistry",
    sizes="150, 150",
    draw=nowhere,
    grade=grade,
    max_new_tokens=1024,
    measure=over_subsets("success rate"),
    others=(
        Mean("success on binding", "binding", needs="classifiers of DRD2, JNK3 and GSK3-beta binding, in no package"),
        Mean("validity", "valid"),
        over_subsets("improvement", "improvement"),
        over_subsets("best rate", "best"),
        Mean("scaffold similarity", "scaffold"),
        over_subsets("success_rate_ftdojo", "success_ftdojo"),
        over_subsets("valid_smiles_rate_ftdojo", "valid_ftdojo"),
        over_subsets("success_rate_official", "success_official"),
        over_subsets("improvement_official", "improvement_official"),
    ),
    held_out=rows.held_out(VIEWS),
    training=rows.training(VIEWS),
    drawn_from=rows.drawn_from(VIEWS, item_of, from_log, grade),
    items_in=rows.items_in(item_of, from_log),
    extras=rows.EXTRAS,
)
