"""ChemCoTBench, predicting reactions: products, reactants, conditions, the next elementary step, the mechanism.

An item scores the Tanimoto similarity of its molecules to the gold's (`fs`, `retro`, `nepp`), 1 for the right molecules
in any order (`rcr`), 1 for the right letter (`mechsel`); the benchmark's score is the mean over the five.

The published golds of `retro` are the reactants written behind one another without a separator: 53 of 100 are no
molecule, 28 are a wrong one, and a perfect answer scores nothing on them. Ours come from the authors' lists of
reactants (rows.py). FT-Dojo's reader does not know the keys that the prompts of `nepp` and `rcr` ask for, so that an
answer in the form that was asked for scores 0 there; ours knows them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Literal, cast

from memory.records import Outcome, Record
from tools.benchmarks import molecules
from tools.benchmarks.benchmark import Benchmark, Draw, Graded, Item, nowhere
from tools.benchmarks.chemcotbench import replies, rows
from tools.benchmarks.measures import Aggregate, Mean, over_subsets
from tools.raw_data.rows import Row
from tools.raw_data.store import Store

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
VIEWS = (
    rows.view("reaction", "fs", trained_on="rxn/fs_major_product"),
    rows.view("reaction", "retro", "retro"),
    rows.view("reaction", "rcr", trained_on="rxn/rcr"),
    rows.view("reaction", "nepp"),
    rows.view("reaction", "mechsel"),
)
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
    return _edits(molecules.canonical(answer or "") or "", gold)


def fork_morgan(output: str, question: Question) -> float:
    """FT-Dojo's similarity of an item, against the golds as published."""
    said = molecules.up_to_blank(_fork_read(output, question.subtask))
    return molecules.tanimoto(said, question.published_gold, "morgan_counts")


def fork_exact(output: str, question: Question) -> float:
    """FT-Dojo's exact match: the same InChI; for `rcr` the same text in lower case, so that another spelling of the
    same molecule is wrong; for `mechsel` the same letter, where "I think it is B" answers I."""
    said = _fork_read(output, question.subtask)
    if question.subtask == "rcr":
        return float(said.lower().strip() == question.published_gold.lower().strip())
    if question.subtask == "mechsel":
        letter, gold = (re.search("[A-Z]", text.upper()) for text in (said, question.published_gold))
        return float((letter[0] if letter else "") == (gold[0] if gold else ""))
    mine, theirs = molecules.inchi(molecules.up_to_blank(said)), molecules.inchi(question.published_gold)
    return float(mine is not None and mine == theirs)


def fork_distance(output: str, question: Question) -> float:
    """FT-Dojo's edit distance, lower is better: 0, the best there is, for what is no molecule."""
    said = molecules.canonical(molecules.up_to_blank(_fork_read(output, question.subtask)), stereo=False)
    gold = molecules.canonical(question.published_gold, stereo=False)
    return _edits(said, gold) if said and gold else 0.0


def authors_fingerprints(output: str, question: Question) -> float:
    """The authors' similarity of an item: the mean over path, MACCS and Morgan fingerprints. They multiply its mean
    over the items by the share of valid answers and call the product FTS."""
    said = (replies.authors(output) or {}).get(KEYS[question.subtask][0])
    text = molecules.up_to_blank(said) if isinstance(said, str) else ""
    return fmean(
        molecules.tanimoto(text, question.published_gold, kind) for kind in ("rdkit", "maccs", "morgan_counts")
    )


def _edits(one: str, other: str) -> float:
    """Letters to be inserted, removed or replaced (Levenshtein)."""
    from rapidfuzz.distance import Levenshtein  # an extra of this benchmark

    return float(Levenshtein.distance(one, other))


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


# --- the benchmark ----------------------------------------------------------------------------------------------------


def grade(output: str, item: Item) -> Graded:
    """All three scorers' figures."""
    question = Question.model_validate_json(item.reference)
    said = read(output, question.subtask)
    values = {f"exact_{question.subtask}": exact(said, question)}
    if question.subtask in SIMILARITY:
        values["similarity"] = score(said, question)
        values["distance"] = distance(said, question)
        values["valid"] = float(said is not None)
        values["similarity_ftdojo"] = fork_morgan(output, question)
        values["distance_ftdojo"] = fork_distance(output, question)
        values["fingerprints_official"] = authors_fingerprints(output, question)
    values[f"exact_{question.subtask}_ftdojo"] = fork_exact(output, question)
    return Graded(score=score(said, question), answer=said, values=values)


