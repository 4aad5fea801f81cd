"""What a run hands over: the winning weights in `model/` with a card, the report, and the command that serves them."""

from __future__ import annotations

import shlex
from pathlib import Path

from memory.layout import RunFolder, disk, link_or_copy, made, write_record, write_text
from memory.records import Trial
from tools.report import RunReport
from tools.report_text import figure, markdown, table


def serve_command(python: Path, model: Path, device: str) -> str:
    """The command that serves `model` with an OpenAI-compatible endpoint on loopback; `python` has vLLM."""
    argv = [str(python), "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
    argv += ["--served-model-name", "tuned", "--host", "127.0.0.1", "--port", "8000", "--max-model-len", "2048"]
    argv += ["--dtype", "bfloat16", *(["--enforce-eager"] if device == "cpu" else [])]
    return shlex.join(argv)


def write_report(folder: RunFolder, report: RunReport) -> None:
    """`report.json` and `report.md`, each whole or not at all. Raises StorageError."""
    write_record(folder.root / "report.json", report)
    write_text(folder.root / "report.md", markdown(report))


def hand_over_model(folder: RunFolder, winner: Trial, report: RunReport) -> None:
    """Put the winner's weights into `model/` (hard links where the disk allows) and a card beside them."""
    assert winner.training is not None, "a winner was trained"
    source, target = folder.resolve(winner.training.weights), made(folder.model)
    with disk(target):
        for file in sorted(path for path in source.iterdir() if path.is_file()):
            (target / file.name).unlink(missing_ok=True)
            link_or_copy(file, target / file.name)
    write_text(target / "README.md", card(report, winner))


def card(report: RunReport, winner: Trial) -> str:
    """The model card: what it is, what it was made of, how good it is, and what it is not."""
    test, recipe, base = report.test, winner.plan.training, report.baseline.model
    assert test.tuned is not None, "a winner was scored on the sealed test"
    few = f"base, {test.few_shot.shots}-shot"
    rows = {"base, zero-shot": test.zero_shot, few: test.few_shot, "tuned": test.tuned}
    scores = [[name, *figure(score)] for name, score in rows.items()]
    data = f"{winner.dataset.rows} rows of {report.task.benchmark}" if winner.dataset else "none"
    return f"""# {base.name} tuned on {report.task.benchmark}

{report.decision.says}

{table(["", report.task.metric, "95 % interval", "n", "parsed"], scores)}

- Base model: {base.name} ({base.parameters / 1e6:.0f}M weights, licence {base.licence}), \
sha256 `{base.sha256}`
- Data: {data}, sha256 `{report.lineage.data_sha256}`
- Recipe: {recipe.method}, learning rate {recipe.learning_rate:g}, {recipe.epochs:g} epochs, \
batch {recipe.batch_size}, rank {recipe.lora_rank}, alpha {recipe.lora_alpha}, seed {recipe.seed}
- Weights: sha256 `{report.lineage.weights_sha256}`
- Limits: tuned for this one task and prompt; nothing was measured beside it, so other abilities may have suffered.

Serve it:

```
{report.serve}
```
"""
