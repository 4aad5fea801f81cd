"""NOC4PC: is a claim rejected for lack of novelty (102), rejected as obvious (103), or allowed?

An answer is a code in the output's one JSON object; an output without one is wrong and counts. The measure is macro F1
over the three codes: always saying 103 is right often, and worth about a third by it. FT-Dojo's scorer leaves outputs
that it cannot read out of its figures, and takes "not allowable" for ALLOW. The authors make a fourth class of outputs
that cannot be read, whose F1 is 0: a single one takes a quarter off.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from memory.records import Outcome
from tools.benchmarks.benchmark import Graded, Item
from tools.benchmarks.measures import Aggregate, Mean, macro_f1
from tools.benchmarks.panorama.task import application, fenced, field, figures, json_ftdojo, make, name_of, patent
from tools.raw_data.rows import Row, nested

CODES = ("102", "103", "ALLOW")
FTDOJO = "ftdojo"


def item_of(row: Row) -> Item:
    """The claim, and the cited patents with their claims and the paragraphs that were pointed at."""
    head, claim = application(row)
    cited = []
    for number, prior in enumerate(nested(row["prior_art_specifications"]), 1):
        paragraphs = "\n".join(f"[{each['key']}] {each['content']}" for each in prior.get("paragraphs") or [])
        cited.append(f"Prior art {number}: {patent(prior)}\nParagraphs cited:\n{paragraphs}")
    gold = str(nested(row["answer"])["code"]).strip().upper()
    return Item(
        id=name_of("noc4pc", row),
        prompt="\n\n".join(
            [
                "You are a US patent examiner. Decide about a claim of the application below in view of the prior art "
                "that is quoted.",
                f"{head}\nClaim {row['claim_number']}: {claim}",
                *(cited or ["No prior art is quoted."]),
                "Codes: 102 if a single prior document anticipates the claim, so that it is not novel; 103 if the "
                "claim is obvious over the prior art; ALLOW if it is neither.",
                'Answer with one JSON object that holds the code, and nothing else: {"code": "102"}',
            ]
        ),
        answer=json.dumps({"code": gold}),
        subset=gold,
        columns={"claim_number": int(str(row["claim_number"]))},
        reference=json.dumps({"gold": gold}),
    )


def code(output: str) -> str | None:
    """The decision of an output, in `code`: 102, 103 or ALLOW."""
    said = field(output, "code")
    text = str(said).strip().upper() if isinstance(said, str | int) and not isinstance(said, bool) else ""
    return text if text in CODES else None


def code_ftdojo(output: str) -> str | None:
    """What FT-Dojo's scorer takes for the decision of an output."""
    text = fenced(output)
    data = json_ftdojo(text)
    if isinstance(data, dict) and (said := str(data.get("code") or "").strip().upper()) in CODES:
        return said
    choice = "(ALLOW|102|103)"
    for pattern in (rf'"code"\s*:\s*"{choice}"', rf"\"code\"\s*:\s*'{choice}'", rf"\bcode\s*[:=]\s*{choice}\b"):
        if found := re.search(pattern, text, re.IGNORECASE):
            return found[1].upper()
    return next((each for each in ("ALLOW", "102", "103") if each in text.upper()), None)


def grade(output: str, item: Item) -> Graded:
    """1 for the examiner's decision."""
    gold, said, published = json.loads(item.reference)["gold"], code(output), code_ftdojo(output)
    labels = {"gold": gold} | ({"said": said} if said else {}) | ({FTDOJO: published} if published else {})
    values = {"accuracy_ftdojo": float(published == gold)} if published else {}
    return Graded(score=float(said == gold), answer=said, labels=labels, values=values)


def macro_f1_authors() -> Aggregate:
    """The authors' macro F1: outputs that cannot be read are a class of their own, whose F1 is 0."""
    three = macro_f1("", CODES, "said")

    def of(outcomes: Sequence[Outcome]) -> float:
        failed = any("said" not in outcome.labels for outcome in outcomes)
        return three.of(outcomes) * len(CODES) / (len(CODES) + failed)

    return Aggregate("macro_f1_authors", of, "gold")


NOC4PC = make(
    "noc4pc",
    "Is a claim rejected as not novel (102) or obvious (103), or allowed? (a code, as JSON)",
    item_of,
    grade=grade,
    closed_answers=tuple(json.dumps({"code": each}) for each in CODES),
    measure=macro_f1("macro F1", CODES, "said"),
    others=(
        Mean("accuracy"),
        macro_f1_authors(),
        macro_f1("macro_f1_ftdojo", CODES, FTDOJO, parsed_only=True),
        *figures("accuracy_ftdojo"),
    ),
)
