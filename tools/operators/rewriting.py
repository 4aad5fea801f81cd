"""Answers and questions rewritten by a language model, kept where the benchmark's own scorer still says yes."""

from __future__ import annotations

from dataclasses import replace

from pydantic import Field

from memory.records import Record, Rewrite
from tools.benchmarks.benchmark import Benchmark
from tools.llm.prompt import fenced
from tools.operators.rehearsal import RowError
from tools.operators.rows import Kept, Row, Supplies, dropped, lost
from tools.operators.writers import Call, Writers


class NewAnswer(Record):
    """The rewritten answer."""

    answer: str = Field(min_length=1)


class NewQuestion(Record):
    """The rewritten question, and what the model itself answers to it."""

    question: str = Field(min_length=1)
    answer: str = Field(min_length=1, description="your own answer to it, in the form that it asks for")


def rewrite(operator: Rewrite, rows: list[Row], supplies: Supplies, step: str) -> Kept:
    """The benchmark's rows rewritten, those that the scorer refuses dropped; rows of other sources as they are."""
    writers, work = supplies.language_models(step)
    own = {row.id: row for row in rows if row.item is not None}
    kind = NewAnswer if operator.field == "answer" else NewQuestion
    calls = [Call(row.id, _prompt(operator, kind, row, writers, work.benchmark)) for row in own.values()]
    done = writers.answers(
        kind,
        calls,
        purpose="rewrite_answer" if kind is NewAnswer else "rewrite_prompt",
        model=operator.model,
        step=step,
        room=work.room,
        came=lambda call, answer: int(_accepts(work.benchmark, own[call.about], answer)),
    )
    model = writers.pools[operator.model].model
    words = f"{step} ({model})"
    answers = dict(zip(own, done.results, strict=True))
    kept: list[Row] = []
    refused: list[Row] = []
    for row in rows:
        answer = answers.get(row.id)
        if answer is None:
            kept.append(row)
        elif not isinstance(answer, RowError):
            new = _rewritten(row, answer, f"{operator.field} rewritten by {model}").passed(words)
            (kept if _accepts(work.benchmark, row, answer) else refused).append(new)
    reason = f"the scorer does not accept the answer to the {'row' if operator.field == 'answer' else 'new question'}"
    failed = lost([each for each in done.results if isinstance(each, RowError)])
    return Kept(kept, (*failed, *dropped(reason, refused)), rehearsals=done.rehearsals)


def _prompt(operator: Rewrite, kind: type[Record], row: Row, writers: Writers, benchmark: Benchmark) -> str:
    question, gold = fenced(row.prompt), fenced(row.answer)
    if operator.field == "prompt":
        return writers.prompt("rewrite_prompt", kind, wanted=operator.prompt, question=question)
    room = str(benchmark.max_new_tokens)
    return writers.prompt(
        "rewrite_answer", kind, wanted=operator.prompt, question=question, gold=gold, most_tokens=room
    )


def _accepts(benchmark: Benchmark, row: Row, answer: Record) -> bool:
    """Whether the scorer gives the full mark to the answer as it will be trained or, for a new question, as the model
    gave it."""
    assert isinstance(answer, NewAnswer | NewQuestion) and row.item is not None
    if isinstance(answer, NewQuestion) and not answer.question.strip():
        return False
    return benchmark.grade(answer.answer, row.item).score >= 1


def _rewritten(row: Row, answer: Record, origin: str) -> Row:
    """The row with its new text. A new question keeps the benchmark's answer."""
    assert isinstance(answer, NewAnswer | NewQuestion)
    if isinstance(answer, NewQuestion):
        return replace(row, prompt=answer.question.strip(), origin=origin)
    return replace(row, answer=answer.answer.strip(), answered_by="model", origin=origin)
