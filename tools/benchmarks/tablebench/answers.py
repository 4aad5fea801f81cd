"""Final answers of TableBench, compared three ways: ours, its authors' and FT-Dojo's.

Ours reads the last line that says `Final Answer:`, cuts it at its commas, and compares part by part: numbers as numbers
(1,062 is 1062, 5.0 is 5, -5 is not 5; 12.5% is 12.5 and 0.125), rounded to the decimals of the gold; other parts as a
reader compares them. An answer without that line is none.

The authors drop all punctuation first, so that 3.14 is 314, -0.5 is 05 and 12.5% is 125, while 5.0 is not 5; "A" is
dropped as an article; answers of several parts are one. FT-Dojo makes blanks of punctuation, so that 1,062 is not 1062
and 3.14 is "3 14"; takes the whole text where no line says `Final Answer:`; and of numbers compares the first one.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache
from typing import Any

from memory.records.metric import Numeric
from tools.benchmarks.preparation import refusal
from tools.metrics.numeric import taken
from tools.metrics.rouge_l import Words
from tools.metrics.texts import bare, without_reasoning

EXTRAS = ("rouge==1.0.1",)
"""The package that FT-Dojo's ROUGE-L is made with."""
WITHIN = Fraction(1, 10)
"""Relative error that is right where numbers are estimates."""
_FINAL = re.compile(r"final answer\W*:\s*(.*)", re.IGNORECASE)
_NUMBER = re.compile(r"[-+\u2212]?[$€£¥]?\s?(\d[\d,]*\.?\d*|\.\d+)(\s?%)?")
_COMMA = re.compile(r",(?!\d{3}(?!\d))\s*|,\s+")
"""A comma that separates parts: not one within a number."""
_ARTICLE = re.compile(r"\b(a|an|the)\b")

Compare = Callable[[str, str], float]
"""Answer and gold become 0 to 1."""


# --- ours -------------------------------------------------------------------------------------------------------------


def final(output: str) -> str | None:
    """What the last `Final Answer:` line says; None where there is none, or it says nothing."""
    lines = _FINAL.findall(without_reasoning(output))
    return (bare(lines[-1]) or None) if lines else None


def matching(answer: str, gold: str) -> float:
    """The share of parts that are right in their place, of the parts that there are on either side."""
    return _matching(answer, gold, same)


def matching_within(answer: str, gold: str) -> float:
    """The same, where a number is right within ten per cent of the gold."""
    return _matching(answer, gold, near)


def _matching(answer: str, gold: str, alike: Callable[[str, str], bool]) -> float:
    said, right = parts(answer), parts(gold)
    return sum(map(alike, said, right)) / max(len(said), len(right), 1)


def parts(text: str) -> list[str]:
    """An answer cut at its commas."""
    return [part for part in (piece.strip() for piece in _COMMA.split(text)) if part]


def same(said: str, gold: str) -> bool:
    """Whether one part of an answer is that of the gold."""
    ours, theirs = number(said), number(gold)
    if theirs is None or ours is None:
        return _plain(said) == _plain(gold)
    places = len(bare(gold).rstrip("%").strip().partition(".")[2])
    return any(theirs == (rounded(value, places) if places else value) for value in _readings(said, gold, ours))


def near(said: str, gold: str) -> bool:
    """The same, within ten per cent."""
    ours, theirs = number(said), number(gold)
    if theirs is None or ours is None:
        return _plain(said) == _plain(gold)
    return any(abs(value - theirs) <= WITHIN * abs(theirs) for value in _readings(said, gold, ours))


def number(text: str) -> Fraction | None:
    """A part that is one number and nothing else, with its sign; a per cent sign is no part of it."""
    shown = bare(text)
    found = taken(Numeric(), shown) if _NUMBER.fullmatch(shown) else None
    return found.value if found else None


def rounded(value: Fraction, places: int) -> Fraction:
    """Half up, to a number of decimals."""
    scale = Fraction(10) ** places
    sign = -1 if value < 0 else 1
    return sign * Fraction(int(abs(value) * scale + Fraction(1, 2))) / scale


