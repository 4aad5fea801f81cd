"""What a trial was made of, for the page: its plan, its data and what was left out, its checks, and its logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from graph.page.checkpoints import plan_lines
from graph.page.paging import Page, Stamped, page_of, stamped
from graph.page.safe_text import document, html_table, paragraph
from memory.errors import InputError
from memory.layout import RunFolder, read_rows
from memory.records import Attribution, Comparison, DatasetCard, Lengths, Plan, Score, TrainingRun, Trial, Verdict
from memory.state import State
from tools import benchmarks
from tools.causes.attribution import contrast, pairs
from tools.causes.text import BLAME_HEAD, EFFECT_HEAD, blame_rows, effect_rows, unattributed
from tools.data import TrainingRow
from tools.estimates import compared_files, written
from tools.plan_text import changed
from tools.report_text import bullets, trial_text

TAIL_BYTES = 65_536
"""Of a log; its end is what a person wants."""
LOGS: dict[str, str] = {
    "Axolotl configuration": "trials/{trial}/train/axolotl.yml",
    "training log": "trials/{trial}/train/run.log",
    "preflight configuration": "trials/{trial}/preflight/axolotl.yml",
    "preflight log": "trials/{trial}/preflight/run.log",
    "scoring log": "trials/{trial}/eval/run.log",
    "Axolotl, all trials": "axolotl/run.log",
    "server, all trials": "server/run.log",
    "scorer, all trials": "scorer/run.log",
    "the run's own process": "process.log",
}
"""What can be read, and where it lies in the run's folder."""


@dataclass(frozen=True)
class Parts:
    """A trial, ended or in progress."""

    plan: Plan
    dataset: DatasetCard | None
    verdict: Verdict | None
    training: TrainingRun | None
    ended: Trial | None
    """None while it is in progress."""


def parts(state: State, number: int) -> Parts:
    """A trial of the run. Raises InputError where there is none of that number."""
    for trial in state.get("trials", []):
        if trial.number == number:
            return Parts(trial.plan, trial.dataset, trial.verdict, trial.training, trial)
    plan = state.get("plan")
    if plan is None or plan.number != number:
        raise InputError(f"there is no trial {number} in this run", "Choose one of the list.")
    return Parts(plan, state.get("dataset"), state.get("verdict"), state.get("training"), None)


def choices(state: State) -> list[tuple[str, int]]:
    """The trials to choose from, newest first: words, and the number."""
    found = [
        (f"trial {trial.number}, {trial.decision}: {changed(trial.plan)}"[:100], trial.number)
        for trial in state.get("trials", [])
    ]
    if plan := state.get("plan"):
        found.append((f"trial {plan.number}, in progress", plan.number))
    return found[::-1]


def about(part: Parts) -> str:
    """The trial as Markdown: plan, and what came of it."""
    if part.ended is not None:
        return document(trial_text(part.ended))
    return document(f"**Trial {part.plan.number}**, in progress.\n\n{bullets(plan_lines(part.plan))}")


def why(folder: RunFolder, state: State, number: int) -> str:
    """What the trial's change did, and what is still wrong, as HTML. Raises StorageError."""
    trials, baseline = state.get("trials", []), state.get("baseline")
    pair = next((pair for pair in pairs(trials) if number in {trial.number for trial in pair[0]}), None)
    if pair is None or baseline is None:
        return paragraph("It has no score.")

    def compare(ours: Sequence[Score], theirs: Sequence[Score], against: str) -> Comparison:
        left, right = (tuple(written(folder.resolve(score.outcomes)) for score in side) for side in (ours, theirs))
        return compared_files(benchmarks.of(state["task"]).measure, left, right, against)

    found = contrast(*pair, baseline, compare)
    did = Attribution(contrasts=(found,))
    wrong = [row[1:] for row in blame_rows(trial for trial in pair[0] if trial.number == number)]
    return "".join(
        (
            html_table(EFFECT_HEAD, effect_rows(did)) if found.attributed else "",
            *map(paragraph, unattributed(did)),
            html_table(BLAME_HEAD[1:], wrong) if wrong else "",
        )
    )


