"""FinanceIQ: 7,123 single-choice questions of ten Chinese finance exams; the answer is a letter.

The splits are the published ones (microsoft/RD-Agent): of each subject the last half, at most 100 rows, is held out
(944 in all), and of it the first half is validation and the second one test; all other rows are for training (6,179).
The score is the mean over the ten subjects.

The questions are asked as published, but without the five questions of the same subject that FT-Dojo shows above each
one: the tokenizer of the embedded model takes two tokens for a Chinese character, so that the five do not fit into its
window of 2,048 for 1,703 of the questions, among them all on taxes. A run's few-shot baseline shows examples where they
fit.

An answer is read behind 答案是 and its kin, else the last letter that stands alone. FT-Dojo's scorer takes the last
capital of the output, so that "答案是: B。CPA" answers A.
"""

# ruff: noqa: RUF001  Chinese has commas, colons and brackets of its own

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

from memory.errors import InputError
from tools.benchmarks.benchmark import Benchmark, Draw, Graded, Item, Split, nowhere
from tools.benchmarks.measures import Mean, over_subsets
from tools.metrics.texts import without_reasoning
from tools.raw_data.rows import Row, first_and_last, read
from tools.raw_data.source import RawFile
from tools.raw_data.sources import FINANCEIQ as SOURCE
from tools.raw_data.store import Store

LETTERS = ("A", "B", "C", "D")
SUBJECTS = (
    "注册会计师（CPA）",
    "银行从业资格",
    "证券从业资格",
    "基金从业资格",
    "保险从业资格CICE",
    "经济师",
    "税务师",
    "期货从业资格",
    "理财规划师",
    "精算师-金融数学",
)
"""The exams, in the published order; each has a file of its name."""
MOST_HELD_OUT = 100
"""Rows of a subject in validation and test together."""
PUBLISHED = "accuracy_ftdojo"
_STATED = re.compile(
    r"(?:答案|正确选项|[Aa]nswer)\s*(?:应该|应当|就)?\s*(?:是|为|选择?|is)?\s*[:：]?\s*(?:选项|option)?\s*"
    r"[(\[「“\"'*]*([A-D])(?![A-Za-z0-9])"
)
_ALONE = re.compile(r"(?<![A-Za-z0-9])([A-D])(?![A-Za-z0-9])")


def letter(output: str) -> str | None:
    """The letter that the output answers with: the last one that it states as its answer, else the last one that stands
    alone; None where there is none. Full-width letters are letters."""
    text = unicodedata.normalize("NFKC", without_reasoning(output))
    found = _STATED.findall(text) or _ALONE.findall(text)
    return found[-1] if found else None


def last_capital(output: str) -> str:
    """FT-Dojo's reader: the last upper-case letter of the whole output, of whatever alphabet; empty for none."""
    return next((sign for sign in reversed(output) if sign.isupper()), "")


def grade(output: str, item: Item) -> Graded:
    """1 for the gold's letter, else 0; an output without a letter is wrong."""
    said = letter(output)
    values = {PUBLISHED: float(last_capital(output) == item.answer)}
    return Graded(score=float(said == item.answer), answer=said, values=values)


# --- items ------------------------------------------------------------------------------------------------------------


def prompt(subject: str, row: Row) -> str:
    """The published question."""
    choices = "\n".join(f"{choice}. {row[choice]}" for choice in LETTERS)
    return f"以下是关于{subject}的单项选择题，请直接给出正确答案的选项。\n题目：{row['Question']}\n{choices}"


def items_of(path: Path) -> list[Item]:
    """The items of a subject's file, in its order. Raises InputError for a row that has no answer of the four."""
    subject = path.stem
    items = []
    for number, row in enumerate(read(path)):
        if row.get("Answer") not in LETTERS or not {"Question", *LETTERS} <= row.keys():
            raise InputError(
                f"row {number + 1} of {path.name} is no question of FinanceIQ",
                "Its columns should be Question, A, B, C, D and Answer, with a letter from A to D.",
            )
        item = Item(
            id=f"{subject}-{number}",
            prompt=prompt(subject, row),
            answer=str(row["Answer"]),
            subset=subject,
            columns={"subject": subject},
            reference="{}",
        )
        items.append(item)
    return items


def cut(items: Sequence[Item]) -> dict[Split, list[Item]]:
    """The published splits of a subject."""
    held_out = min(math.ceil(len(items) / 2), MOST_HELD_OUT)
    validation, test = first_and_last(items[len(items) - held_out :])
    return {"train": list(items[: len(items) - held_out]), "validation": validation, "test": test}


def drawn_from(store: Store) -> Draw:
    """The items of all subjects, each cut for itself."""

    def draw(split: Split, seed: int) -> Iterator[Item]:
        for file in FILES:
            yield from cut(items_of(store.path(file)))[split]

    return draw


FILES = tuple(
    RawFile(SOURCE, f"data/test/{subject}.csv", (f"financeiq/test/{subject}.csv", f"test/{subject}.csv"))
    for subject in SUBJECTS
)
FINANCE_IQ = Benchmark(
    name="FinanceIQ_gen",
    title="Chinese finance exams: which of four choices is right? (a letter)",
    source=SOURCE.pinned,
    licence=SOURCE.licence,
    domain="finance",
    sizes="472, 472",
    draw=nowhere,
    drawn_from=drawn_from,
    items_in=items_of,
    held_out=FILES,
    training=FILES,
    grade=grade,
    measure=over_subsets("accuracy"),
    others=(Mean("accuracy over items"), over_subsets(PUBLISHED, PUBLISHED)),
    max_new_tokens=32,
    closed_answers=LETTERS,
)
