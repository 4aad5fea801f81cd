"""PAR4PC: which of eight patents did the examiner cite against a claim?

An answer is one letter, letters with commas, or a list of letters, in the output's one JSON object. The measure is F1
over all items, with hits, extras and misses summed; silver patents are neither right nor wrong, as in the authors' own
score. Beside it stands the mean of the items' F1 with silver as wrong, which is the authors' "macro F1".

FT-Dojo's scorer calls the first of these `macro_f1`. It never learns of silver patents, so that they are wrong. Where
the JSON is not clean it finds an A and an E in the word "answer", and last of all it takes any single letter, also the
article "a"; "AC" is one letter to it, and ["A, C"] none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from tools.benchmarks.benchmark import Graded, Item
from tools.benchmarks.measures import f1, micro_f1
from tools.benchmarks.panorama.task import (
    application,
    fenced,
    field,
    figures,
    json_ftdojo,
    make,
    name_of,
    named,
    patent,
)
from tools.raw_data.rows import Row, nested

LETTERS = "ABCDEFGH"
_LETTER = re.compile(r"\b([A-H])\b", re.IGNORECASE)


def item_of(row: Row) -> Item:
    """The application with all its claims, and eight patents."""
    head, _ = application(row)
    claims = json.dumps(list(nested(row["context"])["claims"]), indent=4, ensure_ascii=False)
    options = {letter: nested(option) for letter, option in sorted(nested(row["options"]).items())}
    gold, silver = (sorted(named(row[f"{kind}_answers"])) for kind in ("gold", "silver"))
    return Item(
        id=name_of("par4pc", row),
        prompt="\n\n".join(
            [
                "You are a patent examiner. One claim of the application below was rejected over prior art. Decide "
                "from the texts alone which of the patents A to H were cited against it.",
                head,
                f"Claims as filed: {claims}",
                f"Claim in question: {row['claim_number']}",
                *(f"{letter}: {patent(option)}" for letter, option in options.items() if option),
                'Answer with one JSON object and nothing else: {"answer": "A"} for one patent, {"answer": ["A", "C"]} '
                "for several.",
            ]
        ),
        answer=json.dumps({"answer": gold[0] if len(gold) == 1 else gold}),
        columns={"claim_number": int(str(row["claim_number"]))},
        reference=json.dumps({"gold": gold, "silver": silver}),
    )


def letters(output: str) -> frozenset[str] | None:
    """The patents that an output names, in `answer`: one letter, letters with commas, or a list of letters. None where
    it holds none, or anything else beside them."""
    said = field(output, "answer")
    parts = re.split(r"\s*,\s*", said.strip()) if isinstance(said, str) else said
    if not isinstance(parts, list) or not parts:
        return None
    found = [part.strip().upper() for part in parts if isinstance(part, str)]
    whole = len(found) == len(parts) and all(len(letter) == 1 and letter in LETTERS for letter in found)
    return frozenset(found) if whole else None


def letters_ftdojo(output: str) -> frozenset[str]:
    """What FT-Dojo's scorer takes for the letters of an output."""
    text = fenced(output)
    data = json_ftdojo(text)
    said = data.get("answer", []) if isinstance(data, dict) else None
    if isinstance(said, str):
        tokens = re.split(r"[,\s]+", said.upper())
        return frozenset(token for token in tokens if token and "A" <= token <= "H")
    if isinstance(said, list):
        single = [part.strip().upper() for part in said if isinstance(part, str) and len(part.strip()) == 1]
        return frozenset(letter for letter in single if "A" <= letter <= "H")
    for pattern in (
        r'"answer"\s*:\s*\[\s*"([A-H])"\s*(?:,\s*"([A-H])"\s*)*\]',
        r'"answer"\s*:\s*"([A-H](?:,\s*[A-H])*)"',
    ):
        if found := re.search(pattern, text, re.IGNORECASE):
            return frozenset(letter.upper() for letter in re.findall(r"[A-H]", found.group(), re.IGNORECASE))
    return frozenset(letter.upper() for letter in _LETTER.findall(text))


def counts(said: Iterable[str], gold: frozenset[str], silver: frozenset[str]) -> tuple[int, int, int]:
    """Hits, extras and misses; silver answers are neither."""
    named = frozenset(said)
    return len(named & gold), len(named - gold - silver), len(gold - named)


def custom_score(hits: int, extras: int, misses: int) -> float:
    """The authors' score of a PAR4PC item, from 0 to 1: two points for a hit, one off for an extra or a miss, of two
    for each gold; none below zero."""
    golds = hits + misses
    return max(0.0, (2 * hits - extras - misses) / (2 * golds)) if golds else float(not extras)


def grade(output: str, item: Item) -> Graded:
    """The item's F1, to which silver answers neither add nor take away; and its counts, for F1 over all items."""
    reference = json.loads(item.reference)
    gold, silver = frozenset(reference["gold"]), frozenset(reference["silver"])
    said, published = letters(output), letters_ftdojo(output)
    ours, all_wrong, theirs = (
        counts(said or (), gold, silver),
        counts(said or (), gold, frozenset()),
        counts(published, gold, frozenset()),
    )
    return Graded(
        score=f1(*ours),
        answer=None if said is None else ", ".join(sorted(said)),
        values={
            "hits": ours[0],
            "extras": ours[1],
            "misses": ours[2],
            "exact match": float(said == gold),
            "custom score": custom_score(*ours),
            "F1 per item, silver wrong": f1(*all_wrong),
            "hits_ftdojo": theirs[0],
            "extras_ftdojo": theirs[1],
            "misses_ftdojo": theirs[2],
            "exact_match_ftdojo": float(published == gold),
            "custom_score_ftdojo": custom_score(*theirs),
        },
    )


PAR4PC = make(
    "par4pc",
    "Which of eight patents were cited against a claim? (letters, as JSON)",
    item_of,
    grade=grade,
    measure=micro_f1("micro F1", "hits", "extras", "misses"),
    others=(
        *figures("exact match", "custom score", "F1 per item, silver wrong"),
        micro_f1("macro_f1_ftdojo", "hits_ftdojo", "extras_ftdojo", "misses_ftdojo"),
        *figures("exact_match_ftdojo", "custom_score_ftdojo"),
    ),
)
