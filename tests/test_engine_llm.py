"""The embedded model plans its own fine-tuning: a real form, filled in by real vLLM under constrained decoding."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graph.runs import read_state
from tests.test_engine_run import ARGUMENTS, begin, only_run
from tools.llm.endpoint import Reply
from tools.llm.typed import parsed
from tools.proposers.llm_form import ProposedPlan

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]


def test_the_model_that_is_tuned_plans_a_trial(tmp_path: Path) -> None:
    process = begin(tmp_path, "small", *ARGUMENTS, "--max-trials", "1", "--planner-model", "local")
    out, _ = process.communicate()
    folder = only_run(tmp_path)
    (trial,) = read_state(folder)["trials"]
    replies = [Reply.model_validate_json(path.read_bytes()) for path in folder.llm.glob("*.json")]
    whole = [reply for reply in replies if not reply.cut]
    assert whole, out  # a model of this size may repeat itself until its room ends; whatever else it says fits the form
    for reply in whole:
        assert parsed(ProposedPlan, reply).diagnosis, reply.text
    assert "planned by local on this machine" in out
    # A model of this size may propose what cannot be done; then search plans, and the run says so.
    assert trial.plan.proposer == "llm" or "local did not plan trial 1, the search proposer does" in out
    assert trial.score is not None, out
    report = json.loads((folder.root / "report.json").read_text())
    assert report["models"][0]["dollars"] == 0.0
    assert report["budget"]["server_starts"] == 1
