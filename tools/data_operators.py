"""The operators of a data recipe: each takes working rows, and returns those that stay and a note on those that do
not."""

from __future__ import annotations

import string
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import groupby
from typing import NamedTuple

import duckdb

from memory.errors import TrialError
from memory.records import Deduplicate, Dropped, Filter, MapTemplate, Mix, Operator, Select

Value = str | int | float | bool
FILTER_SECONDS = 30.0
"""A filter expression that runs longer is stopped."""
EXAMPLES = 3
"""Dropped rows that a note quotes."""


@dataclass(frozen=True)
class Row:
    """A row on its way into the training file."""

    id: str
    prompt: str
    answer: str
    source: str
    columns: Mapping[str, Value]
    steps: tuple[str, ...] = ()
    """Operators that the row passed, in words."""

    def values(self) -> dict[str, Value]:
        """All columns that a filter or a template may name; the fixed ones win over the row's own, whatever their
        case."""
        fixed: dict[str, Value] = {"prompt": self.prompt, "answer": self.answer, "source": self.source}
        fixed |= {"prompt_chars": len(self.prompt), "answer_chars": len(self.answer)}
        return {name: value for name, value in self.columns.items() if name.casefold() not in fixed} | fixed

    def passed(self, step: str) -> Row:
        """The same row after one more operator."""
        return replace(self, steps=(*self.steps, step))


class Kept(NamedTuple):
    """What an operator leaves."""

    rows: list[Row]
    dropped: tuple[Dropped, ...] = ()


def apply(operator: Operator, rows: list[Row], sources: Mapping[str, Sequence[Row]]) -> Kept:
    """Apply one operator; `sources` holds the rows that a `mix` may name.

    Raises TrialError CONFIG for an operator that cannot be applied, DATA where it leaves no row.
    """
    match operator:
        case Filter():
            kept = _filter(operator, rows)
        case MapTemplate():
            kept = _map(operator, rows)
        case Deduplicate():
            kept = _deduplicate(rows)
        case Mix():
            kept = _mix(operator, rows, sources)
        case Select():
            kept = _select(operator, rows)
    if not kept.rows:
        raise TrialError(
            "DATA", f"no row is left after: {describe(operator)} ({len(rows)} rows before)", "Loosen this operator."
        )
    return kept


def describe(operator: Operator) -> str:
    """An operator in words, as it stands in the provenance of a row."""
    match operator:
        case Filter():
            return f"filter {operator.where}"
        case MapTemplate():
            return f"map prompt to {operator.prompt!r}, answer to {operator.answer!r}"
        case Deduplicate():
            return "deduplicate"
        case Mix():
            return f"mix {operator.share:.0%} of {operator.source}"
        case Select():
            balance = " balanced by answer" if operator.balance == "answer" else ""
            return f"select {operator.rows}{balance}, seed {operator.seed}"


def _filter(operator: Filter, rows: list[Row]) -> Kept:
    true = _true_positions(operator.where, rows)
    step = describe(operator)
    kept = [row.passed(step) for position, row in enumerate(rows) if position in true]
    return Kept(
        kept, _note(f"not: {operator.where}", [row for position, row in enumerate(rows) if position not in true])
    )


def _true_positions(where: str, rows: list[Row]) -> set[int]:
    """Positions of the rows for which a SQL expression is true. The database is empty but for them, lives in memory,
    and can reach neither files, network, extensions nor Python's variables: the expression may come from a language
    model."""
    limits: dict[str, str | bool | int | float | list[str]] = {
        "enable_external_access": False,
        "python_enable_replacements": False,
        "memory_limit": "1GB",
        "threads": 1,
    }
    query = f'SELECT "#" FROM training_rows WHERE (\n{where}\n)'
    with duckdb.connect(":memory:", config=limits) as database:
        watchdog = threading.Timer(FILTER_SECONDS, database.interrupt)
        try:
            if len(database.extract_statements(query)) != 1:
                raise TrialError("CONFIG", f"filter is more than one expression: {where}", "Give one condition.")
            _load(database, rows)
            database.execute("SET lock_configuration = true")
            watchdog.start()
            return {int(position) for (position,) in database.execute(query).fetchall()}
        except duckdb.Error as error:
            reason = " ".join(str(error).split("\n\nLINE")[0].split())
            raise TrialError(
                "CONFIG", f"filter {where!r} fails: {reason}", "Write a DuckDB condition over the row's columns."
            ) from error
        finally:
            watchdog.cancel()