def fts_official(outcomes: Sequence[Outcome]) -> float:
    """The authors' FTS: the mean similarity over three fingerprints, times the share of valid answers."""
    similar = fmean(outcome.values["fingerprints_official"] for outcome in outcomes)
    return similar * fmean(outcome.values["valid"] for outcome in outcomes)


def drawn_from(store: Store) -> Draw:
    """The items. Those of `retro` need the authors' list of reactants, and are left out without it."""
    log = store.find(rows.REACTANTS)
    reactants = {each.id: each.text("reactants") for each in rows.questions(log, from_log)} if log else {}
    views = [view for view in VIEWS if reactants or view.subtask != "retro"]

    def item(question: rows.Question) -> Item | None:
        return item_of(question, reactants)

    return rows.drawn_from(views, item, from_log, grade)(store)


def item_of(question: rows.Question, reactants: Mapping[str, str] | None = None) -> Item | None:
    """The item; None where it has no gold, or one that is no molecule. `reactants` are golds of `retro` by id."""
    kind = cast(Subtask, question.subtask)
    gold = published = _major(question.gold) if kind == "fs" else question.gold
    if kind == "retro":
        gold = question.text("reactants") or (reactants or {}).get(question.id, "")
    if not gold or (kind != "mechsel" and molecules.parsed(gold) is None):
        return None
    return Item(
        id=f"{kind}-{question.id}",
        prompt=question.query,
        answer=rows.answer(KEYS[kind][0], gold),
        subset=kind,
        columns=question.columns,
        reference=Question(subtask=kind, gold=gold, published_gold=published).model_dump_json(),
    )


def from_log(row: Row) -> rows.Question:
    """A row of the authors' log of retrosynthesis; its gold is what the data set makes of its reactants."""
    products, reagents, reactants = (cast("list[str]", row[key]) for key in ("products", "reagents", "reactants"))
    query = f"From which reactants is {'.'.join(products)} made, with the reagents {'.'.join(reagents)}?"
    asked = rows.question(
        "retro", rows.asked(query, KEYS["retro"][0], "SMILES, separated by dots"), reactants=".".join(reactants)
    )
    return asked.model_copy(update={"id": str(row["id"]), "gt": "".join(reactants)})


def _major(gold: str) -> str:
    """The major product of a gold of `fs`, which is JSON with the by-products in the benchmark."""
    return str(json.loads(gold)["Major Product"]) if gold.startswith("{") else gold


REACTION = Benchmark(
    name="chemcotbench_reaction",
    title="Products, reactants and conditions of a reaction, its next step, its mechanism",
    source="ChemCoTBench",
    licence=rows.LICENCE,
    domain="chemistry",
    sizes="237, 237",
    draw=nowhere,
    grade=grade,
    max_new_tokens=1024,
    measure=over_subsets("mean over subtasks"),
    others=(
        over_subsets("similarity", "similarity"),
        Mean("validity", "valid"),
        Mean("edit distance", "distance", higher_is_better=False),
        Mean("fs exact", "exact_fs"),
        Mean("retro exact", "exact_retro", needs="the authors' list of reactants, in chemcotbench/retro of --data-dir"),
        Mean("rcr exact", "exact_rcr"),
        Mean("nepp exact", "exact_nepp"),
        Mean("mechsel accuracy", "exact_mechsel"),
        over_subsets("FTS_ftdojo", "similarity_ftdojo"),
        Mean("edit_distance_ftdojo", "distance_ftdojo", higher_is_better=False),
        Mean("rcr_exact_ftdojo", "exact_rcr_ftdojo"),
        Mean("mechsel_accuracy_ftdojo", "exact_mechsel_ftdojo"),
        Aggregate("FTS_official", fts_official, "fingerprints_official"),
    ),
    held_out=rows.held_out(VIEWS),
    training=rows.training(VIEWS),
    drawn_from=drawn_from,
    items_in=rows.items_in(item_of, from_log),
    extras=(*rows.EXTRAS, "rapidfuzz==3.14.6"),
)
