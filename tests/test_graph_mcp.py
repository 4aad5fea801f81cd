"""The MCP server, asked by the SDK's own client over a real process's standard input and output."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, stdio_client

from tests.score_engines import real
from tools.engines.environments import cache_folder
from tools.sandbox.isolation import isolation

ROOT = Path(__file__).parents[1]
RECIPE = {"learning_rate": 1e-3, "epochs": 2, "sequence_len": 256}
CLEAN = "def process(row):\n    return {'prompt': row['prompt'], 'answer': row['answer']}\n"
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def strict() -> None:
    """Code of an agent runs in the strict sandbox, or not at all."""
    if isolation().level != "strict":
        pytest.skip(f"an agent's code is not run: {isolation().reason}")


class Agent:
    """Somebody's agent: calls tools and keeps every word that it was told."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.heard: list[str] = []

    async def call(self, tool: str, **arguments: object) -> Any:
        """The answer of a tool. Raises AssertionError with what it says where it fails."""
        found = await self.client.call_tool(tool, arguments)
        text = "".join(getattr(part, "text", "") for part in found.content)
        self.heard += [text, json.dumps(found.structured_content)]
        assert not found.is_error, text
        content = found.structured_content or {}
        return content.get("result", content)

    async def refused(self, tool: str, **arguments: object) -> str:
        """What a tool says that does not do it."""
        found = await self.client.call_tool(tool, arguments)
        text = "".join(getattr(part, "text", "") for part in found.content)
        self.heard.append(text)
        assert found.is_error, text
        return text

    async def finished(self, job: dict[str, Any]) -> dict[str, Any]:
        """A job at its end."""
        while job["state"] in ("waiting", "running"):
            job = await self.call("job", job=job["id"], wait_seconds=20)
        return job

    async def done(self, tool: str, **arguments: object) -> dict[str, Any]:
        """What came of a job."""
        job = await self.finished(await self.call(tool, **arguments))
        assert job["state"] == "done", job["says"]
        return next(value for key, value in job.items() if key == job["kind"].replace(" ", "_"))