def _load(database: duckdb.DuckDBPyConnection, rows: list[Row]) -> None:
    """The rows as a table, numbered by the column `#`; a column that a row lacks is NULL there, one of mixed types
    becomes text."""
    values = [row.values() for row in rows]
    names = list(dict.fromkeys(name for row in values for name in row))
    table: dict[str, tuple[str, list[Value | int | None]]] = {"#": ("BIGINT", list(range(len(rows))))}
    for name in names:
        column = [row.get(name) for row in values]
        kind = _sql_type(column)
        table[name] = (kind, [str(value) if kind == "VARCHAR" and value is not None else value for value in column])
    quoted = ['"' + name.replace('"', '""') + '"' for name in table]
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in zip(quoted, table.values(), strict=True))
    database.execute(f"CREATE TABLE training_rows ({columns})")
    unnested = ", ".join(f"unnest(?::{kind}[])" for kind, _ in table.values())
    database.execute(f"INSERT INTO training_rows SELECT {unnested}", [column for _, column in table.values()])


def _sql_type(column: Sequence[Value | None]) -> str:
    kinds = {type(value) for value in column if value is not None}
    if kinds == {bool}:
        return "BOOLEAN"
    if kinds == {int}:
        return "BIGINT"
    return "DOUBLE" if kinds and kinds <= {int, float} else "VARCHAR"


def _map(operator: MapTemplate, rows: list[Row]) -> Kept:
    prompt, answer = _template(operator.prompt), _template(operator.answer)
    step = describe(operator)
    return Kept([replace(row, prompt=prompt(row), answer=answer(row)).passed(step) for row in rows])


def _template(template: str) -> Callable[[Row], str]:
    """A filler for `{column}` places. Nothing else that Python's format language can do is let in."""
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise TrialError("CONFIG", f"template {template!r} fails: {error}", "Write a literal brace twice.") from error
    if odd := [f"{name}" for _, name, spec, conversion in parts if name is not None and (spec or conversion)]:
        raise TrialError("CONFIG", f"template {template!r} formats {odd[0]!r}", "Name columns only, such as {prompt}.")

    def fill(row: Row) -> str:
        values = row.values()
        if missing := [name for _, name, _, _ in parts if name is not None and name not in values]:
            raise TrialError(
                "CONFIG",
                f"template {template!r} names {missing[0]!r}, which row {row.id} of {row.source} lacks",
                f"Use one of: {', '.join(sorted(values))}.",
            )
        return "".join(literal + (str(values[name]) if name is not None else "") for literal, name, _, _ in parts)

    return fill


def _deduplicate(rows: list[Row]) -> Kept:
    first: dict[tuple[str, str], Row] = {}
    again: list[Row] = []
    for row in rows:
        key = (folded(row.prompt), folded(row.answer))
        if first.setdefault(key, row) is not row:
            again.append(row)
    return Kept(
        [row.passed("deduplicate") for row in first.values()], _note("same prompt and answer as an earlier row", again)
    )


def _mix(operator: Mix, rows: list[Row], sources: Mapping[str, Sequence[Row]]) -> Kept:
    """Rows of the source are taken in an order that only their content decides, so that a larger share contains a
    smaller one."""
    if operator.source not in sources:
        known = ", ".join(sorted(sources)) or "none"
        raise TrialError(
            "CONFIG", f"mix names {operator.source!r}, which is no raw source", f"Raw sources of this task: {known}."
        )
    wanted = max(1, round(operator.share / (1 - operator.share) * len(rows)))
    taken = sorted(sources[operator.source], key=lambda row: _rank(row, 0))[:wanted]
    step = f"{describe(operator)} ({len(taken)} of {wanted} wanted rows)"
    return Kept([*rows, *(row.passed(step) for row in taken)])


def _select(operator: Select, rows: list[Row]) -> Kept:
    """The chosen rows in the order of their ranks: with one seed, a larger selection begins with a smaller one."""
    ranked = sorted(rows, key=lambda row: _rank(row, operator.seed))
    if operator.balance == "answer":
        ranked = _round_robin(ranked)
    step = describe(operator)
    chosen = [row.passed(step) for row in ranked[: operator.rows]]
    return Kept(chosen, _note(f"not among the {operator.rows} selected", ranked[operator.rows :]))


def _round_robin(ranked: list[Row]) -> list[Row]:
    """One row of each answer in turn; an answer that has run out is passed over."""
    turn = {
        answer: list(group)
        for answer, group in groupby(sorted(ranked, key=lambda row: row.answer), lambda row: row.answer)
    }
    longest = max(map(len, turn.values()), default=0)
    return [row for place in range(longest) for group in turn.values() if place < len(group) for row in (group[place],)]


def _rank(row: Row, seed: int) -> str:
    """A place in a random order that depends on the seed and the row alone, not on the rows beside it."""
    return blake2b(f"{seed}\0{row.source}\0{row.id}".encode(), digest_size=16).hexdigest()


def _note(reason: str, rows: Sequence[Row]) -> tuple[Dropped, ...]:
    if not rows:
        return ()
    quotes = tuple(f"{row.id}: {' '.join(row.prompt.split())[-80:]} -> {row.answer[:40]}" for row in rows[:EXAMPLES])
    return (Dropped(reason=reason, rows=len(rows), examples=quotes),)


def folded(text: str) -> str:
    """Text without regard to case and white space."""
    return " ".join(text.casefold().split())
