"""AIME 2024 and 2025: thirty exam problems a year whose answers are whole numbers from 0 to 999.

Validation is the first exam of the year and test the second, 15 problems each, as FT-Dojo cuts them. One problem is
6.7 points, so that an item's score is the mean of eight samples (avg@8), with pass@8 beside it. Training rows are
older competition problems with whole-number answers (DeepScaleR, no problem from 2024 or later).

An answer is what stands in the last \\boxed{...}, read as a number: 025 is 25, and \\frac{408}{2} is 204. FT-Dojo's
scorer is math-verify, which reads any number that is marked as mathematics. For 2025 it asks a language model about
what math-verify calls wrong; that is not done here.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

from memory.records.metric import Numeric
from tools.benchmarks.benchmark import Benchmark, Draw, Graded, Item, Split, nowhere
from tools.benchmarks.measures import Mean, pass_at
from tools.benchmarks.preparation import refusal
from tools.metrics.numeric import taken
from tools.metrics.texts import without_reasoning
from tools.raw_data.rows import Row, first_and_last, read
from tools.raw_data.source import RawFile
from tools.raw_data.sources import AIME_2024, AIME_2025, DEEPSCALER
from tools.raw_data.store import Store

ASK = "Think step by step. Write the final answer, a whole number, within \\boxed{}."
SAMPLES = 8
WINDOW, ROOM = 8192, 7168
"""Tokens of prompt and answer together, and of the answer. Published runs give 8,192 to an answer."""
EXTRAS = ("math-verify==0.5.2", "latex2sympy2-extended==1.0.6", "antlr4-python3-runtime==4.13.2")
"""The newest math-verify that takes the latex2sympy of lighteval."""
TRAINING = RawFile(DEEPSCALER, "deepscaler.json", elsewhere=("aime/aime-train.json",))
BOXES = ("\\boxed{", "\\framebox{", "\\fbox{")
PUBLISHED = "accuracy_ftdojo"


def boxed(text: str) -> str | None:
    """What stands in the last box; None where there is none, or it does not end."""
    starts = [text.rfind(box) + len(box) for box in BOXES if box in text]
    depth, start = 1, max(starts, default=len(text))
    for end in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if depth == 0:
            return text[start:end].strip()
    return None


def number_in(text: str) -> Fraction | None:
    """The only number of a text, read exactly; None where there is none, or a second one."""
    first, last = taken(Numeric(take="first"), text), taken(Numeric(take="last"), text)
    return last.value if last and first == last else None


def grade(output: str, item: Item) -> Graded:
    """1 where the boxed number is the gold; beside it what math-verify says. Raises SetupError without math-verify."""
    text = without_reasoning(output)
    said = number_in(boxed(text) or "")
    gold = json.loads(item.reference)["answer"]
    return Graded(
        score=float(said == int(gold)),
        answer=None if said is None else str(said),
        values={PUBLISHED: verified(text, gold)},
    )


def verified(output: str, gold: str) -> float:
    """FT-Dojo's scorer: math-verify, which takes LaTeX that is marked as mathematics, boxes first."""
    try:
        from latex2sympy2_extended import NormalizationConfig
        from math_verify import LatexExtractionConfig, parse, verify
    except ImportError as error:
        raise refusal("aime24", EXTRAS[0]) from error
    reading = LatexExtractionConfig(
        normalization_config=NormalizationConfig(
            nits=False, malformed_operators=False, basic_latex=True, equations=True, boxed="all", units=True
        ),
        boxed_match_priority=0,
        try_extract_without_anchor=False,
    )
    said = parse(output, [reading], extraction_mode="first_match")
    return float(verify(said, parse(f"${gold}$", extraction_mode="first_match")))


# --- items ------------------------------------------------------------------------------------------------------------


def item_of(row: Row, name: str, answer: str | None = None) -> Item:
    """An item of a row, whichever of the sources it comes from. `answer` is what the model should write where that is
    more than the boxed number."""
    problem = row.get("problem", row.get("question"))
    gold = str(row["answer"])
    return Item(
        id=name,
        prompt=f"{problem}\n{ASK}",
        answer=answer or f"\\boxed{{{int(gold)}}}",
        reference=json.dumps({"answer": gold}),
    )


def worked(row: Row) -> str | None:
    """The solution of a training row, with its answer in a box at the end; None where there is no solution."""
    solution, gold = str(row.get("solution") or "").strip(), int(str(row["answer"]))
    if not solution:
        return None
    return solution if number_in(boxed(solution) or "") == gold else f"{solution}\n\\boxed{{{gold}}}"


def training(rows: Sequence[Row], seed: int) -> Iterator[Item]:
    """Training items of DeepScaleR's rows, or of earlier AIME problems, in an order that the seed decides."""
    usable = [(place, row) for place, row in enumerate(rows) if re.fullmatch(r"\d{1,9}", str(row["answer"]).strip())]
    random.Random(seed).shuffle(usable)
    for place, row in usable:
        yield item_of(row, f"train-{place}", worked(row))


def make(year: int, files: tuple[RawFile, ...]) -> Benchmark:
    """AIME of a year; the files together hold its thirty problems in the order of the exams."""
    name = f"aime{year % 100}"

    def items_in(path: Path) -> list[Item]:
        return [item_of(row, f"{name}-{number}") for number, row in enumerate(read(path), 1)]

    def drawn_from(store: Store) -> Draw:
        def draw(split: Split, seed: int) -> Iterator[Item]:
            if split == "train":
                yield from training(read(store.path(TRAINING)), seed)
            else:
                rows = [row for file in files for row in read(store.path(file))]
                items = [item_of(row, f"{name}-{number}") for number, row in enumerate(rows, 1)]
                yield from first_and_last(items)[split == "test"]

        return draw

    return Benchmark(
        name=name,
        title=f"AIME {year}: competition mathematics (a whole number in a box)",
        source=files[0].source.pinned,
        licence=files[0].source.licence,
        domain="mathematics",
        sizes="15, 15",
        draw=nowhere,
        drawn_from=drawn_from,
        items_in=items_in,
        held_out=files,
        training=(TRAINING,),
        grade=grade,
        measure=Mean(f"avg@{SAMPLES}"),
        others=(pass_at(SAMPLES), Mean(PUBLISHED, PUBLISHED)),
        max_new_tokens=ROOM,
        window=WINDOW,
        temperature=0.6,
        samples=SAMPLES,
        extras=EXTRAS,
    )


AIME24 = make(2024, (RawFile(AIME_2024, "data/train-00000-of-00001.parquet", elsewhere=("aime/aime24.json",)),))
AIME25 = make(2025, (RawFile(AIME_2025, "aime2025-I.jsonl"), RawFile(AIME_2025, "aime2025-II.jsonl")))
