"""Outputs of two models side by side: joined by item, filtered, searched, paged, and always shown as text."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from graph.page import samples
from graph.page.samples import SideBySide, Turn
from memory.errors import InputError
from memory.layout import RunFolder, write_rows
from memory.records import Outcome
from memory.state import State
from tests import example_run


@pytest.fixture
def run(tmp_path: Path) -> tuple[RunFolder, State]:
    folder = RunFolder(tmp_path / "run")
    return folder, example_run.finished(folder)


def outcome(number: int, score: float, output: str = "No") -> Outcome:
    return Outcome(
        id=f"item-{number}", prompt=f"Question {number}?", output=output, answer=output, gold="Yes", score=score,
        finish="stop", output_tokens=1,
    )  # fmt: skip


def rewrite(run: tuple[RunFolder, State], name: str, outcomes: list[Outcome]) -> None:
    """Other outputs of one of the models."""
    folder, state = run
    write_rows(folder.resolve(samples.models(state)[name].outcomes), outcomes)


def compared(run: tuple[RunFolder, State], first: str = "trial 1", second: str = "trial 3") -> SideBySide:
    return samples.side_by_side(*run, first, second)


def test_the_untouched_model_and_every_scored_trial_can_be_compared(run: tuple[RunFolder, State]) -> None:
    assert list(samples.models(run[1])) == ["base, zero-shot", "base, 5-shot", "trial 1", "trial 3"]
    assert samples.usual(list(samples.models(run[1]))) == ("base, zero-shot", "trial 3")
    assert samples.usual(["base, zero-shot"]) is None
    with pytest.raises(InputError, match="trial 2 has no outputs"):
        compared(run, "trial 1", "trial 2")


@pytest.mark.parametrize(
    ("turn", "ids"),
    [
        ("all", ["item-0", "item-1", "item-2", "item-3"]),
        ("right to wrong", ["item-3"]),
        ("wrong to right", ["item-0"]),
        ("both wrong", []),
    ],
)
def test_outputs_are_filtered_by_what_became_of_them(run: tuple[RunFolder, State], turn: Turn, ids: list[str]) -> None:
    both = compared(run)  # right: 0 1 1 1, then 1 1 1 0
    assert [pair.first.id for pair in both.find(turn).items] == ids
    assert both.counts[turn] == len(ids)


def test_partial_scores_turn_by_their_difference(run: tuple[RunFolder, State]) -> None:
    rewrite(run, "trial 1", [outcome(0, 0.5), outcome(1, 0.5), outcome(2, 0.5)])
    rewrite(run, "trial 3", [outcome(0, 0.7), outcome(1, 0.2), outcome(2, 0.5)])
    both = compared(run)
    assert both.counts == {"all": 3, "right to wrong": 1, "wrong to right": 1, "both wrong": 1}


def test_prompts_and_both_outputs_are_searched_whatever_the_case(run: tuple[RunFolder, State]) -> None:
    rewrite(run, "trial 1", [outcome(0, 0, "Blue whale"), outcome(1, 0, "Cat"), outcome(2, 0)])
    rewrite(run, "trial 3", [outcome(0, 0), outcome(1, 1, "A WHALE"), outcome(2, 0)])
    both = compared(run)
    assert [pair.first.id for pair in both.find(words=" whale ").items] == ["item-0", "item-1"]
    assert [pair.first.id for pair in both.find("wrong to right", words="whale").items] == ["item-1"]
    assert [pair.first.id for pair in both.find(words="question 2").items] == ["item-2"]


def test_errors_are_counted_and_looked_for_by_class(run: tuple[RunFolder, State]) -> None:
    rewrite(run, "trial 1", [outcome(0, 0), outcome(1, 1, "Yes"), outcome(2, 0, "na " * 40)])
    rewrite(run, "trial 3", [outcome(0, 0, "na " * 40), outcome(1, 1, "Yes"), outcome(2, 0)])
    both = compared(run)
    assert both.errors == [["repetition", "1", "1"], ["wrong answer", "1", "1"]]
    assert [pair.first.id for pair in both.find(kind="repetition").items] == ["item-0"]


def test_only_items_that_both_were_asked_are_compared(run: tuple[RunFolder, State]) -> None:
    rewrite(run, "trial 1", [outcome(0, 0), outcome(1, 0)])
    rewrite(run, "trial 3", [outcome(1, 0), outcome(2, 0)])
    assert [pair.first.id for pair in compared(run).pairs] == ["item-1"]


def test_what_a_model_wrote_is_shown_as_text(run: tuple[RunFolder, State]) -> None:
    rewrite(run, "trial 1", [outcome(0, 0, "<img src=x onerror=alert(1)>")])
    rewrite(run, "trial 3", [outcome(0, 0, "</pre><script>alert(1)</script>")])
    both = compared(run)
    shown = samples.html(both.find(), both, "trial 1", "trial 3")
    assert "<img" not in shown
    assert "<script" not in shown
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown


def test_fifty_thousand_outputs_are_read_once_and_then_quickly_searched(run: tuple[RunFolder, State]) -> None:
    rewrite(run, "trial 1", [outcome(number, number % 2) for number in range(50_000)])
    rewrite(run, "trial 3", [outcome(number, number % 3 == 0, f"said {number}") for number in range(50_000)])
    compared(run).find("wrong to right", words="warm up")
    began = time.process_time()
    found = compared(run).find("wrong to right", words="said 4", page=3)
    assert time.process_time() - began < 0.5  # tens of milliseconds; reading the files takes a second
    assert (len(found.items), found.number, found.pages > 3) == (50, 3, True)
    assert found.says == f"101 to 150 of {found.total:,}"
    last = compared(run).find(page=10_000)
    assert (last.number, last.items[-1].first.id) == (1000, "item-49999")
