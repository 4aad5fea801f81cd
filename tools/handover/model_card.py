"""The model card: what a tuned model is, what it was made of, how good it is, how it was chosen, and what it is not.

Every figure comes from the report and the manifest of the splits. A section without content is left out.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from memory.lineage import went_on_from
from memory.records import Comparison, GuardScore, Score, Trial
from tools.base_models import HUB_ID
from tools.benchmarks.splits import Manifest
from tools.report import RunReport
from tools.report_text import bullets, figure, measures, minutes, table


def card(report: RunReport, winner: Trial, manifest: Manifest, use: str) -> str:
    """The card of the winner's weights; `use` says how to run them in the form in which they lie beside the card."""
    assert winner.training is not None, "a winner was trained"
    sections = {
        "Scores": scores(report),
        "Other measures": measures(report),
        "How it was chosen": chosen(report, winner),
        "Other benchmarks": guards(report, winner),
        "Data": data(report, winner, manifest),
        "What was dropped": dropped(winner),
        "Training": training(report, winner),
        "Limits": bullets(limits(report, winner)),
        "Use": use,
        "Make it again": again(report),
    }
    body = "\n\n".join(f"## {title}\n\n{text}" for title, text in sections.items() if text)
    name = report.baseline.model.name
    title = f"{name if HUB_ID.fullmatch(name) else Path(name).name} tuned on {report.task.benchmark}"
    return f"{front_matter(report)}\n# {title}\n\n{report.decision.says}\n\n{body}\n"


def front_matter(report: RunReport) -> str:
    """What model hubs read."""
    base = report.baseline.model
    lines = [f"license: {base.licence}", "pipeline_tag: text-generation"]
    if HUB_ID.fullmatch(base.name):
        lines.append(f"base_model: {base.name}")
    return "\n".join(["---", *lines, "---", ""])


# --- how good ---------------------------------------------------------------------------------------------------------


def scores(report: RunReport) -> str:
    """The sealed test: base model with both prompts, the best constant answer, the tuned model; the differences."""
    test = report.test
    rows = [["base, zero-shot", *figure(test.zero_shot)], [f"base, {test.few_shot.shots}-shot", *figure(test.few_shot)]]
    if test.constant is not None:
        rows.append([f"always “{test.constant.answer}”", f"{test.constant.value:.3f}", "", str(test.constant.n), ""])
    if test.tuned is not None:
        rows.append(["**tuned**", *figure(test.tuned)])
    compared = [difference(each) for each in (test.against_zero, test.against_few) if each is not None]
    head = ["tuned against", "difference", "95 % interval", "won", "lost", "n", "p", "test"]
    parts = [
        f"Sealed test, {report.task.metric} (± standard error).",
        table(["", report.task.metric, "95 % interval", "n", "parsed"], rows),
        table(head, compared) if compared else "",
    ]
    return "\n\n".join(part for part in parts if part)


def difference(comparison: Comparison) -> list[str]:
    """A paired comparison as cells."""
    method = {"mcnemar": "exact McNemar", "bootstrap": "paired bootstrap"}[comparison.method]
    interval = f"[{comparison.ci_low:+.3f}, {comparison.ci_high:+.3f}]"
    counts = [str(comparison.wins), str(comparison.losses), str(comparison.n)]
    return [comparison.against, f"{comparison.difference:+.3f}", interval, *counts, f"{comparison.p_value:.2g}", method]


def chosen(report: RunReport, winner: Trial) -> str:
    """Who decided, and on which items."""
    assert winner.score is not None, "a winner was scored"
    trials = len(report.trials)
    lines = [
        f"Trial {winner.number} of {trials} was chosen on validation alone: {in_words(winner.score)}. "
        f"{winner.arithmetic[:1].upper()}{winner.arithmetic[1:]}.",
        f"The test split stayed sealed until all trials were over, and was opened once. Run `{report.run_id}`, "
        f"{minutes(report.budget.spent_seconds)}; it stopped because: {report.decision.stopped_because}",
    ]
    if report.lineage.forked_from:
        lines.append(
            f"The run was forked from {report.lineage.forked_from}, so these test items may have been looked at before."
        )
    return bullets(lines)


def in_words(score: Score) -> str:
    """A score in one phrase."""
    value, interval, n, _ = figure(score)
    return f"{score.metric} {value}, 95 % {interval}, n={n}"


def guards(report: RunReport, winner: Trial) -> str:
    """Benchmarks that the tuning was not to harm, on their own items; empty where the person named none."""
    before = {guard.benchmark: guard.score for guard in report.baseline.guards}
    rows = [guard_cells(guard, before.get(guard.benchmark)) for guard in winner.guards]
    if not rows:
        return ""
    asked = f"They were to lose at most {report.task.guard_margin:g}."
    return asked + "\n\n" + table(["", "base", "tuned", "n", "difference", "p"], rows)


def guard_cells(guard: GuardScore, base: Score | None) -> list[str]:
    """One guard as cells."""
    compared = guard.comparison
    cells = [guard.benchmark, figure(base)[0] if base else "", figure(guard.score)[0], str(guard.score.n)]
    return [*cells, *([f"{compared.difference:+.3f}", f"{compared.p_value:.2g}"] if compared else ["", ""])]


