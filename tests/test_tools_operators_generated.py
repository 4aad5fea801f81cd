"""Generated code over rows: what it may return, what it cannot reach, and that every failure names its row."""

from __future__ import annotations

import socket
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from memory.errors import TrialError
from memory.layout import write_rows
from memory.records import DataRecipe, Select, Transform
from tests.data_steps import SPELLING, Heard, items, rows, workroom
from tools.benchmarks.splits import Sizes, write_splits
from tools.data import make_training_file, read_training_rows
from tools.operators import carry_out, generated
from tools.operators.rows import Kept, Row
from tools.operators.words import digest_of
from tools.row_checks import check_rows
from tools.sandbox.isolation import isolation

ROWS = rows(30)


@pytest.fixture(autouse=True)
def walls() -> None:
    """These tests run what a language model may write: not without walls."""
    if isolation().level != "strict":
        pytest.skip(isolation().says)


def code(body: str) -> Transform:
    return Transform(code="def transform(row):\n" + textwrap.indent(textwrap.dedent(body).strip(), "    "))


def run(folder: Path, step: Transform, given: list[Row] = ROWS, heard: Heard | None = None) -> Kept:
    return carry_out((step,), list(given), {}, None, workroom(folder, heard=heard))


def failure(folder: Path, step: Transform) -> TrialError:
    with pytest.raises(TrialError) as caught:
        run(folder, step)
    return caught.value


def reasons(kept: Kept) -> dict[str, int]:
    return {each.reason: each.rows for each in kept.dropped}


def test_a_row_a_list_or_nothing_comes_back_and_tells_where_it_is_from(tmp_path: Path) -> None:
    step = code("""
        number = int(row["id"].removeprefix("train-"))
        if number % 3 == 0:
            return None
        if number % 3 == 1:
            return row
        return [row, {**row, "prompt": "Please. " + row["prompt"], "twice": True}]
    """)
    heard = Heard()
    kept = run(tmp_path, step, heard=heard)
    assert len(kept.rows) == 10 + 20
    assert reasons(kept) == {"transform() returned none": 10}
    one, first, second = kept.rows[:3]
    assert (one.id, one.prompt, one.origin) == ("train-1", ROWS[1].prompt, "")
    assert (first.id, second.id) == ("train-2~1", "train-2~2")
    assert second.prompt == f"Please. {ROWS[2].prompt}"
    assert second.columns == {**ROWS[2].columns, "twice": True}
    assert second.origin == f"made by transform() {digest_of(step)} from train-2"
    assert second.item is not None, "the scorer accepts its answer as one to the benchmark's question"
    (rehearsal,) = heard.rehearsals
    assert (rehearsal.rows, rehearsal.failed, rehearsal.dollars, rehearsal.whole_rows) == (20, 0, 0.0, 30)


def test_the_scorer_keeps_wrong_answers_to_the_benchmarks_questions_out(tmp_path: Path) -> None:
    step = code("""
        number = int(row["id"].removeprefix("train-"))
        if number % 2:
            return {**row, "answer": row["answer"] + "x"}
        return {**row, "prompt": "Spell forward: " + row["answer"], "answer": row["answer"]}
    """)
    kept = run(tmp_path, step)
    assert reasons(kept) == {"the scorer does not accept the answer that transform() gave": 15}
    assert {row.source for row in kept.rows} == {SPELLING.name}
    own = code("""return {**row, "prompt": "Say " + row["id"], "answer": row["id"]}""")
    kept = run(tmp_path, own)
    assert {(row.source, row.item) for row in kept.rows} == {("transform", None)}
    assert kept.notes == (
        f"transform() {digest_of(own)}: 30 rows ask questions of its own, which no scorer has judged",
    )


