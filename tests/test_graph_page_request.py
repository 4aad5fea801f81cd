"""A sentence that asks for a run becomes a command line, or one clear line says why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from graph.arguments import parse
from graph.page import draft
from graph.page.request import fits, proposal, understood
from graph.page.uploads import Uploads
from memory.errors import InputError
from memory.layout import RunFolder
from memory.records import Task
from tests import example_run
from tests.own_tasks import labelled, write_rows
from tools.earlier_runs import reports


def task_of(text: str, runs: Path) -> Task:
    request = understood(text, runs)
    assert request is not None
    return request.task


@pytest.mark.parametrize(
    ("text", "benchmark", "seconds"),
    [
        ("Fine-tune smollm2 on syllogism for 20 minutes", "syllogism", 1200),
        ("please finetune SmolLM2 on the word sequence reversal benchmark for 1h30m", "word_sequence_reversal", 5400),
        ("train it on family-relationships, half an hour, at most 3 trials", "family_relationships", 1800),
        ("Start aiw for 1 hour 15 minutes", "aiw", 4500),
        ("tune smollm2 for syllogism", "syllogism", 1800),
    ],
)
def test_what_is_asked_for_is_understood(text: str, benchmark: str, seconds: float, tmp_path: Path) -> None:
    task = task_of(text, tmp_path)
    assert (task.benchmark, task.budget.seconds, task.base_model) == (benchmark, seconds, "smollm2")


def test_the_rest_of_the_sentence_counts_too(tmp_path: Path) -> None:
    text = "Fine-tune acme/tiny-1 on aiw for 40m, at most 3 trials, 200 rows, seed 7, and ask me before each training"
    task = task_of(text, tmp_path)
    assert (task.base_model, task.budget.max_trials, task.sample_cap, task.seed) == ("acme/tiny-1", 3, 200, 7)
    assert task.approve == "train"


def test_a_task_of_ones_own_is_asked_for_by_its_name(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "Kinds-of_Tickets.jsonl", labelled(bugs=40, billing=40))
    uploads = Uploads(rows)
    draft.save(draft.form_of(draft.guessed(uploads).file), uploads, tmp_path)
    (name,) = draft.saved(tmp_path)
    request = understood(f"Fine-tune smollm2 on {name} for 20 minutes", tmp_path)
    assert request is not None
    assert request.task.own is not None
    assert (request.task.own.name, request.task.budget.seconds) == (name, 1200)
    assert name in proposal(request, tmp_path, tmp_path / "cache")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Fine-tune smollm2 on sylogism for 20 minutes", "Did you mean syllogism?"),
        ("Fine-tune smollm2", "names no benchmark"),
        ("Fine-tune gpt2 on syllogism", "there is no model gpt2"),
        ("Fine-tune /etc/passwd on syllogism", "there is no model /etc/passwd"),
        ("Fine-tune ../secret on syllogism", "there is no model ../secret"),
        ("Fine-tune smollm2 on syllogism for 20 seconds", "too small"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        understood(text, tmp_path)
    assert says in str(error.value)


@pytest.mark.parametrize(
    "text", ["why was trial 3 trained so long?", "hello", "stop after this trial", "what did it start with?"]
)
def test_other_sentences_ask_for_no_run(text: str, tmp_path: Path) -> None:
    assert understood(text, tmp_path) is None


def test_the_proposal_names_a_command_that_would_do_the_same(tmp_path: Path) -> None:
    request = understood("Fine-tune smollm2 on syllogism for 20 minutes", tmp_path)
    assert request is not None
    said = proposal(request, tmp_path, tmp_path / "cache")
    assert "20m of wall clock" in said
    assert "set up first" in said
    assert "train environment" in said
    assert "not known before the baseline" in said
    assert parse(request.argv, {}).task() == request.task


def test_earlier_runs_tell_how_many_trials_will_fit(tmp_path: Path) -> None:
    example_run.play(RunFolder(tmp_path / "a-run"))
    # Three trials of 100, 5 and 100 s in a run of 160 s.
    said = fits(
        example_run.task(budget=example_run.task().budget.model_copy(update={"max_trials": None})), [*reports(tmp_path)]
    )
    assert said.startswith("about 18 trials (1m40s each")
    assert "1 earlier run" in said
