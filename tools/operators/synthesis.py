"""New rows, written by a language model that is shown rows of the training split."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from pydantic import Field

from memory.errors import TrialError
from memory.records import Record, Synthesise
from tools.llm.prompt import fenced
from tools.operators.duplicates import without_held_out
from tools.operators.rehearsal import RowError
from tools.operators.rows import Kept, Row, Supplies, Workroom, dropped, folded, lost, rank
from tools.operators.writers import Call, Writers

SOURCE = "synthesised"
"""What such rows name as their source."""
A_CALL = 5
"""Rows that one call asks for: with more of them the later ones repeat the earlier."""


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
    shown = _shown(operator, rows, step)
    calls = [_call(operator, number, some, writers, work) for number, some in enumerate(shown)]
    done = writers.answers(
        NewRows,
        calls,
        purpose="synthesise",
        model=operator.model,
        step=step,
        room=work.room,
        came=lambda _, answer: len(answer.rows),
    )
    digest, model = writers.digest("synthesise", operator.prompt), writers.pools[operator.model].model
    words = f"{step} ({model}, prompt {digest})"
    new: list[Row] = []
    for number, (call, answer) in enumerate(zip(calls, done.results, strict=True)):
        origin = f"written by {model}, prompt {digest}, shown {call.about}"
        for place, row in enumerate(answer.rows if isinstance(answer, NewRows) else ()):
            name = f"{SOURCE}:{digest[:6]}-{operator.seed}-{number * A_CALL + place + 1}"
            made = Row(name, row.prompt, row.answer, SOURCE, {}, answered_by="writer", origin=origin)
            new.append(made.passed(words))
    kept = _distinct(new[: operator.rows], rows, work.benchmark.closed_answers)
    failed = lost([each for each in done.results if isinstance(each, RowError)], A_CALL)
    clean = without_held_out(kept.rows, work.held_out)
    return Kept([*rows, *clean.rows], (*failed, *kept.dropped, *clean.dropped), rehearsals=done.rehearsals)


def _shown(operator: Synthesise, rows: Sequence[Row], step: str) -> list[list[Row]]:
    """The rows of the training split that each call is shown: all in turn, so that no two calls are alike."""
    own = sorted((row for row in rows if row.item is not None), key=lambda row: rank(row, operator.seed))
    if not own:
        raise TrialError("DATA", f"{step}: no row of the benchmark is there to be shown", "Loosen what is before it.")
    calls, shots = math.ceil(operator.rows / A_CALL), min(operator.shots, len(own))
    return [[own[(call * shots + place) % len(own)] for place in range(shots)] for call in range(calls)]


def _call(operator: Synthesise, number: int, shown: list[Row], writers: Writers, work: Workroom) -> Call:
    """One call, with fewer examples where they do not fit the model's window."""
    endpoint = writers.pools[operator.model]
    count = min(A_CALL, operator.rows - number * A_CALL)
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
        if len(prompt) <= endpoint.prompt_chars or len(shown) == 1:
            return Call(", ".join(row.id for row in shown), prompt, count)
        shown = shown[:-1]


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
