"""New rows, written by a language model that is shown rows of the training split."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean

from pydantic import Field

from memory.errors import TrialError
from memory.records import Record, Synthesise
from tools.llm.endpoint import CHARS_A_TOKEN
from tools.llm.prompt import fenced
from tools.operators.duplicates import without_held_out
from tools.operators.rehearsal import RowError
from tools.operators.rows import Kept, Row, Supplies, Workroom, dropped, folded, lost, rank
from tools.operators.writers import Call, Writers

SOURCE = "synthesised"
"""What such rows name as their source."""
A_CALL = 5
"""Rows that one call asks for: with more of them the later ones repeat the earlier."""
FILLED = 0.5
"""Share of the room for an answer that rows may fill; the rest is for reasoning, JSON, and rows longer than usual."""


class NewRow(Record):
    """A question and its answer."""

    prompt: str = Field(min_length=1)
    answer: str = Field(min_length=1)


class NewRows(Record):
    """New training rows."""

    rows: tuple[NewRow, ...] = Field(min_length=1, description='objects with the texts "prompt" and "answer"')


def synthesise(operator: Synthesise, rows: list[Row], supplies: Supplies, step: str) -> Kept:
    """The rows, and behind them the new ones whose question is not there yet."""
    writers, work = supplies.language_models(step)
    own = sorted((row for row in rows if row.item is not None), key=lambda row: rank(row, operator.seed))
    if not own:
        raise TrialError("DATA", f"{step}: no row of the benchmark is there to be shown", "Loosen what is before it.")
    calls, there = list(_calls(operator, own, writers, work)), {folded(row.prompt) for row in rows}
    done = writers.answers(
        NewRows,
        calls,
        purpose="synthesise",
        model=operator.model,
        step=step,
        room=work.room,
        came=lambda call, answer: sum(folded(row.prompt) not in there for row in answer.rows[: call.rows]),
    )
    new: list[Row] = []
    failed: list[RowError] = []
    for call, answer in zip(calls, done.results, strict=True):
        if isinstance(answer, RowError):
            failed += [answer] * call.rows
        else:
            new += _rows(operator, call, answer, writers, step, len(new))
    kept = _distinct(new, rows, work.benchmark.closed_answers)
    clean = without_held_out(kept.rows, work.held_out)
    gone = (*lost(failed), *kept.dropped, *clean.dropped)
    return Kept([*rows, *clean.rows], gone, rehearsals=done.rehearsals)


def _calls(operator: Synthesise, own: Sequence[Row], writers: Writers, work: Workroom) -> Iterator[Call]:
    """The calls, each shown other rows of the training split, so that no two are alike. Of long rows a call asks for
    fewer, as its answer has only so much room."""
    room = writers.pools[operator.model].answer_tokens * CHARS_A_TOKEN * FILLED
    a_call = max(1, min(A_CALL, int(room / fmean(len(row.prompt) + len(row.answer) for row in own))))
    shots = min(operator.shots, len(own))
    for number in range(math.ceil(operator.rows / a_call)):
        shown = [own[(number * shots + place) % len(own)] for place in range(shots)]
        yield _call(operator, number, min(a_call, operator.rows - number * a_call), shown, writers, work)


def _call(operator: Synthesise, number: int, count: int, shown: list[Row], writers: Writers, work: Workroom) -> Call:
    """One call, with fewer examples where they do not fit the model's window."""
    closed = work.benchmark.closed_answers
    answers = f"Each answer is one of: {', '.join(map(repr, closed))}." if closed else ""
    while True:
        examples = "\n\n".join(fenced(f"prompt: {row.prompt}\nanswer: {row.answer}") for row in shown)
        prompt = writers.prompt(
            "synthesise",
            NewRows,
            wanted=operator.prompt,
            count=str(count),
            part=str(number + 1),
            answers=answers,
            examples=examples,
        )
        if len(prompt) <= writers.pools[operator.model].prompt_chars or len(shown) == 1:
            return Call(", ".join(row.id for row in shown), prompt, count)
        shown = shown[:-1]


def _rows(operator: Synthesise, call: Call, answer: NewRows, writers: Writers, step: str, before: int) -> list[Row]:
    """The rows of one answer, at most as many as were asked for; `before` is how many earlier answers gave."""
    digest, model = writers.digest("synthesise", operator.prompt), writers.pools[operator.model].model
    made = Row("", "", "", SOURCE, {}, answered_by="writer", steps=(f"{step} ({model}, prompt {digest})",))
    made = replace(made, origin=f"written by {model}, prompt {digest}, shown {call.about}")
    return [
        replace(made, id=f"{SOURCE}:{digest[:6]}-{operator.seed}-{place}", prompt=row.prompt, answer=row.answer)
        for place, row in enumerate(answer.rows[: call.rows], before + 1)
    ]


def _distinct(new: Sequence[Row], rows: Sequence[Row], closed: tuple[str, ...] | None) -> Kept:
    """The new rows with a question of their own and an answer that may be, in the spelling of the closed answers."""
    seen = {folded(row.prompt) for row in rows}
    official = {folded(answer): answer for answer in closed or ()}
    kept: list[Row] = []
    again: list[Row] = []
    odd: list[Row] = []
    for row in new:
        answer = official.get(folded(row.answer)) if official else row.answer.strip()
        if not answer or not row.prompt.strip():
            odd.append(row)
        elif folded(row.prompt) in seen:
            again.append(row)
        else:
            kept.append(replace(row, answer=answer))
            seen.add(folded(row.prompt))
    reason = "the answer is none of the closed answers" if official else "an empty question or answer"
    return Kept(kept, dropped("asks what another row asks", again) + dropped(reason, odd))