def _readings(said: str, gold: str, value: Fraction) -> list[Fraction]:
    """A number where only one side has a per cent sign may be written as a share."""
    ours, theirs = bare(said).endswith("%"), bare(gold).endswith("%")
    return [value] if ours == theirs else [value, value * 100 if theirs else value / 100]


def _plain(text: str) -> str:
    return re.sub("[\u2010-\u2015\u2212]", "-", bare(text)).casefold()


def overlap(answer: str, gold: str) -> float:
    """ROUGE-L by the rouge-score library, F measure without stemming."""
    return float(_rouge_score(words=True).score(gold, answer)["rougeL"].fmeasure)


# --- the authors' -----------------------------------------------------------------------------------------------------


def final_authors(output: str) -> str:
    """The rest of the line behind the first `Final Answer: `, in that spelling; empty where there is none."""
    found = re.search(r"Final Answer: (.+)", output)
    return found[1] if found else ""


def normalised(text: str) -> str:
    """Lower case, punctuation and articles dropped."""
    bare_of = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return " ".join(_ARTICLE.sub(" ", bare_of).split())


def exact_authors(answer: str, gold: str) -> float:
    """Equal after normalising; digits alone are compared as numbers."""
    return _authors(answer, gold, lambda said, right: said == right)


def within_authors(answer: str, gold: str) -> float:
    """The same, digits alone within ten per cent."""
    return _authors(
        answer, gold, lambda said, right: said == right if right == 0 else abs(said - right) / right <= Decimal("0.1")
    )


def _authors(answer: str, gold: str, alike: Callable[[Decimal, Decimal], bool]) -> float:
    said, right = normalised(answer), normalised(gold)
    if not re.fullmatch(r"\d+", right):
        return float(said == right)
    try:
        return float(alike(Decimal(said), Decimal(right)))
    except InvalidOperation:
        return 0.0


def overlap_authors(answer: str, gold: str) -> float:
    """ROUGE-L of the normalised texts, with the library's own words."""
    return float(_rouge_score(words=False).score(normalised(gold), normalised(answer))["rougeL"].fmeasure)


# --- FT-Dojo's --------------------------------------------------------------------------------------------------------


def final_ftdojo(text: str) -> str:
    """The rest of the line behind the first `Final Answer:` in any case; the whole text where there is none."""
    found = re.search(r"Final Answer:\s*(.+?)(?:\n|$)", text, re.IGNORECASE | re.DOTALL)
    return (found[1] if found else text).strip()


def exact_ftdojo(answer: str, gold: str) -> float:
    """Equal in lower case with blanks for punctuation."""
    return float(_blanked(answer) == _blanked(final_ftdojo(gold)))


def within_ftdojo(answer: str, gold: str) -> float:
    """The first number of each within ten per cent; equal texts where one has none."""
    ours, theirs = _first_number(answer), _first_number(final_ftdojo(gold))
    if ours is None or theirs is None:
        return float(answer.strip().lower() == final_ftdojo(gold).lower())
    return float(abs(ours) < 1e-6 if theirs == 0 else abs(ours - theirs) / abs(theirs) <= 0.1)


def overlap_ftdojo(answer: str, gold: str) -> float:
    """ROUGE-L by the rouge package, which sums over sentences; 0 where it finds no words. Raises SetupError without
    that package."""
    try:
        return float(_rouge().get_scores(answer.lower() or "empty", gold.strip().lower() or "empty")[0]["rouge-l"]["f"])
    except ValueError:
        return 0.0


def _blanked(text: str) -> str:
    return " ".join(re.sub(r"[^\w\s]", " ", text.lower()).split())


def _first_number(text: str) -> float | None:
    found = re.search(r"-?\d+\.?\d*", text.strip().replace(",", "").replace("%", ""))
    return float(found[0]) if found else None


# --- libraries, imported when they are needed -------------------------------------------------------------------------


@lru_cache(maxsize=2)
def _rouge_score(words: bool) -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(["rougeL"], tokenizer=Words()) if words else RougeScorer(["rougeL"], use_stemmer=False)


@lru_cache(maxsize=1)
def _rouge() -> Any:
    try:
        from rouge import Rouge
    except ImportError as error:
        raise refusal("tablebench_data_analysis", EXTRAS[0]) from error
    return Rouge()
