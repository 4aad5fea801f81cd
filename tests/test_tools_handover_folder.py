"""The hand-over: the command that serves the model, the folder of the model, and its card."""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path

import pytest

from memory.layout import RunFolder, write_record, write_text
from memory.records import Change, Dropped, GuardScore, Trial
from tests import example_run
from tools.benchmarks.splits import Manifest, Sizes, SplitFile, manifest_path
from tools.engines.environments import ENGINES
from tools.handover.folder import hand_over_model, serve_command
from tools.handover.model_card import card
from tools.report import RunReport

MANIFEST = Manifest(
    benchmark="syllogism", source="reasoning-gym 0.1.25", licence="Apache-2.0", seed=7, sizes=Sizes(),
    splits={"test": SplitFile(file="test.jsonl", items=200, sha256="e" * 64, duplicates=0)}, fingerprints={},
)  # fmt: skip


def finished(root: Path) -> tuple[RunFolder, RunReport, Trial]:
    """A run that improved, and its winner."""
    folder = RunFolder(root / "run")
    report = example_run.run_report(folder, example_run.finished(folder))
    write_record(manifest_path(folder.data), MANIFEST)
    return folder, report, report.trials[-1]


def test_the_serve_command_can_be_pasted(tmp_path: Path) -> None:
    words = shlex.split(serve_command(Path("/an env/python"), tmp_path / "my model", "cpu"))
    assert words[0] == "env"
    assert words[words.index("--model") + 1] == str(tmp_path / "my model")
    assert words[words.index("--host") + 1] == "127.0.0.1"
    assert "/an env/python" in words
    assert "HF_HUB_OFFLINE=1" in words[: words.index("/an env/python")]


def test_the_model_folder_holds_weights_card_and_lock_files_and_nothing_about_the_base(tmp_path: Path) -> None:
    folder, report, winner = finished(tmp_path)
    assert winner.training is not None
    weights = folder.resolve(winner.training.weights)
    write_text(weights / "README.md", "the base model's own card")
    write_text(weights / "card.json", "{}")
    lock = ENGINES / "axolotl" / "requirements-cpu.txt"
    sha256 = hashlib.sha256(lock.read_bytes()).hexdigest()
    lineage = report.lineage.model_copy(update={"engines": {"train": sha256, "score": "0" * 64}})
    report = report.model_copy(update={"lineage": lineage})
    hand_over_model(folder, winner, report)
    assert (folder.model / "model.safetensors").read_text() == "weights"
    assert not (folder.model / "card.json").exists()
    text = (folder.model / "README.md").read_text()
    assert "the base model's own card" not in text
    assert (folder.model / "requirements" / "train.txt").read_bytes() == lock.read_bytes()
    assert not (folder.model / "requirements" / "score.txt").exists()
    assert sha256 in text
    assert "0" * 64 in text
    hand_over_model(folder, winner, report)  # a second time, as after a crash


def test_the_card_says_what_a_stranger_needs(tmp_path: Path) -> None:
    _, report, winner = finished(tmp_path)
    text = card(report, winner, MANIFEST, "USE")
    for needed in (
        "1.000 ± 0.100",  # the tuned score with its error
        "[0.800, 1.000]",  # and its interval
        "+0.750",  # the difference,
        "0.01",  # its p
        "exact McNemar",
        "chosen on validation alone",
        "opened once",
        "reasoning-gym 0.1.25",
        "Apache-2.0",
        "e" * 64,  # the sealed split
        "d" * 64,  # the rows
        "m" * 64,  # the base weights
        "w" * 64,  # the tuned weights
        "| learning_rate | 0.003 |",
        "--reproduce run",
        "USE",
    ):
        assert needed in text, needed


def test_sections_without_content_are_left_out(tmp_path: Path) -> None:
    _, report, winner = finished(tmp_path)
    text = card(report, winner, MANIFEST, "USE")
    assert "## Other benchmarks" not in text
    assert "## What was dropped" not in text
    assert "nothing else was measured" in text


def test_guards_and_dropped_rows_are_tables(tmp_path: Path) -> None:
    folder, report, winner = finished(tmp_path)
    before = example_run.score(folder, "guards/aiw/base", [1, 1, 1, 0])
    after = example_run.score(folder, "guards/aiw/tuned", [1, 1, 0, 0])
    assert report.test.against_few is not None
    compared = report.test.against_few.model_copy(update={"difference": -0.25, "p_value": 0.5})
    guard = GuardScore(benchmark="aiw", score=after, comparison=compared)
    baseline = report.baseline.model_copy(update={"guards": (GuardScore(benchmark="aiw", score=before),)})
    assert winner.dataset is not None
    dataset = winner.dataset.model_copy(update={"dropped": (Dropped(reason="repeats | another", rows=3),)})
    text = card(
        report.model_copy(update={"baseline": baseline}),
        winner.model_copy(update={"guards": (guard,), "dataset": dataset}),
        MANIFEST,
        "USE",
    )
    assert "| aiw | 0.750 ± 0.100 | 0.500 ± 0.100 | 4 | -0.250 | 0.5 |" in text
    assert "| repeats \\| another | 3 |" in text
    assert "only the benchmarks above were measured" in text


@pytest.mark.parametrize("outcome", ["improved", "not improved"])
def test_a_model_that_did_not_hold_up_says_so(tmp_path: Path, outcome: str) -> None:
    _, report, winner = finished(tmp_path)
    decision = report.decision.model_copy(update={"outcome": outcome})
    text = card(report.model_copy(update={"decision": decision}), winner, MANIFEST, "USE")
    assert ("not shown to be better" in text.split("## Limits")[1]) == (outcome == "not improved")


def test_a_trial_that_goes_on_from_another_names_it(tmp_path: Path) -> None:
    folder, report, _ = finished(tmp_path)
    change = Change(factor="epochs", before="1", after="2")
    winner = example_run.trial(folder, example_run.plan(4, 3, change, continue_from=3), [1, 1, 1, 1], "accepted")
    text = card(report, winner, MANIFEST, "USE")
    assert "| continue_from | 3 |" in text
    assert "Before that, trial 3: 100 rows" in text
