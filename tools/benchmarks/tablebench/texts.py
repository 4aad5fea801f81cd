"""The three kinds of TableBench's questions that are answered in text: facts, numbers, and analyses.

What an answer is worth depends on the question: facts, numbers and the factors of an impact must be right; the figures
of correlations, forecasts and statistics within ten per cent; causes, descriptions and anomalies are compared by
ROUGE-L. That is how the authors mean it, and their mixed metric is the mean over all items.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from memory.records import Outcome
from tools.benchmarks.benchmark import Graded, Item
from tools.benchmarks.measures import Aggregate, Mean
from tools.benchmarks.tablebench import answers
from tools.benchmarks.tablebench.answers import Compare
from tools.benchmarks.tablebench.task import View, make
from tools.raw_data.rows import Row

ROOM = 1024
"""Tokens of an answer with its reasoning. Published runs give 4,096."""
ALL = "other"
"""FT-Dojo's view of analyses that are compared by ROUGE-L; it holds all of them, those of the other views as well."""


class Way(NamedTuple):
    """A way to compare an answer with its gold, by each of three scorers."""

    ours: Compare
    authors: Compare
    ftdojo: Compare


EXACT = Way(answers.matching, answers.exact_authors, answers.exact_ftdojo)
WITHIN = Way(answers.matching_within, answers.within_authors, answers.within_ftdojo)
OVERLAP = Way(answers.overlap, answers.overlap_authors, answers.overlap_ftdojo)
WAYS = {
    "CorrelationAnalysis": WITHIN,
    "TrendForecasting": WITHIN,
    "StatisticalAnalysis": WITHIN,
    "ImpactAnalysis": EXACT,
    "CausalAnalysis": OVERLAP,
    "DescriptiveAnalysis": OVERLAP,
    "AnomalyDetection": OVERLAP,
}
"""By the `qsubtype` of an analysis; facts and numbers are compared exactly."""
ANALYSES = tuple(View(name, "DataAnalysis", name) for name, way in WAYS.items() if way is not OVERLAP)


def held(row: Row, views: tuple[str, ...]) -> Item:
    """A held-out question; its answer is what the last line of an output should be."""
    gold = str(row["answer"])
    return Item(
        id=str(row["id"]),
        prompt=str(row["instruction"]),
        answer=f"Final Answer: {gold}",
        subset=str(row["qsubtype"]),
        reference=json.dumps({"gold": gold, "views": views}, ensure_ascii=False),
    )


def trained(row: Row) -> Item | None:
    """A training question: the answer to learn is the whole response, the gold is what it ends with."""
    response = str(row["response"])
    gold = answers.final(response)
    if gold is None:
        return None
    item = held({**row, "answer": gold}, ())
    return item.model_copy(update={"answer": response})


def grade(output: str, item: Item) -> Graded:
    """The answer's share that is right; beside it the authors' and FT-Dojo's figures. Raises SetupError where the
    package is missing that FT-Dojo's ROUGE-L is made with."""
    reference = json.loads(item.reference)
    gold, way = reference["gold"], WAYS.get(item.subset, EXACT)
    said = answers.final(output)
    values = {"authors": way.authors(answers.final_authors(output), gold)}
    for view in reference["views"]:
        compare = OVERLAP.ftdojo if view == ALL else way.ftdojo
        values[f"{view}_ftdojo"] = compare(answers.final_ftdojo(output), gold)
    return Graded(score=way.ours(said, gold) if said else 0.0, answer=said, values=values)


def over_views(*views: View) -> Aggregate:
    """FT-Dojo's figure for several views: the mean of their means. A row that is in two views counts in both."""
    names = [f"{view.name}_ftdojo" for view in views]

    def of(outcomes: Sequence[Outcome]) -> float:
        scores = ([one.values[name] for one in outcomes if name in one.values] for name in names)
        return fmean(fmean(each) for each in scores if each)

    return Aggregate("accuracy_ftdojo", of, figure="authors")


FACTS, NUMBERS = View("facts", "FactChecking"), View("numbers", "NumericalReasoning")
EVERYTHING = View(ALL, "DataAnalysis")
FACT_CHECKING = make(
    "fact_checking",
    "Facts that a table shows, or that follow from it",
    (FACTS,),
    held,
    trained,
    grade=grade,
    measure=Mean("accuracy"),
    others=(Mean("EM_authors", "authors"), Mean("accuracy_ftdojo", "facts_ftdojo")),
    sizes="48, 48",
    max_new_tokens=ROOM,
)
NUMERICAL_REASONING = make(
    "numerical_reasoning",
    "Numbers that are worked out from a table",
    (NUMBERS,),
    held,
    trained,
    grade=grade,
    measure=Mean("accuracy"),
    others=(Mean("EM_authors", "authors"), Mean("accuracy_ftdojo", "numbers_ftdojo")),
    sizes="100, 100",
    max_new_tokens=ROOM,
)
DATA_ANALYSIS = make(
    "data_analysis",
    "What a table shows: correlations, forecasts, causes, anomalies",
    (*ANALYSES, EVERYTHING),
    held,
    trained,
    grade=grade,
    measure=Mean("mixed score"),
    others=(Mean("Mix_Metric_authors", "authors"), over_views(*ANALYSES, EVERYTHING)),
    sizes="118, 167",
    max_new_tokens=ROOM,
    extras=answers.EXTRAS,
)
