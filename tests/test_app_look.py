"""A finished run in the browser: fork it, compare its outputs, talk to its model, and bring a task of one's own."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from graph.background import held
from graph.runs import all_runs, past_events
from graph.snapshot import read_snapshot, write_snapshot
from memory.events import Events
from memory.layout import RunFolder, read_record, write_record
from memory.records import Plan, Trial
from memory.state import State
from tests import example_run
from tests.browser import PATIENCE_MS, ROOT, App, opened, serving
from tests.own_tasks import labelled, write_rows

pytestmark = pytest.mark.slow
NASTY = "<img src=x onerror=alert(1)> ![](http://127.0.0.1:9/x.png)"
"""What a model may write."""
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """A page on one finished run."""
    place = tmp_path_factory.mktemp("look")
    argv = ["--benchmark", "spell_backward", "--budget", "20m", "--max-trials", "2", "--plain"]
    argv += ["--run-dir", str(place / "runs")]
    env = {"HOME": str(place), "PATH": "/usr/bin:/bin"}
    subprocess.run([sys.executable, "-m", "tests.fake_run", *argv], cwd=ROOT, env=env, check=True, capture_output=True)
    with serving(place / "runs", place / "app.log", HOME=str(place)) as app:
        yield app


@pytest.fixture
def page(world: App, chromium: Browser) -> Iterator[Page]:
    """A tab on the finished run, the oldest."""
    with opened(chromium, f"{world.url}/?run={oldest(world).id}") as tab:
        expect(tab.get_by_label("Run").first).to_have_value(oldest(world).id)
        yield tab


def oldest(world: App) -> RunFolder:
    return next(run for run in all_runs(world.runs) if run.database.exists())


def go(page: Page, name: str) -> None:
    page.get_by_role("tab", name=name, exact=True).click()


def choose(page: Page, label: str, words: str) -> None:
    """Choose the entry of a list that begins like this."""
    page.get_by_label(label, exact=True).click()
    page.get_by_role("option", name=words).first.click()


def test_a_run_is_forked_from_a_checkpoint_with_another_value_and_goes_on(world: App, page: Page) -> None:
    go(page, "History")
    page.get_by_text("is finished:").wait_for()
    page.get_by_role("gridcell", name="trial 2 planned").first.click()
    page.get_by_text("1 trials ended; next: data_engineer").wait_for()
    page.get_by_role("button", name="Fork: a new run").click()
    expect(page.get_by_label("plan.rows")).to_be_visible()
    field = page.get_by_label("plan.learning_rate")
    field.fill("0.0005")
    page.get_by_role("button", name="Fork and start").click()
    chooser = page.get_by_label("Run").first
    expect(chooser).not_to_have_value(oldest(world).id)
    new = RunFolder(world.runs / chooser.input_value())
    assert read_record(new.root / "trials" / "2" / "plan.json", Plan).training.learning_rate == 0.0005
    expect(page.get_by_text(f"Run {new.id} is finished:")).to_be_visible(timeout=3 * PATIENCE_MS)
    snapshot = read_snapshot(new)
    assert snapshot is not None
    assert [trial.plan.training.learning_rate for trial in snapshot.state["trials"]][1] == 0.0005
    assert any("forked from" in event.says for event in past_events(new))
    assert not held(new)


def test_outputs_of_two_models_are_compared_filtered_and_searched(world: App, page: Page) -> None:
    go(page, "Look inside")
    go(page, "Outputs")
    counts = page.get_by_text("right to wrong,")
    counts.wait_for()
    page.get_by_label("wrong to right").click()
    first = page.locator("article").first
    expect(first).to_contain_text("wrong to right")
    item = first.inner_text().split(" ")[0]
    page.get_by_label("Search questions and answers").fill(item)
    page.get_by_label("Search questions and answers").press("Enter")
    expect(page.locator("article").first).to_contain_text(item)
    choose(page, "Second model", "base, 5-shot")
    expect(page.locator("article").first).to_contain_text("base, 5-shot")


def test_a_trial_is_looked_into_and_its_adapter_taken_away(world: App, page: Page) -> None:
    go(page, "Look inside")
    page.get_by_text("Hypothesis:").first.wait_for()
    page.get_by_role("button", name="Checks before the training").click()
    expect(page.get_by_role("cell", name="passed").first).to_be_visible()
    page.get_by_role("button", name="Training rows").last.click()
    expect(page.get_by_text("Rows 1 to 50 of")).to_be_visible()
    page.get_by_role("button", name="Configuration and logs").click()
    expect(page.get_by_label("Its end")).to_have_value(re.compile("learning_rate"))
    go(page, "Report and files")
    expect(page.get_by_role("heading", name="Sealed test")).to_be_visible()
    choose(page, "Take a file", "best: adapter (zip)")
    page.get_by_role("button", name="Get it ready").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="adapter.zip").or_(page.locator("a[download]")).first.click()
    assert Path(download.value.path()).read_bytes().startswith(b"PK")


def test_base_and_tuned_model_answer_a_question_of_the_benchmark(world: App, page: Page) -> None:
    go(page, "Try it")
    question = page.get_by_label("Question", exact=True)
    expect(question).not_to_be_empty()
    page.get_by_role("button", name="Ask both").click()
    quality = json.loads((oldest(world).model / "quality.json").read_text())["quality"]
    expect(page.get_by_label("chatbot conversation").filter(visible=True).nth(0)).to_contain_text("quality 0.1")
    expect(page.get_by_text(f"quality {quality:g}")).to_be_visible()
    expect(page.get_by_text("By spell_backward: the base model is wrong")).to_be_visible()


def test_a_file_becomes_a_task_with_ten_prompts_and_a_run(world: App, page: Page, tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "Kinds.jsonl", labelled(bugs=40, billing=40))
    go(page, "New task")
    page.locator("input[type=file]").first.set_input_files(rows)
    name = page.get_by_label("Name of the task")
    expect(name).to_have_value("kinds")
    page.get_by_role("button", name="Show ten prompts").click()
    expect(page.get_by_text("golds get the full mark by exact_match")).to_be_visible()
    expect(page.get_by_text("the gold scores 1;")).to_have_count(10)
    page.get_by_role("button", name="Save the task").click()
    expect(page.get_by_label("Task", exact=True)).to_have_value("kinds")
    assert (world.runs / "tasks" / "kinds.toml").exists()
    page.get_by_label("Trials at most").fill("1")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_label("Run").first).to_have_value(re.compile("-kinds$"))
    go(page, "History")
    expect(page.get_by_text("-kinds is finished:")).to_be_visible(timeout=3 * PATIENCE_MS)


def test_what_a_run_says_is_shown_as_text_wherever_it_stands(world: App, chromium: Browser) -> None:
    folder = RunFolder(world.runs / "20200101-000000-syllogism")
    write_record(folder.task, example_run.task(base_model=NASTY))
    Events(folder.events).emit("note", NASTY)
    write_snapshot(folder, State(task=example_run.task(base_model=NASTY), trials=[nasty_trial()]), ["planner"])
    (folder.root / "report.md").write_text(NASTY)
    with opened(chromium, f"{world.url}/?run={folder.id}") as page:
        for name in ("History", "Look inside", "Report and files"):
            go(page, name)
            page.get_by_text("onerror=").filter(visible=True).first.wait_for()
        assert page.locator("img[src=x]").count() == 0
    shutil.rmtree(folder.root)


def nasty_trial() -> Trial:
    """A failed trial whose plan and failure hold markup."""
    plan = example_run.plan(1).model_copy(update={"hypothesis": NASTY, "diagnosis": NASTY})
    return example_run.failed_trial(plan).model_copy(update={"arithmetic": NASTY})
