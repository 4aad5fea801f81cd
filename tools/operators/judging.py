"""Rows scored by a language model against a rubric, and those with a low score dropped."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from memory.records import Judge, Record
from tools.llm.prompt import fenced
from tools.operators.rehearsal import RowError
from tools.operators.rows import Kept, Row, Supplies, dropped, lost
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
    by_score: dict[int, list[Row]] = {score: [] for score in range(1, 6)}
    for row, judged in zip(rows, done.results, strict=True):
        if isinstance(judged, Judgement):
            by_score[judged.score].append(row.with_column(JUDGED, judged.score).passed(words))
    high = {row.id for score, some in by_score.items() if score >= operator.least for row in some}
    low = [dropped(f"scored {score} of 5", some) for score, some in by_score.items() if score < operator.least]
    kept = {row.id: row for some in by_score.values() for row in some}
    return Kept(
        [kept[row.id] for row in rows if row.id in high],
        (
            *lost([each for each in done.results if isinstance(each, RowError)]),
            *(note for some in low for note in some),
        ),
        (_distribution(words, by_score),),
        done.rehearsals,
    )


def _distribution(words: str, by_score: dict[int, list[Row]]) -> str:
    """How many rows got which score, for the card."""
    return f"{words}: " + ", ".join(f"{len(some)} rows scored {score}" for score, some in by_score.items())
