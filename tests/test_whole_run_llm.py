"""Whole runs that a scripted language model plans, with quick engines, through the front door."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import pytest

from graph.runs import read_state
from memory.database import Database
from memory.ledger import LEDGER_SCHEMA
from tests.scripted_llm import Answer, Script, playing
from tests.scripted_web import REVISION, catalogues
from tests.test_whole_run import Runs
from tools.benchmarks.benchmark import Item
from tools.benchmarks.splits import read_items

pytestmark = pytest.mark.slow

START = ("--benchmark", "spell_backward", "--budget", "20m", "--max-trials", "2", "--plain")
PLANNED = (*START, "--planner-model", "clever")
KEY = "sk-canary-91c4e7"
PRICE = ("--price", "clever=1/10")


def says(**settings: Any) -> Answer:
    words = {"diagnosis": "nothing is known", "hypothesis": "a small start", "decision": "train"}
    return {"text": {**words, **settings}, "tokens": (1000, 200)}


FIRST = says(learning_rate=7e-4, rows=100)
SECOND = says(parent=1, rows=200)


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path / "runs", tmp_path / "cache")


def access(url: str) -> dict[str, str]:
    return {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": url}


def prompts(script: Script) -> list[str]:
    return [json.dumps(body["messages"]) for body in script.asked]


def test_a_language_model_plans_and_its_key_is_nowhere(runs: Runs, tmp_path: Path) -> None:
    with playing(FIRST, SECOND) as (url, script):
        out, err = runs.call(*PLANNED, *PRICE, "--budget-usd", "1", **access(url))
    (folder,) = runs.folders()
    first, second = read_state(folder)["trials"]
    assert (first.plan.proposer, first.plan.training.learning_rate, first.plan.data.rows) == ("llm", 7e-4, 100)
    assert first.training is not None
    assert (second.plan.parent, second.plan.data.rows) == (1, 200)
    assert second.plan.change is not None
    assert second.plan.change.factor == "rows"
    assert "planned by clever at http://127.0.0.1" in out
    assert "1000 + 200 tokens ($0.0030, $0.0060 of $1 so far)" in out
    report = json.loads((folder.root / "report.json").read_text())
    (use,) = report["models"]
    assert (use["calls"], use["prompt_tokens"], use["dollars"]) == (2, 2000, pytest.approx(0.006))
    text = (folder.root / "report.md").read_text()
    assert "## Language models" in text
    assert "(grows from trial 1, planned by a language model; " in text
    with Database.open(folder.database, [LEDGER_SCHEMA]) as database:
        assert database.rows("SELECT count(*), sum(answer_tokens), any_value(call_state) FROM model_calls") == [
            (2, 400, "answered")
        ]
    assert script.keys == [f"Bearer {KEY}"] * 2
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert KEY not in out + err + json.dumps(script.asked)


def test_a_language_model_names_the_number_and_optuna_sets_it(runs: Runs) -> None:
    with playing(says(), says(parent=1, tune="learning_rate", towards="lower")) as (url, script):
        out, _ = runs.call(*PLANNED, "--planner", "hybrid", **access(url))
    (folder,) = runs.folders()
    first, second = read_state(folder)["trials"]
    assert "learning_rate: " not in prompts(script)[0]
    assert "tune: learning_rate | epochs | batch_size | lora_rank | rows or all or null" in prompts(script)[0]
    assert second.plan.training.learning_rate < first.plan.training.learning_rate
    assert second.plan.change is not None
    assert (second.plan.change.factor, second.plan.tuned) == ("learning_rate", ("learning_rate",))
    assert "numbers tuned by Optuna" in out
    assert "planned by a language model, learning_rate tuned by Optuna" in (folder.root / "report.md").read_text()


def test_what_was_looked_up_is_in_the_run_and_its_report_and_nothing_was_fetched(runs: Runs) -> None:
    asks = {"text": {"datasets": "spelling", "models": None, "papers": None}, "tokens": (500, 50)}
    none = {"text": {"datasets": None, "models": None, "papers": None}, "tokens": (500, 50)}
    plan = says(learning_rate=7e-4, rows=100, hypothesis="rows like those of [R1]")
    with playing(asks, none, plan) as (url, _), catalogues() as (web, asked):
        places = {"HF_ENDPOINT": web, "TUNEWRIGHT_PAPERS": web}
        out, _ = runs.call(*PLANNED[:5], "1", *PLANNED[6:], "--research", **access(url), **places)
    (folder,) = runs.folders()
    assert "--research: looking up datasets, models, papers" in out
    assert "looked up datasets for “spelling”: 2 found" in out
    (trial,) = read_state(folder)["trials"]
    assert trial.plan.cites[0].startswith("R1 dataset somebody/backwards, licence cc-by-nc-4.0, no commercial use")
    report = json.loads((folder.root / "report.json").read_text())
    assert report["research"]["found"][0]["revision"] == REVISION
    text = (folder.root / "report.md").read_text()
    assert "## What was looked up" in text
    assert "- Rests on: R1 dataset somebody/backwards" in text
    assert "Nothing was downloaded." in text
    assert "<script>" not in text
    assert {path for path, _ in asked.asked} == {"/api/datasets", "/api/query"}  # the probe, and one query


def test_without_a_network_research_says_so_in_a_line_and_the_run_goes_on(runs: Runs) -> None:
    places = dict.fromkeys(("HF_ENDPOINT", "TUNEWRIGHT_PAPERS"), "http://127.0.0.1:1")
    with playing(FIRST) as (url, script):
        out, _ = runs.call(*PLANNED[:5], "1", *PLANNED[6:], "--research", **access(url), **places)
    assert "--research: off; http://127.0.0.1:1/api/datasets cannot be reached" in out
    assert len(script.asked) == 1
    (folder,) = runs.folders()
    assert "What was looked up" not in (folder.root / "report.md").read_text()


def test_the_model_that_is_tuned_plans_for_itself_without_any_key(runs: Runs) -> None:
    plan = json.dumps(FIRST["text"])
    out, _ = runs.call(*START[:-2], "1", "--plain", "--planner-model", "local", FAKE_VLLM_PLAN=plan)
    (folder,) = runs.folders()
    (trial,) = read_state(folder)["trials"]
    assert (trial.plan.proposer, trial.plan.training.learning_rate) == ("llm", 7e-4)
    assert "planned by local on this machine" in out
    assert "9 + 9 tokens ($0.0000" in out
    report = json.loads((folder.root / "report.json").read_text())
    assert report["budget"]["server_starts"] == 1


def test_a_weak_model_reads_the_wrong_outputs_of_each_trial_for_verdict_report_and_meter(runs: Runs) -> None:
    read = {"text": {"classes": [{"name": "too short", "items": [2, 1]}], "shared": "Letters miss.", "blame": "data"}}
    with playing(FIRST, read, SECOND, {"text": "?"}) as (url, script):
        out, _ = runs.call(*PLANNED, "--weak-model", "cheap", **access(url))
    (folder,) = runs.folders()
    first, second = read_state(folder)["trials"]
    assert first.blame is not None
    assert second.blame is not None
    reading = first.blame.reading
    assert reading is not None
    assert (reading.model, reading.blamed, reading.classes[0].name) == ("cheap", "data", "too short")
    assert len(reading.classes[0].examples) == 2
    assert second.blame.reading is None
    assert "cheap did not read the wrong outputs of trial 2" in out
    assert "2 of 24 are too short" in prompts(script)[2]
    assert "cheap read 24 of" in (folder.root / "report.md").read_text()
    uses = json.loads((folder.root / "report.json").read_text())["models"]
    assert [(use["model"], use["purpose"], use["calls"]) for use in uses] == [
        ("clever", "planner", 2),
        ("cheap", "reading errors", 3),
    ]


BROKEN = "def transform(row):\n    return row['nothing']"
TWICE = "def transform(row):\n    return [row, {**row, 'prompt': 'Please. ' + row['prompt']}]"


def at_work(body: dict[str, Any]) -> Answer:
    """A model that plans code that fails, then data steps that work, and does those."""
    text = body["messages"][0]["content"]
    if text.startswith("You write training rows"):
        new = [f"Spell {hashlib.sha256(f'{text}{n}'.encode()).hexdigest()[:5]} backward" for n in range(5)]
        return {"text": {"rows": [{"prompt": one, "answer": one[6:11][::-1]} for one in new]}, "tokens": (500, 100)}
    if text.startswith("You judge a training row"):
        score = 2 if int(hashlib.sha256(text.encode()).hexdigest(), 16) % 4 == 0 else 5
        return {"text": {"reason": "clear", "score": score}, "tokens": (200, 20)}
    if "KeyError" not in text:
        return says(learning_rate=7e-4, rows=40, transform=BROKEN)
    return says(parent=0, rows=40, transform=TWICE, synthesise="more words", synthesise_rows=10, judge="is it right?")


def test_a_language_model_writes_rows_and_sees_nothing_that_is_held_out(runs: Runs, tmp_path: Path) -> None:
    with playing(at_work) as (url, script):
        out, err = runs.call(*PLANNED, *PRICE, "--budget-usd", "5", **access(url))
    (folder,) = runs.folders()
    first, second = read_state(folder)["trials"]
    assert first.failure is not None
    assert (first.failure.kind, first.failure.node) == ("DATA", "data_engineer")
    assert "too many calls failed: rehearsal of transform()" in first.failure.message
    card = second.dataset
    assert card is not None
    transform, synthesis, judging = card.rehearsals
    assert (transform.whole_rows, transform.dollars) == (40, 0.0)
    assert (synthesis.rows, synthesis.whole_rows) == (10, 10)
    assert (judging.rows, judging.whole_rows) == (20, 90)
    assert judging.whole_dollars == pytest.approx(90 * (200 * 1 + 20 * 10) / 1e6)
    low = sum(each.rows for each in card.dropped if each.reason == "scored 2 of 5")
    assert card.rows == 90 - low
    assert 0 < sum(group.rows for group in card.groups if group.source == "synthesised") <= 10
    assert "scored 2 of 5" in (folder.root / "report.md").read_text() or second.decision != "accepted"
    assert "rehearsal of judge by the weak model" in folder.events.read_text()
    report = json.loads((folder.root / "report.json").read_text())
    uses = {use["purpose"]: use["calls"] for use in report["models"]}
    assert (uses["synthesise"], uses["judge"]) == (2, 90)
    held = [item.prompt for split in ("data/validation", "sealed/test") for item in read_items_of(folder.root / split)]
    assert len(held) > 20
    steps = [text for text in prompts(script) if "You plan" not in text]
    assert len(steps) == 92
    assert not [prompt for prompt in held if any(json.dumps(prompt)[1:-1] in text for text in steps)]
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert KEY not in out + err + json.dumps(script.asked)


def read_items_of(stem: Path) -> list[Item]:
    """The items of a split."""
    return read_items(stem.with_suffix(".jsonl"))


def test_the_model_that_is_tuned_writes_rows_for_itself(runs: Runs) -> None:
    rows = json.dumps({"rows": [{"prompt": "Spell abc backward", "answer": "cba"}]})
    planned = says(learning_rate=7e-4, rows=60, synthesise="more", synthesise_rows=5)
    with playing(planned) as (url, script):
        own = (*START[:-2], "1", "--plain", "--planner-model", "clever", "--strong-model", "local")
        runs.call(*own, FAKE_VLLM_NEWROWS=rows, **access(url))
    (folder,) = runs.folders()
    (trial,) = read_state(folder)["trials"]
    assert trial.dataset is not None
    assert {group.source: group.rows for group in trial.dataset.groups} == {"spell_backward": 60, "synthesised": 1}
    assert trial.score is not None
    assert len(script.asked) == 1
    report = json.loads((folder.root / "report.json").read_text())
    assert report["budget"]["server_starts"] == 1


def test_what_the_model_says_badly_twice_search_plans_instead(runs: Runs) -> None:
    with playing({"text": "Let me think about it."}) as (url, _):
        out, _ = runs.call(*PLANNED, **access(url))
    assert "clever did not plan trial 1, the search proposer does" in out
    assert {trial.plan.proposer for trial in read_state(runs.folders()[0])["trials"]} == {"search"}


def test_kill_9_after_an_answer_asks_no_second_time(runs: Runs) -> None:
    with playing(FIRST, SECOND) as (url, script):
        process = runs.begin(*PLANNED, **access(url))
        until = time.monotonic() + 200
        while not list(runs.root.glob("*/llm/????????*.json")):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < until
            time.sleep(0.002)
        process.kill()
        process.communicate()
        (folder,) = runs.folders()
        runs.call("--resume", folder.id, "--plain", **access(url))
    assert len(prompts(script)) == len(set(prompts(script))) == 2
    assert [trial.plan.proposer for trial in read_state(folder)["trials"]] == ["llm", "llm"]


def test_at_the_cap_search_goes_on_and_says_so(runs: Runs) -> None:
    with playing(FIRST, SECOND) as (url, script):
        out, _ = runs.call(*PLANNED, *PRICE, "--budget-usd", "0.0875", **access(url))
    assert len(script.asked) == 1
    assert "a call of clever can cost $" in out
    assert "of $0.0875 are left" in out
    assert [trial.plan.proposer for trial in read_state(runs.folders()[0])["trials"]] == ["llm", "search"]


def test_a_refused_key_is_one_line_and_the_run_goes_on_with_a_good_one(runs: Runs) -> None:
    refused = {"status": 401, "error": f"Incorrect API key provided: {KEY}"}
    with playing(refused, FIRST, SECOND) as (url, _):
        _, err = runs.call(*PLANNED, code=2, **access(url))
        (folder,) = runs.folders()
        assert "refuses the key" in err
        assert "Give a valid one in OPENAI_API_KEY" in err
        runs.call("--resume", folder.id, "--plain", **access(url))
    assert read_state(folder)["trials"][0].plan.proposer == "llm"
    assert not [path for path in folder.root.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


def test_a_run_recalls_what_earlier_ones_taught(runs: Runs) -> None:
    with playing(FIRST, SECOND, FIRST, SECOND) as (url, script):
        runs.call(*PLANNED, **access(url))
        runs.call(*PLANNED, "--seed", "1", **access(url))
    assert "Lessons of earlier runs" not in prompts(script)[0]
    assert "Lessons of earlier runs" in prompts(script)[2]
    assert "spell_backward with smollm2: improved" in prompts(script)[2]


def test_no_engine_is_handed_the_key(runs: Runs) -> None:
    with playing(FIRST, SECOND) as (url, _):
        process = runs.begin(*PLANNED, FAKE_AXOLOTL_STEP_S="0.2", **access(url))
        until = time.monotonic() + 200
        while not runs.started("trainer", 1):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < until
            time.sleep(0.01)
        seen = environments(process.pid)
        process.kill()
        process.communicate()
    assert len(seen) >= 3
    assert not [environment for environment in seen if KEY.encode() in environment]


def environments(pid: int) -> list[bytes]:
    """The environments of a process's descendants."""
    found = []
    children = Path(f"/proc/{pid}/task/{pid}/children")
    for child in children.read_text().split():
        found += [Path(f"/proc/{child}/environ").read_bytes(), *environments(int(child))]
    return found
