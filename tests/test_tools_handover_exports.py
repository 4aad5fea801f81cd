"""Exports: what each form holds, that it is checked, and that it appears whole or not at all; stand-in worker."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from memory.errors import EngineError, InputError, NotReproducedError
from memory.layout import RunFolder, read_record, write_record, write_text
from tests import example_run
from tests.fake_environment import interpreter
from tests.test_tools_handover_folder import MANIFEST
from tools.benchmarks.splits import manifest_path
from tools.engines.contract import Engine
from tools.handover.export_check import CHECKED, Compared, recorded, refuse_other_answers
from tools.handover.exports import Exported, Source, export
from tools.handover.weights_difference import distance


def source(root: Path, faults: Mapping[str, str] | None = None, *, items: int = 40, adapter: bool = True) -> Source:
    """A finished run of one accepted trial, and an environment that plays the export worker."""
    folder = RunFolder(root / "run")
    state = example_run.finished(folder)
    report = example_run.run_report(folder, state)
    winner = report.trials[-1]
    score = example_run.score(folder, "trials/3/eval/validation", [1, 0] * (items // 2))
    asked = {"max_new_tokens": 8, "temperature": 0.0, "benchmark": "syllogism"}
    write_text(folder.resolve("trials/3/eval/request.json"), json.dumps({"sha256": "x", "request": asked}))
    write_record(manifest_path(folder.data), MANIFEST)
    assert winner.training is not None
    weights = folder.resolve(winner.training.weights)
    for name in ("config.json", "tokenizer.json", "chat_template.jinja", "card.json"):
        write_text(weights / name, f'{{"is": "{name}"}}')
    write_text(weights.parent / "axolotl.yml", "seed: 0\n")
    write_text(
        folder.resolve("trials/3/train/adapter/adapter_config.json"), '{"r": 16, "base_model_name_or_path": "x"}'
    )
    write_text(folder.resolve("trials/3/train/adapter/adapter_model.safetensors"), "adapter")
    training = winner.training.model_copy(update={"adapter": "trials/3/train/adapter" if adapter else None})
    winner = winner.model_copy(update={"score": score, "training": training})
    engine = Engine("axolotl", interpreter(root), root / "worker.py", faults or {})
    return Source(folder, report, winner, example_run.MODEL, engine)


def left(root: Path) -> list[str]:
    """What lies where an export was to appear."""
    return sorted(path.name for path in root.iterdir()) if root.exists() else []


def test_merged_weights_come_with_tokenizer_card_recipe_and_the_check(tmp_path: Path) -> None:
    exported = export(source(tmp_path), "merged", tmp_path / "out" / "mine")
    folder = tmp_path / "out" / "mine"
    of_the_model = ["chat_template.jinja", "config.json", "model.safetensors", "tokenizer.json"]
    assert left(folder) == sorted([*of_the_model, "README.md", "check.json", "recipe"])
    assert read_record(folder / "check.json", Exported) == exported
    assert (exported.equal, len(exported.answers)) == (10, 10)
    assert list(exported.files) == of_the_model
    assert "vllm serve ." in (folder / "README.md").read_text()
    assert left(folder / "recipe") == ["axolotl.yml", "plan.json"]
    assert left(tmp_path / "out") == ["mine"]


def test_an_adapter_names_its_base_model_and_brings_the_tokenizer(tmp_path: Path) -> None:
    export(source(tmp_path), "adapter", tmp_path / "out")
    config = json.loads((tmp_path / "out" / "adapter_config.json").read_text())
    assert config == {"r": 16, "base_model_name_or_path": example_run.MODEL.path}
    assert {"adapter_model.safetensors", "tokenizer.json", "chat_template.jinja"} <= set(left(tmp_path / "out"))
    assert "model.safetensors" not in left(tmp_path / "out")


def test_an_adapter_of_a_hub_model_names_it_as_the_hub_does(tmp_path: Path) -> None:
    run = source(tmp_path)
    base = run.base.model_copy(update={"name": "owner/small-model"})
    export(replace(run, base=base), "adapter", tmp_path / "out")
    config = json.loads((tmp_path / "out" / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == "owner/small-model"


def test_gguf_is_one_file_named_after_model_and_benchmark(tmp_path: Path) -> None:
    exported = export(source(tmp_path), "gguf", tmp_path / "out")
    assert list(exported.files) == ["smollm2-syllogism-bf16.gguf"]


def test_an_existing_destination_is_refused_and_left_alone(tmp_path: Path) -> None:
    write_text(tmp_path / "out" / "mine.txt", "precious")
    with pytest.raises(InputError, match=r"exists already.*--to"):
        export(source(tmp_path), "merged", tmp_path / "out")
    assert left(tmp_path / "out") == ["mine.txt"]


def test_a_trial_that_tuned_all_weights_has_no_adapter(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no adapter.*--format merged"):
        export(source(tmp_path, adapter=False), "adapter", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_adapter_is_not_put_on_another_base_model(tmp_path: Path) -> None:
    run = source(tmp_path)
    with pytest.raises(InputError, match="fits only the old ones"):
        export(replace(run, base=run.base.model_copy(update={"sha256": "0" * 64})), "adapter", tmp_path / "out")


def test_a_model_that_cannot_be_written_as_gguf_leaves_nothing(tmp_path: Path) -> None:
    run = source(tmp_path, {"FAKE_EXPORT_REFUSE": "it is a MambaForCausalLM"})
    with pytest.raises(EngineError, match=r"MambaForCausalLM.*--format merged"):
        export(run, "gguf", tmp_path / "out" / "gguf")
    assert left(tmp_path / "out") == []


def test_an_export_that_answers_otherwise_is_not_kept(tmp_path: Path) -> None:
    run = source(tmp_path, {"FAKE_EXPORT_WRONG": "1"})
    with pytest.raises(NotReproducedError, match=r"1 of 10 recorded answers came out otherwise.*item-0"):
        export(run, "merged", tmp_path / "out" / "merged")
    assert left(tmp_path / "out") == []
    assert (run.folder.root / "exporting" / "merged" / "check" / "compared.json").exists()


def test_an_answer_may_differ_where_rounding_decides(tmp_path: Path) -> None:
    exported = export(source(tmp_path, {"FAKE_EXPORT_TIES": "1"}), "merged", tmp_path / "out")
    assert exported.equal == 9
    assert exported.answers[0].margin == 0.1


def test_a_difference_without_a_margin_is_no_tie() -> None:
    same = [Compared(item=str(i), recorded="a", output="a", margin=None) for i in range(9)]
    refuse_other_answers(same, Path("where"))
    for margin in (None, float("nan")):
        with pytest.raises(NotReproducedError):
            refuse_other_answers([*same, Compared(item="9", recorded="a", output="b", margin=margin)], Path("where"))


def test_the_ten_answers_are_spread_over_the_split(tmp_path: Path) -> None:
    run = source(tmp_path, items=40)
    _, outcomes = recorded(run.folder.resolve("trials/3/eval/validation/outcomes.jsonl"))
    assert [outcome.id for outcome in outcomes] == [f"item-{number}" for number in range(0, 40, 4)]
    assert len(outcomes) == CHECKED


def test_sampled_answers_cannot_be_given_again(tmp_path: Path) -> None:
    run = source(tmp_path)
    request = run.folder.resolve("trials/3/eval/request.json")
    write_text(request, request.read_text().replace('"temperature": 0.0', '"temperature": 0.7'))
    with pytest.raises(InputError, match="sampled"):
        export(run, "merged", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def safetensors(folder: Path, *rows: float) -> Path:
    """A file of one bf16 tensor."""
    raw = (np.array(rows, np.float32).view(np.uint32) >> 16).astype("<u2").tobytes()
    header = json.dumps({"w": {"dtype": "BF16", "shape": [len(rows)], "data_offsets": [0, len(raw)]}}).encode()
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + raw)
    return folder


def test_weights_are_compared_number_by_number(tmp_path: Path) -> None:
    base = safetensors(tmp_path / "base", 1.0, 0.0, 2.0)
    one, other = safetensors(tmp_path / "a", 1.0, -0.5, 2.0), safetensors(tmp_path / "b", 1.0, -0.75, 2.0)
    assert distance(one, other, base) == pytest.approx((0.25, 1 / 3))
    assert distance(other, other, base) == (0.0, 0.0)
    assert distance(one, base, base) is None
    assert distance(one, safetensors(tmp_path / "c", 1.0), base) is None
    assert distance(tmp_path, tmp_path, base) is None
