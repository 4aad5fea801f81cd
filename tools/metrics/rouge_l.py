"""ROUGE-L by the rouge-score library, with words of every script.

Source: Lin 2004, ROUGE: A Package for Automatic Evaluation of Summaries (aclanthology.org/W04-1013); rouge-score 0.1.2,
F measure, without stemming. The library's own tokenizer keeps a to z and digits alone; ours says the same for English
and reads other letters as well, Chinese and Japanese characters one by one.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from memory.records.metric import RougeL
from tools.benchmarks.benchmark import Graded, Item
from tools.metrics.grading import NOTHING, Closed, Grade
from tools.metrics.texts import plain

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_\u3040-\u30ff\u3400-\u9fff]+")


class Words:
    """A tokenizer for the library."""

    def tokenize(self, text: str) -> list[str]:
        """Words in lower case."""
        return _WORD.findall(plain(text).lower())


def grader(metric: RougeL, closed: Closed) -> Grade:
    """The F measure; an output without words holds no answer."""

    def grade(output: str, item: Item) -> Graded:
        if not Words().tokenize(output):
            return NOTHING
        score = _scorer().score(item.answer, output)["rougeL"].fmeasure
        return Graded(score=score, answer=plain(output))

    return grade


def objection(metric: RougeL, gold: str) -> str | None:
    """Why no output can be right."""
    return None if Words().tokenize(gold) else "it has no words"


@lru_cache(maxsize=1)
def _scorer() -> Any:
    """The library's scorer; imported here because that takes as long as all of the app."""
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(["rougeL"], tokenizer=Words())