def test_what_it_makes_passes_the_validators_checks(tmp_path: Path) -> None:
    train = tmp_path / "train.jsonl"
    write_rows(train, items(30))
    step = code(
        """return [row, {**row, "prompt": "Q: " + row["prompt"]}, {**row, "prompt": "?", "answer": row["id"]}]"""
    )
    card = make_training_file(
        DataRecipe(operators=(Select(rows=10), step)),
        source=SPELLING.name,
        train=train,
        raw={},
        cache=tmp_path / "cache",
        workroom=workroom(tmp_path),
    )
    assert card.rows == 30
    assert len(card.rehearsals) == 1
    checks = {check.name: check for check in check_rows(Path(card.path), SPELLING, {i.id: i for i in items(30)})}
    assert checks["golds"].passed
    assert {row.origin.partition(" from ")[0] for row in read_training_rows(Path(card.path))} == {
        "",
        f"made by transform() {digest_of(step)}",
    }


FAILURES = {
    "raises": ("return row['nothing']", "transform() on row train-0 failed: KeyError: 'nothing' (line 2)"),
    "no row": ("return 7", "transform() returned 7 on row train-0, where a dict was expected"),
    "no text": ("return {'prompt': 'x'}", "transform() returned no text under 'answer' on row train-0"),
    "ends": ("import os\nos._exit(3)", "transform() on row train-0 ended its process (exit code 3)"),
    "memory": ("return [0] * 10**9", "transform() on row train-0 wanted more than 1,024 MiB of memory"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_function_that_fails_ends_the_trial_and_names_the_row(tmp_path: Path, name: str) -> None:
    body, says = FAILURES[name]
    heard = Heard()
    with pytest.raises(TrialError) as caught:
        run(tmp_path, code(body), heard=heard)
    assert caught.value.kind == "DATA"
    assert says in caught.value.message
    assert heard.rehearsals[0].failed == 20


def test_a_few_failing_rows_are_dropped_by_name_and_a_file_that_does_not_load_is_an_error(tmp_path: Path) -> None:
    kept = run(tmp_path, code("return row if row['id'] != 'train-7' else row['id'] + 1"))
    assert len(kept.rows) == 29
    assert kept.dropped[0].reason == "transform() failed: raised"
    assert kept.dropped[0].examples[0].startswith("transform() on row train-7 failed: TypeError")
    error = failure(tmp_path, Transform(code="import numpy\ndef transform(row):\n    return row"))
    assert error.kind == "DATA"
    assert "cannot be loaded: ModuleNotFoundError" in error.message
    assert failure(tmp_path, code("return None")).message.startswith("no row came out of it: rehearsal of transform()")


def test_it_reaches_no_held_out_file_no_environment_and_no_network(tmp_path: Path) -> None:
    write_splits(SPELLING, tmp_path / "data", tmp_path / "sealed", Sizes(train=30, validation=10, test=10), 0)
    held = [path for path in tmp_path.rglob("*.jsonl") if "train" not in path.name]
    assert len(held) >= 2
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        step = code(f"""
            import os, socket
            seen = []
            for path in {[str(path) for path in held]!r} + ["/proc/self/environ", "/etc/passwd"]:
                try:
                    seen.append(open(path).read())
                except OSError:
                    pass
            try:
                socket.create_connection({listener.getsockname()!r}, timeout=1)
                seen.append("network")
            except OSError:
                pass
            secrets = [name for name in os.environ if "KEY" in name or "TUNEWRIGHT" in name]
            return {{**row, "prompt": "Q: " + row["prompt"], "seen": repr(seen + secrets)}}
        """)
        kept = run(tmp_path, step, ROWS[:2])
    assert [row.columns["seen"] for row in kept.rows] == ["[]", "[]"]


def test_without_strong_walls_it_does_not_run_unless_the_person_says_so(tmp_path: Path) -> None:
    step, work = code("return row"), workroom(tmp_path)
    weak = isolation().model_copy(update={"level": "weak", "reason": "bubblewrap is not installed"})
    with pytest.raises(TrialError) as caught:
        generated.sandbox_of(step, work, weak)
    assert caught.value.kind == "CONFIG"
    assert "transform() is not run: bubblewrap is not installed" in caught.value.message
    assert "--allow-weak-sandbox" in caught.value.way_out
    box = generated.sandbox_of(step, replace(work, sandbox="weak"), weak)
    assert box.isolation.level == "weak"
