"""Rows that meet a condition: SQL over their columns, in a database that can reach nothing else."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import duckdb

from memory.errors import TrialError
from memory.records import Filter
from tools.operators.rows import Kept, Row, Value, dropped

FILTER_SECONDS = 30.0
"""A filter expression that runs longer is stopped."""


def keep_where(operator: Filter, rows: list[Row], step: str) -> Kept:
    """The rows for which the condition is true; where it is NULL it is not."""
    true = _true_positions(operator.where, rows)
    return Kept(
        [row.passed(step) for position, row in enumerate(rows) if position in true],
        dropped(f"not: {operator.where}", [row for position, row in enumerate(rows) if position not in true]),
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
            duckdb.SQLExpression(where)  # refuses all that is no single expression, without running it
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
