"""Rows scored by a language model against a rubric, and those with a low score dropped."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from memory.records import Judge, Record
from tools.llm.prompt import fenced
from tools.operators.rehearsal import RowError
from tools.operators.rows import Kept, Row, Supplies, dropped_by_reason, lost
from tools.operators.writers import Call

JUDGED = "judged"
"""The column in which the score stands."""


class Judgement(Record):
    """A row's score. The reason stands first, so that the score follows from it."""

    reason: str = Field(max_length=300, description="what the rubric finds in the row, in a sentence")
    score: Literal[1, 2, 3, 4, 5] = Field(description="1 is useless, 5 is as good as the rubric asks for")


def judge(operator: Judge, rows: list[Row], supplies: Supplies, step: str) -> Kept:
    """The rows with a score of at least `least`. The prompt holds rubric and row alone, so that a row which was judged
    before, in whatever company, is not paid for again."""
    writers, work = supplies.language_models(step)
    calls = [
        Call(
            row.id,
            writers.prompt(
                "judge", Judgement, rubric=operator.rubric, row=fenced(f"prompt: {row.prompt}\nanswer: {row.answer}")
            ),
        )
        for row in rows
    ]
    done = writers.answers(
        Judgement,
        calls,
        purpose="judge",
        model=operator.model,
        step=step,
        room=work.room,
        came=lambda _, judged: int(judged.score >= operator.least),
    )
    words = f"{step} ({writers.pools[operator.model].model})"
    scored = [
        (judged.score, row.with_column(JUDGED, judged.score).passed(words))
        for row, judged in zip(rows, done.results, strict=True)
        if isinstance(judged, Judgement)
    ]
    by_score = {score: [row for at, row in scored if at == score] for score in range(1, 6)}
    low = {f"scored {score} of 5": some for score, some in by_score.items() if score < operator.least}
    return Kept(
        [row for score, row in scored if score >= operator.least],
        (*lost([each for each in done.results if isinstance(each, RowError)]), *dropped_by_reason(low)),
        (_distribution(words, by_score),),
        done.rehearsals,
    )


def _distribution(words: str, by_score: dict[int, list[Row]]) -> str:
    """How many rows got which score, for the card."""
    return f"{words}: " + ", ".join(f"{len(some)} rows scored {score}" for score, some in by_score.items())