@asynccontextmanager
async def agent(tmp_path: Path, *options: str, cache: Path | None = None) -> AsyncIterator[Agent]:
    """An agent at a server of its own: with quick engines, or with those that are set up in `cache`."""
    argv = ["-m", "tests.fake_mcp", *(["--real"] if cache else []), "syllogism", "aiw", *options]
    env = {"TUNEWRIGHT_CACHE": str(cache or tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    argv += ["--session-dir", str(tmp_path / "sessions")]
    server = StdioServerParameters(command=sys.executable, args=argv, env=env, cwd=ROOT)
    with (tmp_path / "server.log").open("a") as log:
        async with Client(stdio_client(server, errlog=log), read_timeout_seconds=120) as client:
            yield Agent(client)


def sealed(tmp_path: Path) -> list[dict[str, Any]]:
    """The items of the sealed test, as nobody but this test may read them."""
    lines = (tmp_path / "sessions/syllogism/sealed/test.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


async def test_an_agent_lists_describes_profiles_validates_trains_and_evaluates(tmp_path: Path) -> None:
    async with agent(tmp_path) as one:
        assert [each["name"] for each in await one.call("list_tasks")] == ["syllogism", "aiw"]
        assert "open_task" in await one.refused("profile_data")
        task = await one.call("open_task", task="syllogism")
        assert task["sizes"] == {"train": 120, "validation": 40, "test": 20}
        assert next(each["score"] for each in task["scorer"]) == 1 and task["seconds_left"] > 1700
        assert (await one.call("system_info"))["engines"]["lighteval"]
        assert (await one.call("profile_data"))["rows"] == 120
        rows = await one.call("read_rows", offset=100, limit=50)
        assert len(rows["rows"]) == 20 and rows["total"] == 120

        made = await one.call("process_dataset", name="all", code=CLEAN)
        assert (made["rows"], made["graded"]) == (120, 120)
        checked = await one.done("start_validation", dataset="all", recipe=RECIPE)
        assert checked["passed"] and [each["name"] for each in checked["checks"]][-2:] == ["template", "time"]
        base = await one.done("start_evaluation")
        assert (base["id"], base["score"]["n"]) == ("base_0-shot", 40)
        trained = await one.done("start_training", dataset="all", recipe=RECIPE)
        assert trained["number"] == 1 and trained["last_loss"] < trained["first_loss"]
        tuned = await one.done("start_evaluation", training=1)
        assert tuned["score"]["value"] > base["score"]["value"]

        told = await one.call("read_feedback", evaluation=tuned["id"])
        assert [each["against"] for each in told["against"]] == ["base_0-shot"] and told["losses"]
        assert sum(each["count"] for each in told["errors"]) > 0
        page = await one.call("read_outcomes", evaluation=tuned["id"], only_wrong=True)
        assert page["outcomes"] and all(each["score"] < 1 and "gold" not in each for each in page["outcomes"])


async def test_finished_work_is_found_after_a_restart_and_a_budget_ends_it(tmp_path: Path) -> None:
    async with agent(tmp_path) as one:
        await one.call("open_task", task="syllogism")
        await one.call("process_dataset", name="all", code=CLEAN)
        first = await one.done("start_training", dataset="all", recipe=RECIPE)
        spent = (await one.call("session_status"))["spent_seconds"]
    stamp = (tmp_path / "sessions/syllogism/trials/1/train/result.json").stat().st_mtime_ns
    async with agent(tmp_path) as two:
        await two.call("open_task", task="syllogism")
        assert await two.done("start_training", dataset="all", recipe=RECIPE) == first
        assert (await two.call("session_status"))["spent_seconds"] >= spent
    assert (tmp_path / "sessions/syllogism/trials/1/train/result.json").stat().st_mtime_ns == stamp
    async with agent(tmp_path, "--budget", "1s") as three:
        await three.call("open_task", task="syllogism")
        job = await three.finished(await three.call("start_evaluation", training=1))
        assert job["state"] == "failed" and "the budget of 1 s is spent" in job["says"]
        assert (await three.call("session_status"))["trainings"] == [first]


async def test_nothing_of_the_test_is_told_and_no_path_leads_to_it(tmp_path: Path) -> None:
    async with agent(tmp_path) as one:
        await one.call("open_task", task="syllogism")
        secrets, session = sealed(tmp_path), tmp_path / "sessions/syllogism"
        for folder in ("incoming", "datasets"):
            (session / folder / "link.jsonl").symlink_to(session / "sealed/test.jsonl")
        await one.call("profile_data")
        for offset in range(0, 120, 60):
            await one.call("read_rows", offset=offset, limit=60)
        await one.done("start_evaluation")
        await one.call("read_outcomes", evaluation="base_0-shot", limit=200)
        await one.call("read_feedback", evaluation="base_0-shot")
        await one.call("session_status")
        hashes = re.findall(r"[0-9a-f]{64}", (session / "data/manifest.json").read_text())
        words = [json.dumps(each["prompt"])[1:-1] for each in secrets] + [each["id"] for each in secrets]
        told = "\n".join(one.heard)
        assert not [each for each in (*words, *hashes, "sealed", "fingerprints") if each in told]

        where = str(session / "sealed/test.jsonl")
        for name in ("../sealed/test", where.removesuffix(".jsonl"), "link", "..", "sealed"):
            assert "data set" in await one.refused("process_dataset", name="x", code=CLEAN, source=name)
        for file in ("../sealed/test.jsonl", where, "link.jsonl", "../data/validation.jsonl"):
            assert "lies outside incoming/" in await one.refused("import_dataset", name="x", file=file)
        assert "data set" in await one.refused("write_dataset", name="../x", rows=[{"prompt": "a", "answer": "b"}])
        peek = f"def process(row):\n    return {{'prompt': open({where!r}).read(), 'answer': ''}}\n"
        assert "No such file" in await one.refused("process_dataset", name="x", code=peek)
        refused = await one.finished(await one.call("start_final_test", training=1))
        assert "--allow-test" in refused["says"]

        leak = [{"prompt": each["prompt"], "answer": each["answer"]} for each in secrets]
        await one.call("write_dataset", name="leak", rows=leak)
        job = await one.finished(await one.call("start_training", dataset="leak", recipe=RECIPE))
        assert job["state"] == "failed" and "contamination" in job["says"]


async def test_the_final_test_is_opened_once_and_ends_the_session(tmp_path: Path) -> None:
    async with agent(tmp_path, "--allow-test") as one:
        await one.call("open_task", task="syllogism")
        await one.call("process_dataset", name="all", code=CLEAN)
        for rate in (1e-3, 2e-3):
            await one.done("start_training", dataset="all", recipe={**RECIPE, "learning_rate": rate})
        found = await one.done("start_final_test", training=2)
        assert found["tuned"]["n"] == 20 and found["against_base"]["difference"] > 0
        assert await one.done("start_final_test", training=2) == found
        other = await one.finished(await one.call("start_final_test", training=1))
        assert "was opened for training 2 already" in other["says"]
        ended = await one.finished(await one.call("start_evaluation", training=1))
        assert "the session has ended" in ended["says"]


@pytest.mark.engine
@pytest.mark.timeout(900)
async def test_a_task_is_tuned_for_with_the_real_engines(tmp_path: Path) -> None:
    real("vllm")
    few = CLEAN.replace("return", "return None if int(row['id'].rpartition('-')[2]) > 40 else")
    async with agent(tmp_path, cache=cache_folder(os.environ)) as one:
        task = await one.call("open_task", task="aiw")
        assert task["base_model"] == "smollm2"
        made = await one.call("process_dataset", name="few", code=few)
        assert 16 < made["rows"] < 60 and made["rows"] + made["dropped"] == 120
        recipe = {"learning_rate": 1e-3, "epochs": 1, "sequence_len": 256}
        checked = await one.done("start_validation", dataset="few", recipe=recipe)
        assert checked["passed"], checked
        trained = await one.done("start_training", dataset="few", recipe=recipe)
        assert trained["steps"] == -(-made["rows"] // 8)
        found = await one.done("start_evaluation", training=1)
        assert found["score"]["n"] == 40 and 0 < found["score"]["ci_high"] <= 1
        assert (await one.call("read_feedback", evaluation=found["id"]))["losses"]
