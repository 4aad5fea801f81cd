"""What a trial was made of, on the page: data with provenance, checks, rows, logs; all of it as text."""

from __future__ import annotations

from pathlib import Path

import pytest

from graph.page import trial_parts
from graph.page.trial_parts import Parts
from memory.errors import InputError
from memory.layout import RunFolder, write_rows, write_text
from memory.records import Blame, DatasetCard, Dropped, RowGroup
from memory.state import State
from tests import example_run
from tools.data import Message, TrainingRow


@pytest.fixture
def run(tmp_path: Path) -> tuple[RunFolder, State]:
    folder = RunFolder(tmp_path / "run")
    return folder, example_run.finished(folder)


def with_data(folder: RunFolder, rows: int) -> Parts:
    """A trial in progress with so many training rows."""
    lines = [
        TrainingRow(
            id=f"row-{number}",
            messages=(Message(role="user", content=f"Ask {number}"), Message(role="assistant", content="<b>Yes</b>")),
            source="syllogism",
            answered_by="model" if number % 2 else "source",
        )
        for number in range(rows)
    ]
    write_rows(folder.root / "datasets" / "x.jsonl", lines)
    card = DatasetCard(
        path="datasets/x.jsonl", sha256="d", rows=rows, mean_answer_chars=3,
        groups=(RowGroup(source="syllogism", rows=rows, steps=("take 60 rows", "mix")),),
        dropped=(Dropped(reason="repeats validation", rows=7, examples=("row-8",), step="compare with held-out text"),),
    )  # fmt: skip
    return Parts(example_run.plan(4), card, example_run.VERDICT, None, None)


def test_ended_trials_and_the_one_in_progress_can_be_chosen(run: tuple[RunFolder, State]) -> None:
    state: State = {**run[1], "plan": example_run.plan(4)}
    assert trial_parts.choices(state)[0] == ("trial 4, in progress", 4)
    assert trial_parts.choices(state)[1] == ("trial 3, accepted: learning_rate: 0.001 → 0.003", 3)
    assert "in progress" in trial_parts.about(trial_parts.parts(state, 4))
    assert "Arithmetic: +0.25" in trial_parts.about(trial_parts.parts(state, 3))
    with pytest.raises(InputError, match="there is no trial 9"):
        trial_parts.parts(state, 9)


def test_provenance_says_where_rows_come_from_and_what_was_left_out_and_why(tmp_path: Path) -> None:
    told = trial_parts.provenance(with_data(RunFolder(tmp_path), 60))
    for words in (
        "60 training rows",
        "take 60 rows, then mix",
        "repeats validation",
        "compare with held-out text",
        "7",
    ):
        assert words in told


def test_checks_stand_with_their_figures_and_a_failure_says_what_stopped_it(run: tuple[RunFolder, State]) -> None:
    folder, state = run
    checked = trial_parts.checks(with_data(folder, 1))
    assert "passed" in checked
    assert "100 rows" in checked
    assert "3 rows of validation in the data" in trial_parts.checks(trial_parts.parts(state, 2))


def test_training_rows_are_searched_and_paged_and_shown_as_text(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    part = with_data(folder, 60)
    page = trial_parts.training_rows(folder, part, "", 2)
    assert (len(page.items), page.total, page.says) == (10, 60, "51 to 60 of 60")
    found = trial_parts.training_rows(folder, part, "ASK 17", 1)
    shown = trial_parts.rows_html(found)
    assert found.total == 1
    assert "&lt;b&gt;Yes&lt;/b&gt;" in shown
    assert "answered by a model" in shown


def test_logs_are_read_from_a_fixed_table_and_cut_to_their_end(run: tuple[RunFolder, State]) -> None:
    folder, state = run
    part = trial_parts.parts(state, 1)
    write_text(folder.root / "trials" / "1" / "train" / "run.log", "old\n" * 100_000 + "the last line\n")
    text = trial_parts.log(folder, part, "training log")
    assert text.endswith("the last line\n")
    assert len(text) <= trial_parts.TAIL_BYTES
    assert trial_parts.log(folder, part, "scoring log") == "Not written yet."
    with pytest.raises(InputError, match="there is no log"):
        trial_parts.log(folder, part, "../../sealed/test.jsonl")


def test_what_the_change_did_and_what_is_to_blame_stand_with_their_figures(run: tuple[RunFolder, State]) -> None:
    folder, state = run
    blame = Blame(to="none", says="1 of 4 outputs fall short: capacity or noise.")
    third = state["trials"][2].model_copy(update={"blame": blame})
    state = {**state, "trials": [*state["trials"][:2], third]}
    told = trial_parts.why(folder, state, 3)
    for words in (
        "learning_rate",
        "0.001 → 0.003",
        "1 → 3",
        "within noise; one comparison, one seed",
        "capacity or noise",
    ):
        assert words in told
    assert "first recipe" in trial_parts.why(folder, state, 1)
    assert trial_parts.why(folder, state, 2) == "<p>It has no score.</p>"
    assert "To blame: none." in trial_parts.about(trial_parts.parts(state, 3))