def checks(part: Parts) -> str:
    """The validator's checks with their figures, as HTML."""
    if part.verdict is None:
        failure = part.ended.failure if part.ended else None
        why = f"It failed in {failure.node} before: {failure.message}." if failure else "Not validated yet."
        return paragraph(why)
    rows = [
        ["passed" if check.passed else "FAILED", check.name, f"{check.figure:,g} {check.unit}", check.says]
        for check in part.verdict.checks
    ]
    return html_table(("", "check", "figure", "says"), rows)


def provenance(part: Parts) -> str:
    """Where the training rows come from, what was left out and why, as HTML."""
    card = part.dataset
    if card is None:
        return paragraph("No training file yet.")
    came = [[group.source, f"{group.rows:,}", ", then ".join(group.steps) or "as it is"] for group in card.groups]
    out = [[one.step, one.reason, f"{one.rows:,}", "; ".join(one.examples[:3])] for one in card.dropped]
    said = [f"{card.rows:,} training rows.", *_lengths("Prompts", card.prompt_chars)]
    said += _lengths("Answers", card.answer_chars)
    answers = [[answer, f"{count:,}"] for answer, count in card.answers.items()]
    return "".join(
        (
            paragraph(" ".join(said)),
            html_table(("source", "rows", "way into the file"), came),
            "<h4>Left out</h4>",
            html_table(("step", "reason", "rows", "for example"), out) if out else paragraph("Nothing."),
            "<h4>Most frequent answers</h4>" + html_table(("answer", "rows"), answers) if answers else "",
            *map(paragraph, (*card.notes, *(one.says for one in card.rehearsals))),
        )
    )


def training_rows(folder: RunFolder, part: Parts, words: str, number: int) -> Page[TrainingRow]:
    """A page of the training file, of the rows that hold `words`. Raises InputError, StorageError."""
    if part.dataset is None:
        return page_of([], 1)
    rows, texts = _rows(stamped(folder.resolve(part.dataset.path)))
    needle = words.strip().casefold()
    return page_of([row for row, text in zip(rows, texts, strict=True) if needle in text] if needle else rows, number)


def rows_html(page: Page[TrainingRow]) -> str:
    """Training rows as a table: prompt, answer, where each comes from, and of pairs the answer to reject."""
    if not page.items:
        return paragraph("No rows.")
    rows = []
    for row in page.items:
        origin = row.source if row.answered_by != "model" else f"{row.source}, answered by a model"
        origin += f", {row.origin}" if row.origin else ""
        rows.append([row.id, row.prompt, row.answer, origin, *([row.rejected] if row.rejected else [])])
    pairs = any(row.rejected for row in page.items)
    return html_table(("row", "prompt", "answer", "from", *(("rejected",) if pairs else ())), rows)


def log(folder: RunFolder, part: Parts, name: str) -> str:
    """The end of one of LOGS, as text. Raises InputError for another name."""
    if name not in LOGS:
        raise InputError(f"there is no log {name}", f"Choose one of: {', '.join(LOGS)}.")
    path = folder.root / LOGS[name].format(trial=part.plan.number)
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL_BYTES))
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return "Not written yet."


def _lengths(what: str, lengths: Lengths | None) -> list[str]:
    if lengths is None:
        return []
    return [f"{what}: {lengths.mean:.0f} characters on average, {lengths.longest:,} at most."]


@lru_cache(maxsize=4)
def _rows(file: Stamped) -> tuple[tuple[TrainingRow, ...], tuple[str, ...]]:
    """Rows, and the text of each that is searched."""
    rows = tuple(read_rows(file.path, TrainingRow))
    return rows, tuple("\n".join((row.id, row.prompt, row.answer, row.source)).casefold() for row in rows)
