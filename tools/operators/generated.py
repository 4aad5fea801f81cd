"""Rows sent through a generated function, in the sandbox: what it returns takes their place."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple

from pydantic import JsonValue

from memory.errors import SetupError, TrialError
from memory.records import TRANSFORM, Transform
from tools.operators.rehearsal import Job, RowError, worked_off
from tools.operators.rows import Kept, Row, Supplies, Value, Workroom, dropped, lost, variant_id
from tools.operators.words import digest_of
from tools.sandbox.isolation import Isolation
from tools.sandbox.sandbox import Limits, Sandbox, SandboxError

LIMITS = Limits(seconds=10.0, cpu_seconds=5)
"""Of one row."""
WEAK_WAY_OUT = "or allow the weaker limits with --allow-weak-sandbox."
NEW_QUESTION = "transform"
"""The source of rows with a question of the function's own."""


class Made(NamedTuple):
    """A row that the function returned, and what it is to the scorer."""

    row: Row
    how: Literal["same", "accepted", "new", "refused"]
    """same: as it was. accepted: the scorer accepts its answer as one to the benchmark's item. new: another question,
    which no scorer judges. refused: the benchmark's question with an answer that is wrong."""


def transform(operator: Transform, rows: list[Row], supplies: Supplies, step: str) -> Kept:
    """What the function makes of each row, in the order of the rows."""
    work = supplies.work(step)
    digest = digest_of(operator)
    box = sandbox_of(operator, work)
    try:
        with box:
            job = Job[Row, list[Made]](
                step=step,
                units=rows,
                do=lambda row: _called(box, row, digest, work),
                came=lambda made: sum(each.how != "refused" for each in made),
            )
            done = worked_off(job, work.room)
    except SandboxError as error:
        raise TrialError("DATA", f"{step}: {error.message}", "Correct the code.") from error
    kept: list[Row] = []
    refused: list[Row] = []
    none: list[Row] = []
    new = 0
    for row, made in zip(rows, done.results, strict=True):
        if not isinstance(made, RowError):
            kept += [each.row.passed(step) for each in made if each.how != "refused"]
            refused += [each.row for each in made if each.how == "refused"]
            none += [] if made else [row]
            new += sum(each.how == "new" for each in made)
    return Kept(
        kept,
        (
            *lost([each for each in done.results if isinstance(each, RowError)]),
            *dropped(f"{TRANSFORM}() returned none", none),
            *dropped(f"the scorer does not accept the answer that {TRANSFORM}() gave", refused),
        ),
        (f"{step}: {new} rows ask questions of its own, which no scorer has judged",) if new else (),
        done.rehearsals,
    )


def sandbox_of(operator: Transform, work: Workroom, walls: Isolation | None = None) -> Sandbox:
    """The walls around it, by default the machine's best. Raises TrialError CONFIG where they are not strong enough."""
    try:
        return Sandbox(operator.code, TRANSFORM, need=work.sandbox, walls=walls, limits=LIMITS)
    except SetupError as error:
        raise TrialError("CONFIG", error.message, f"{error.way_out}, {WEAK_WAY_OUT}") from error


def _called(box: Sandbox, row: Row, digest: str, work: Workroom) -> list[Made]:
    given: dict[str, JsonValue] = {**row.values(), "id": row.id}
    try:
        value = box.call([given], row=row.id)
    except SandboxError as error:
        raise RowError(f"{TRANSFORM}() failed: {error.kind}", error.message) from error
    several = isinstance(value, list)
    values = value if isinstance(value, list) else [] if value is None else [value]
    names = [variant_id(row, number) if several else row.id for number in range(1, len(values) + 1)]
    return [_made(row, one, name, digest, work) for one, name in zip(values, names, strict=True)]


def _made(row: Row, value: JsonValue, name: str, digest: str, work: Workroom) -> Made:
    """One row of the function's. Raises RowError where it is none."""
    prompt, answer, columns = _texts(row, value)
    if (prompt, answer) == (row.prompt, row.answer):
        return Made(replace(row, id=name, columns=columns), "same")
    origin = f"made by {TRANSFORM}() {digest} from {row.id}"
    made = replace(row, id=name, prompt=prompt, answer=answer, columns=columns, origin=origin)
    if row.item is None:
        return Made(made, "accepted" if answer == row.answer else "new")
    if work.benchmark.grade(answer, row.item).score >= 1:
        return Made(made, "accepted")
    if prompt == row.prompt:
        return Made(made, "refused")
    return Made(replace(made, source=NEW_QUESTION, item=None), "new")


def _texts(row: Row, value: JsonValue) -> tuple[str, str, dict[str, Value]]:
    """Prompt, answer and columns of what the function returned. Raises RowError."""
    says = f"{TRANSFORM}() returned"
    if not isinstance(value, dict):
        raise RowError(f"{says} no row", f"{says} {repr(value)[:80]} on row {row.id}, where a dict was expected")
    prompt, answer = value.get("prompt"), value.get("answer")
    for text, field in ((prompt, "prompt"), (answer, "answer")):
        if not isinstance(text, str) or not text.strip():
            raise RowError(f"{says} no row", f"{says} no text under {field!r} on row {row.id}")
    fixed = row.values().keys() - row.columns.keys() | {"id"}
    columns = {key: one for key, one in value.items() if key not in fixed and isinstance(one, str | int | float | bool)}
    return str(prompt), str(answer), columns
