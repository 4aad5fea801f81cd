"""Token F1 as SQuAD measures it.

Source: Rajpurkar et al. 2016, SQuAD: 100,000+ Questions for Machine Comprehension of Text (arXiv:1606.05250), section
6.1: the harmonic mean of precision and recall over bags of words, in lower case, without ASCII punctuation and the
articles a, an, the.
"""

from __future__ import annotations

import re
import string
from collections import Counter

from memory.records.metric import TokenF1
from tools.benchmarks.benchmark import Graded, Item
from tools.metrics.grading import NOTHING, Closed, Grade
from tools.metrics.texts import plain

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")


def grader(metric: TokenF1, closed: Closed) -> Grade:
    """F1 of the words; an output without words holds no answer."""

    def grade(output: str, item: Item) -> Graded:
        said, gold = words(output), words(item.answer)
        if not said:
            return NOTHING
        shared = (Counter(said) & Counter(gold)).total()
        return Graded(score=2 * shared / (len(said) + len(gold)), answer=plain(output))

    return grade


def objection(metric: TokenF1, gold: str) -> str | None:
    """Why no output can be right."""
    return None if words(gold) else "it has no words beside articles and punctuation"


def words(text: str) -> list[str]:
    """SQuAD's words of a text; letters are composed first, so that one accent is one accent."""
    return _ARTICLE.sub(" ", plain(text).lower().translate(_NO_PUNCTUATION)).split()