# --- what it was made of ----------------------------------------------------------------------------------------------


def data(report: RunReport, winner: Trial, manifest: Manifest) -> str:
    """Where the rows come from, under which licence, and what the splits are."""
    parts = [f"{report.task.benchmark}: {manifest.source}, licence {manifest.licence}."]
    if winner.dataset is not None:
        parts.append(f"Trained on {winner.dataset.rows} rows, sha256 `{winner.dataset.sha256}`:")
        groups = [[group.source, str(group.rows), "; ".join(group.steps)] for group in winner.dataset.groups]
        parts.append(table(["source", "rows", "steps"], groups))
    splits = [[split, str(entry.items), f"`{entry.sha256}`"] for split, entry in manifest.splits.items()]
    parts.append(f"Splits, drawn with seed {manifest.seed}, disjoint by content:")
    parts.append(table(["split", "items", "sha256"], splits))
    return "\n\n".join(parts)


def dropped(winner: Trial) -> str:
    """Rows that did not make it, and why; empty where all did."""
    lost = [each for each in winner.dataset.dropped if each.rows] if winner.dataset else []
    rows = [[each.reason, str(each.rows), ", ".join(each.examples[:3])] for each in lost]
    return table(["reason", "rows", "for example"], rows) if rows else ""


def training(report: RunReport, winner: Trial) -> str:
    """Base model, recipe and what the training took."""
    run, base, recipe = winner.training, report.baseline.model, winner.plan.training
    assert run is not None, "a winner was trained"
    earlier = reversed(went_on_from(recipe.continue_from, report.trials))
    facts = [
        f"Base model: {base.name} ({base.parameters / 1e6:.0f}M weights, licence {base.licence}, chat template "
        f"{base.chat_template}), sha256 `{base.sha256}`",
        f"{run.steps} optimiser steps, {run.tokens} tokens, {minutes(run.train_seconds)}, at most "
        f"{run.peak_memory_bytes / 1e9:.1f} GB; {run.course}",
        f"Weights: sha256 `{run.weights_sha256}`; Axolotl configuration: sha256 `{run.config_sha256}`",
        *(f"Memory: {step}" for step in run.ladder),
        *(f"Before that, trial {each.number}: {rows_of(each)}" for each in earlier),
    ]
    chosen_settings = [[name, str(value)] for name, value in recipe.model_dump().items() if value is not None]
    return bullets(facts) + "\n\n" + table(["setting", "value"], chosen_settings)


def rows_of(trial: Trial) -> str:
    """The rows that a trial was trained on."""
    return f"{trial.dataset.rows} rows, sha256 `{trial.dataset.sha256}`" if trial.dataset else "no rows"


def limits(report: RunReport, winner: Trial) -> list[str]:
    """What nobody should expect of it."""
    test, lines = report.test, []
    if report.decision.outcome != "improved":
        lines.append("On the sealed test it was not shown to be better than the untouched model.")
    if test.tuned is not None and test.tuned.parsed < test.tuned.n:
        lines.append(f"{test.tuned.n - test.tuned.parsed} of {test.tuned.n} outputs held no answer at all.")
    if test.constant is not None and test.tuned is not None and not test.tuned.clearly_beats(test.constant.value):
        above = "above" if test.tuned.higher_is_better else "below"
        lines.append(f"It is not clearly {above} always answering “{test.constant.answer}”.")
    if winner.blame is not None:
        lines.append(f"Still wrong on validation: {winner.blame.says}")
    beside = "beside it only the benchmarks above were" if winner.guards else "nothing else was"
    lines.append(f"Tuned for this one task and its prompt; {beside} measured, so other abilities may have suffered.")
    lines.append("What base model and data say wrongly, it says too; nobody has looked at its answers for safety.")
    return lines


# --- how to use it ----------------------------------------------------------------------------------------------------


def serving(report: RunReport) -> str:
    """How the weights beside the card are served."""
    return (
        f"An OpenAI-compatible endpoint on this machine; the model's name is `tuned`:\n\n```sh\n{report.serve}\n```\n\n"
        f"The same with Tunewright: `{command('serve', report)}`; both models side by side: "
        f"`{command('ask', report)} 'QUESTION'`."
    )


def again(report: RunReport) -> str:
    """The exact environment, and the command that trains the same weights once more."""
    locks = [[name, f"`{sha256}`"] for name, sha256 in report.lineage.engines.items()]
    parts = [f"`{command('reproduce', report)}` trains it again from its lineage and compares the weights."]
    if locks:
        where = "`requirements/NAME.txt` beside this card, where this release still has them"
        parts.append(f"The engines' lock files, for Python 3.11 ({where}):")
        parts.append(table(["environment", "sha256"], locks))
    return "\n\n".join(parts)


def command(action: str, report: RunReport) -> str:
    """A command of Tunewright about this run."""
    return shlex.join(["python", "-m", "graph.run", f"--{action}", report.run_id])
