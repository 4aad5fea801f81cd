"""PI4PC: which of five paragraphs of a cited patent did the examiner point at?

An answer is a whole number in the output's one JSON object. A gold paragraph is right; in the authors' score a silver
one is worth half. FT-Dojo's scorer never learns of silver paragraphs, and where it finds no JSON it takes the first
number of the text, which may be that of the claim, or a year.
"""

from __future__ import annotations

import json
import re

from tools.benchmarks.benchmark import Graded, Item
from tools.benchmarks.measures import Mean
from tools.benchmarks.panorama.task import application, fenced, field, figures, json_ftdojo, make, name_of, named
from tools.raw_data.rows import Row, nested


def item_of(row: Row) -> Item:
    """The claim, the cited patent with its whole specification, and five paragraphs of it."""
    head, claim = application(row)
    prior = nested(row["prior_art_specification"])
    options = {int(key): text for key, text in nested(row["options"]).items() if text is not None}
    gold, silver = ([int(key) for key in named(row[f"{kind}_answers"])] for kind in ("gold", "silver"))
    return Item(
        id=name_of("pi4pc", row, prior["patent_id"], *gold),
        prompt="\n\n".join(
            [
                "You are a patent examiner. You reject a claim of the application below over a prior patent. Choose "
                "the one paragraph of that patent that supports the rejection best.",
                f"{head}\nClaim {row['claim_number']}: {claim}",
                f"Patent {prior['patent_id']}\nTitle: {prior['title']}\nAbstract: {prior['abstract']}\n"
                f"Specification:\n{prior.get('specification')}",
                "Paragraphs to choose from, by number:\n"
                + "\n".join(f"{key}: {text}" for key, text in sorted(options.items())),
                'Answer with one JSON object that holds the number, and nothing else: {"answer": 17}',
            ]
        ),
        answer=json.dumps({"answer": gold[0]}),
        columns={"claim_number": int(str(row["claim_number"]))},
        reference=json.dumps({"gold": gold, "silver": silver}),
    )


def paragraph(output: str) -> int | None:
    """The paragraph that an output names, in `answer`: a whole number, also written as a text."""
    said = field(output, "answer")
    if isinstance(said, str) and re.fullmatch(r"\d{1,9}", said.strip()):
        return int(said)
    return said if isinstance(said, int) and not isinstance(said, bool) else None


def paragraph_ftdojo(output: str) -> int | None:
    """What FT-Dojo's scorer takes for the paragraph of an output."""
    text = fenced(output)
    data = json_ftdojo(text)
    try:
        if isinstance(data, dict) and data.get("answer") is not None:
            return int(data["answer"])
    except (ValueError, TypeError):
        pass
    for pattern in (r'"answer"\s*:\s*(\d+)', r'"answer"\s*:\s*"(\d+)"', r"answer\s*[:=]\s*(\d+)", r"\b(\d+)\b"):
        if found := re.search(pattern, text, re.IGNORECASE):
            return int(found[1])
    return None


def grade(output: str, item: Item) -> Graded:
    """1 for a gold paragraph; a silver one is worth half in the authors' score."""
    reference = json.loads(item.reference)
    said, published = paragraph(output), paragraph_ftdojo(output)
    hit, silver = float(said in reference["gold"]), float(said in reference["silver"])
    theirs = float(published in reference["gold"])
    return Graded(
        score=hit,
        answer=None if said is None else str(said),
        values={
            "custom score": hit + silver / 2,
            "gold or silver": hit + silver,
            "gold_hit_rate_ftdojo": theirs,
            "custom_score_ftdojo": theirs,
            "accuracy_ftdojo": theirs,
        },
    )


PI4PC = make(
    "pi4pc",
    "Which of five paragraphs supports the rejection of a claim? (a number, as JSON)",
    item_of,
    grade=grade,
    measure=Mean("gold hit rate"),
    others=figures("custom score", "gold or silver", "gold_hit_rate_ftdojo", "custom_score_ftdojo", "accuracy_ftdojo"),
)
