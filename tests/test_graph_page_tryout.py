"""Both models answer on the page: streamed from one server, which starts only where memory allows and never stays."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from graph.finished import Finished
from graph.page import tryout
from graph.page.tryout import Answers, Tryout, in_the_way, memory_for, needed_memory
from graph.workshop import Workshop
from memory.errors import InputError, ServerError
from memory.layout import RunFolder, read_record
from memory.records import BaseModelCard, Task
from nodes.deps import Engines
from tests import example_run
from tests.score_engines import fake, fake_model, fake_weights
from tools.report import RunReport

BASE, TUNED = "These weights have quality 0.1", "These weights have quality 0.9"
HELLO = ({"role": "user", "content": "Hello"},)


@pytest.fixture
def run(tmp_path: Path) -> Finished:
    """A finished run with tuned weights for the stand-in server."""
    folder = RunFolder(tmp_path / "run")
    example_run.play(folder)
    fake_weights(folder.model, 0.9)
    report = read_record(folder.root / "report.json", RunReport)
    assert report.winner is not None
    return Finished(folder, report, report.winner)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[..., Tryout]]:
    """Makes servers to try models on, and ends them."""
    all_of_them: list[Tryout] = []

    def make(idle_s: float = 60.0, at_work: bool = False, **faults: str) -> Tryout:
        def equip(task: Task, cache: Path, say: object) -> Workshop:
            return workshop(tmp_path, **faults)

        all_of_them.append(Tryout(equip, tmp_path, lambda: at_work, idle_s))
        return all_of_them[-1]

    yield make
    for each in all_of_them:
        each.close()


def workshop(place: Path, **faults: str) -> Workshop:
    """Quick engines, and the model that the run tuned."""
    model = fake_model(place / "base").model_copy(update={"sha256": example_run.MODEL.sha256})
    engines = Engines(axolotl=fake("axolotl"), vllm=fake("vllm", faults), lighteval=fake("lighteval"))
    return Workshop(engines, model, "cpu", {})


def words(answers: list[Answers], side: str) -> list[str]:
    """What one model had said at each step, repetitions left out."""
    return list(dict.fromkeys(getattr(each, side) for each in answers))


def test_both_models_answer_word_by_word_from_one_server(run: Finished, made: Callable[..., Tryout]) -> None:
    there = made()
    said = list(there.ask(run, HELLO, HELLO))
    assert words(said, "base") == [
        "",
        "These",
        "These weights",
        "These weights have",
        "These weights have quality",
        BASE,
    ]
    assert words(said, "tuned")[-1] == TUNED
    assert said[-1].base == BASE
    assert there.up
    again = list(there.ask(run, HELLO, HELLO))
    assert not [each for each in again if "Starting" in each.note]
    assert (again[-1].base, again[-1].tuned) == (BASE, TUNED)


def test_a_second_question_waits_until_the_first_has_been_left(run: Finished, made: Callable[..., Tryout]) -> None:
    there = made(FAKE_VLLM_WORD_S="0.1")
    first = there.ask(run, HELLO, HELLO)
    next(first)
    with pytest.raises(InputError, match="answering another question"):
        next(there.ask(run, HELLO, HELLO))
    first.close()  # the browser's tab was closed
    assert next(there.ask(run, HELLO, HELLO)).note


def test_an_idle_server_ends_by_itself(run: Finished, made: Callable[..., Tryout]) -> None:
    there = made(idle_s=0.2)
    list(there.ask(run, HELLO, HELLO))
    until = time.monotonic() + 20
    while there.up and time.monotonic() < until:
        time.sleep(0.05)
    assert not there.up


def test_an_answer_that_breaks_off_is_an_error_and_no_short_answer(run: Finished, made: Callable[..., Tryout]) -> None:
    with pytest.raises(ServerError, match="broke its answer"):
        list(made(FAKE_VLLM_CUT_AT="2").ask(run, HELLO, HELLO))


def test_another_base_model_than_the_one_that_was_tuned_is_refused(run: Finished, made: Callable[..., Tryout]) -> None:
    other = run.report.baseline.model.model_copy(update={"sha256": "other"})
    baseline = run.report.baseline.model_copy(update={"model": other})
    changed = replace(run, report=run.report.model_copy(update={"baseline": baseline}))
    with pytest.raises(InputError, match="have changed since"):
        list(made().ask(changed, HELLO, HELLO))


def large(parameters: int) -> BaseModelCard:
    return example_run.MODEL.model_copy(update={"parameters": parameters})


def test_a_model_that_does_not_fit_is_refused_with_what_it_needs_and_what_is_free(tmp_path: Path) -> None:
    ready = replace(workshop(tmp_path), model=large(10**13))
    with pytest.raises(InputError, match=r"needs about 20004\.\d GB; \d+\.\d GB are free"):
        memory_for(ready, at_work=False)
    assert "of the" in memory_for(workshop(tmp_path), at_work=False)
    assert needed_memory(large(135_000_000)) < needed_memory(large(10**10))


def test_a_run_at_work_keeps_its_memory_and_its_gpu(tmp_path: Path) -> None:
    ready = workshop(tmp_path)
    with pytest.raises(InputError, match="a run is at work"):
        memory_for(replace(ready, device="cuda"), at_work=True)
    with pytest.raises(InputError, match="the run at work is left 4 GB"):
        memory_for(replace(ready, model=large(10**13)), at_work=True)


def test_an_idle_server_makes_way_for_a_run_that_begins() -> None:
    assert in_the_way("cuda", at_work=True)
    assert not in_the_way("cuda", at_work=False)
    assert not in_the_way("cpu", at_work=False)


def test_the_benchmark_says_whether_an_answer_to_its_own_question_is_right(tmp_path: Path) -> None:
    from tools import benchmarks

    benchmark = benchmarks.get("spell_backward")
    item = next(benchmark.draw("validation", 0))
    assert tryout.graded(benchmark, item, item.prompt, item.answer) == "right"
    assert tryout.graded(benchmark, item, item.prompt, "something else") == "wrong"
    assert tryout.graded(benchmark, item, "Another question?", item.answer) == ""
    assert tryout.graded(benchmark, None, item.prompt, item.answer) == ""
