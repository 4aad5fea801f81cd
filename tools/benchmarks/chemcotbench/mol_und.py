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
from typing import Literal, cast

from memory.records import Record
from tools.benchmarks import molecules
from tools.benchmarks.benchmark import Benchmark, Graded, Item, nowhere
from tools.benchmarks.chemcotbench import replies, rows
from tools.benchmarks.measures import Mean, over_subsets
from tools.raw_data.rows import Row

Subtask = Literal["fg_count", "ring_count", "Murcko_scaffold", "ring_system_scaffold", "equivalence"]
KEYS: dict[Subtask, tuple[str, ...]] = {
    "fg_count": ("count", "output", "answer"),
    "ring_count": ("count", "output", "answer"),
    "Murcko_scaffold": ("Output Scaffold", "output", "answer"),
    "ring_system_scaffold": ("output", "answer"),
    "equivalence": ("output", "answer"),
}
"""The prompt's own key first."""
ASKED: dict[Subtask, str] = {
    "fg_count": "a number",
    "ring_count": "a number",
    "Murcko_scaffold": "a SMILES",
    "ring_system_scaffold": "Yes or No",
    "equivalence": "Yes or No",
}
"""What prompts of ours ask for."""
COUNTS = ("fg_count", "ring_count")
YES_NO = ("ring_system_scaffold", "equivalence")
_COUNT = re.compile(r"\d{1,6}")
"""More digits are no count of anything in a molecule."""


VIEWS = (
    rows.view("mol_und", "fg_count", "fg_samples", trained_on="mol_und/fg_count"),
    rows.view("mol_und", "ring_count", "ring_count", trained_on="mol_und/ring_count"),
    rows.view("mol_und", "Murcko_scaffold", "murcko_scaffold", trained_on="mol_und/Murcko_scaffold"),
    rows.view("mol_und", "ring_system_scaffold", "ring_system_scaffold", trained_on="mol_und/ring_system_scaffold"),
    rows.view("mol_und", "equivalence", "permutated", "mutated"),
)


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
    return molecules.tanimoto(molecules.up_to_blank(said), question.gold, "morgan_1024")


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
    return scaffold_similarity(question.gold, molecules.up_to_blank(text))


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


# --- the benchmark ----------------------------------------------------------------------------------------------------


def grade(output: str, item: Item) -> Graded:
    """All three scorers' figures."""
    question = Question.model_validate_json(item.reference)
    said = read(output, question.subtask)
    figure = _figure(question.subtask)
    values = {f"{figure}_ftdojo": fork(output, question)}
    values[figure] = error(said, question) if figure == "error" else score(said, question)
    theirs = authors(output, question)
    if theirs is not None:
        values[f"{figure}_official"] = theirs
    return Graded(score=score(said, question), answer=said, values=values)


def _figure(subtask: Subtask) -> str:
    return "error" if subtask in COUNTS else "correct" if subtask in YES_NO else "tanimoto"


def item_of(question: rows.Question) -> Item | None:
    """The item; None for a training row whose gold is missing, or is no count where one is asked for."""
    kind = cast(Subtask, question.subtask)
    gold = question.gold or str((replies.authors(question.struct_cot or "") or {}).get(KEYS[kind][0], ""))
    if not gold or (kind in COUNTS and not _COUNT.fullmatch(gold)):
        return None
    return Item(
        id=f"{kind}-{question.id}",
        prompt=question.query,
        answer=rows.answer(KEYS[kind][0], int(gold) if kind in COUNTS else gold),
        subset=kind,
        columns=question.columns,
        reference=Question(subtask=kind, gold=gold).model_dump_json(),
    )


def from_log(row: Row) -> rows.Question:
    """A row of the authors' logs; which subtask it is of shows in its columns."""
    molecule = f"the molecule {row['smiles']}"
    kind: Subtask
    if "fg_num" in row:
        group = f"the group {row['fg_name']} ({row['fg_label']}, SMARTS {row['fg_smarts']})"
        kind, question, gold = "fg_count", f"How often does {group} occur in {molecule}?", row["fg_num"]
    elif "ring" in row:
        kind, question, gold = "ring_count", f"How often does the ring {row['ring']} occur in {molecule}?", row["count"]
    elif "largest_scaffold" in row:
        kind, question, gold = "Murcko_scaffold", f"What is the Murcko scaffold of {molecule}?", row["largest_scaffold"]
    elif "ring_system_scaffold" in row:
        kind, gold = "ring_system_scaffold", "Yes"
        question = f"Is {row['ring_system_scaffold']} a ring system of {molecule}?"
    else:
        kind, gold = "equivalence", "Yes" if "permutated" in row else "No"
        question = f"Is {row.get('permutated', row.get('mutated'))} another way to write {molecule}?"
    query = rows.asked(question, KEYS[kind][0], ASKED[kind])
    return rows.Question(id="", subtask=kind, query=query, gt=cast("str | int", gold))


MOL_UND = Benchmark(
    name="chemcotbench_mol_und",
    title="Count groups and rings of a molecule, find its scaffold, compare two SMILES",
    source="ChemCoTBench",
    licence=rows.LICENCE,
    domain="chemistry",
    sizes="160, 160",
    draw=nowhere,
    grade=grade,
    max_new_tokens=1024,
    measure=over_subsets("mean over subtasks"),
    others=(
        over_subsets("MAE", "error", higher_is_better=False),
        Mean("Tanimoto", "tanimoto"),
        over_subsets("accuracy", "correct"),
        over_subsets("MAE_ftdojo", "error_ftdojo", higher_is_better=False),
        Mean("Tanimoto_ftdojo", "tanimoto_ftdojo"),
        over_subsets("accuracy_ftdojo", "correct_ftdojo"),
        over_subsets("MAE_official", "error_official", higher_is_better=False),
        Mean("Tanimoto_official", "tanimoto_official"),
        over_subsets("accuracy_official", "correct_official"),
    ),
    held_out=rows.held_out(VIEWS),
    training=rows.training(VIEWS),
    drawn_from=rows.drawn_from(VIEWS, item_of, from_log, grade),
    items_in=rows.items_in(item_of, from_log),
    extras=rows.EXTRAS,
)
