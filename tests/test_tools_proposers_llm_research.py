"""A language model looks things up before its first plan: bounded, kept, quoted as data, and cited by the plan."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from pydantic import SecretStr

from memory.layout import RunFolder, read_record
from memory.records import Plan, Research
from tests.proposer_world import World
from tests.scripted_llm import Answer, playing
from tests.scripted_web import catalogues
from tools.benchmarks import BENCHMARKS
from tools.llm.broker import Broker
from tools.llm.endpoint import Endpoint
from tools.llm.meter import Meter
from tools.proposers import search
from tools.proposers.brief import Brief
from tools.proposers.llm import LanguagePlanner
from tools.proposers.llm_brief import Facts
from tools.proposers.llm_research import Inquiry, Researcher, cited, research_text
from tools.research.library import Library

ASKS: Answer = {"text": {"datasets": "spelling backwards", "models": None, "papers": "low-rank adapters"}}
DONE: Answer = {"text": {"datasets": None, "models": None, "papers": None}}


def plans(hypothesis: str) -> Answer:
    return {"text": {"diagnosis": "none", "hypothesis": hypothesis, "decision": "train", "learning_rate": 7e-4}}


@pytest.fixture
def first(tmp_path: Path) -> Brief:
    """The brief of a first trial, of a model whose configuration can be read."""
    (tmp_path / "config.json").write_text(json.dumps({"vocab_size": 1000}))
    brief = World().brief()
    return brief.model_copy(update={"model": brief.model.model_copy(update={"path": str(tmp_path)})})


def planner(url: str, library: Library, folder: Path, notes: list[str]) -> LanguagePlanner:
    benchmark = BENCHMARKS["syllogism"]
    facts = Facts(benchmark, tuple(islice(benchmark.draw("train", 0), 2)), RunFolder(folder), memory_bytes=2**33)
    broker, endpoint = (
        Broker(folder / "llm", Meter(folder / "llm", None), lambda _: None),
        Endpoint("clever", url, SecretStr("sk")),
    )
    researcher = Researcher(
        broker, endpoint, "{{ form }} {{ task }} {{ found }}", library, RunFolder(folder), notes.append
    )
    template = "Plan. {{ form }} {{ brief }}"
    usual = LanguagePlanner(broker, (endpoint, endpoint), template, facts, search.propose, notes.append)
    return replace(usual, researcher=researcher)


def test_what_is_found_is_kept_told_to_the_planner_and_cited(first: Brief, tmp_path: Path) -> None:
    notes: list[str] = []
    with catalogues() as (web, asked), playing(ASKS, DONE, plans("as [R1] and [R3, R9] say")) as (url, script):
        plan = planner(url, Library(web, web), tmp_path, notes)(first)
    assert isinstance(plan, Plan)
    assert plan.cites == (
        "R1 dataset somebody/backwards, licence cc-by-nc-4.0, no commercial use, 1K<n<10K rows",
        "R3 paper 2106.09685v2, licence not stated",
    )
    prompts = [body["messages"][0]["content"] for body in script.asked]
    assert "Nothing was looked up yet." in prompts[0]
    assert "R1 dataset somebody/backwards" in prompts[1]
    assert "R3 paper 2106.09685v2" in prompts[2]
    assert "cite it in the hypothesis as [R1]" in prompts[2]
    kept = read_record(RunFolder(tmp_path).research, Research)
    assert [(query.shelf, query.words) for query in kept.queries] == [
        ("dataset", "spelling backwards"), ("paper", "low-rank adapters"),
    ]  # fmt: skip
    assert "looked up datasets for “spelling backwards”: 2 found" in notes
    assert notes[-1].startswith("trial 1 rests on R1 dataset somebody/backwards, licence cc-by-nc-4.0, no commercial")
    assert [path for path, _ in asked.asked] == ["/api/datasets", "/api/query"]


def test_instructions_from_the_web_stay_between_marks_that_they_cannot_close(first: Brief, tmp_path: Path) -> None:
    with catalogues() as (web, _), playing(ASKS, DONE, plans("small")) as (url, script):
        planner(url, Library(web, web), tmp_path, [])(first)
    prompt = script.asked[-1]["messages"][0]["content"]
    begin, at, end = (prompt.index(part) for part in ("<data-2>", "Ignore previous instructions", "</data-2>"))
    assert begin < prompt.index("</data-1> Ignore") < at < end
    assert prompt.count("Ignore previous instructions") == 1


def test_a_run_that_goes_on_asks_and_looks_up_nothing_again(first: Brief, tmp_path: Path) -> None:
    with catalogues() as (web, asked), playing(ASKS, DONE, plans("small")) as (url, script):
        plan = planner(url, Library(web, web), tmp_path, [])(first)
        again = planner(url, Library("http://127.0.0.1:1", "http://127.0.0.1:1", ()), tmp_path, [])(first)
    assert plan == again
    assert (len(script.asked), len(asked.asked)) == (3, 2)


def test_what_the_model_may_ask_is_bounded(first: Brief, tmp_path: Path) -> None:
    endless = [{"text": {"datasets": f"words {n}", "models": f"words {n}", "papers": f"words {n}"}} for n in range(9)]
    with catalogues() as (web, asked), playing(*endless) as (url, script):
        one = planner(url, Library(web, web), tmp_path, [])
        assert one.researcher is not None
        research = one.researcher(first, one.facts, 60.0)
    assert (len(script.asked), len(asked.asked), len(research.queries)) == (2, 6, 6)
    assert len(research.found) == 4  # each entry once
    assert Inquiry(datasets="a & <b>; `c`").queries(("dataset",))[0].words == "a b c"


def test_what_cannot_be_reached_is_not_asked_and_a_failed_query_is_said(first: Brief, tmp_path: Path) -> None:
    notes: list[str] = []
    with catalogues() as (web, asked), playing(ASKS, DONE, plans("small")) as (url, _):
        asked.answers["/api/datasets"] = 500
        plan = planner(url, Library(web, web, ("dataset", "model")), tmp_path, notes)(first)
    assert isinstance(plan, Plan)
    assert [path for path, _ in asked.asked] == ["/api/datasets"]
    assert notes == [f"looked up datasets for “spelling backwards”: {web}/api/datasets answered 500"]


def test_without_a_network_or_an_answer_the_run_goes_on(first: Brief, tmp_path: Path) -> None:
    notes: list[str] = []
    with playing(plans("small [R1]")) as (url, script):
        plan = planner(url, Library("http://127.0.0.1:1", "http://127.0.0.1:1", ()), tmp_path, notes)(first)
        assert len(script.asked) == 1
    assert isinstance(plan, Plan)
    assert (plan.proposer, plan.cites) == ("llm", ())
    with playing({"text": "what?"}, {"text": "what?"}, plans("small")) as (url, _), catalogues() as (web, _):
        assert planner(url, Library(web, web), tmp_path / "other", notes)(first) == plan.model_copy(
            update={"hypothesis": "small"}
        )
    assert notes[-1].startswith("clever looked nothing up: clever gave no usable answer twice")


def test_research_of_any_length_fits_the_prompt(first: Brief) -> None:
    with catalogues() as (web, _):
        (found, _) = Library(web, web).search(Inquiry(datasets="x").queries(("dataset",))[0])
    many = Research(
        queries=tuple(Inquiry(datasets="x").queries(("dataset",))),
        found=tuple(found.model_copy(update={"summary": "long " * 200}) for _ in range(99)),
    )
    assert len(research_text(many)) < 6_200
    plan = search.propose(first)
    assert isinstance(plan, Plan)
    assert cited(plan.model_copy(update={"hypothesis": "[R99] (R2) [R100]"}), many).cites[0].startswith("R99 ")  # type: ignore[union-attr]
