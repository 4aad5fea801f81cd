"""A look at all rows of a person's files before anything is paid for: what is unusable is left out by name, what
cannot be right is refused, and what is merely odd is said."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

from memory.errors import InputError
from memory.layout import sha256_of
from memory.records import OwnFile, OwnTask
from memory.records.metric import ExactMatch, Metric
from tools import metrics
from tools.benchmarks.benchmark import Item, Split
from tools.decontamination import normalised
from tools.lengths import LONGEST_ANSWER, fits, room_for
from tools.metrics import exact_match
from tools.own_task.files import read_file
from tools.own_task.findings import Finding, counted, finding, named
from tools.own_task.shapes import OwnRow, rows_of
from tools.serving import WINDOW

OVERLAPS = ("token_f1", "rouge_l")
"""Metrics by which any text is its own best answer, so that grading each against itself would only take time."""
UNUSABLE_SHARE = 0.5
"""Share of rows without a question or an answer from which on it is the column that is wrong."""

_MISREAD = re.compile(
    "[\u00c2-\u00f4][\u0080-\u00bf\u20ac\u201a\u0192\u201e\u2026\u2020\u2021\u02c6\u2030\u0160\u2039\u0152"
    "\u017d\u2018\u2019\u201c\u201d\u2022\u2013\u2014\u02dc\u2122\u0161\u203a\u0153\u017e\u0178]{1,3}"
)
"""What UTF-8 looks like where it was read as Windows-1252."""


@dataclass(frozen=True)
class Survey:
    """Usable rows of each file, each question once, answers in their one spelling; and what was found."""

    rows: dict[Split, list[OwnRow]]
    read: int
    """Rows in the files."""
    found: tuple[Finding, ...]


def load(task: OwnTask) -> dict[Split, list[OwnRow]]:
    """All rows of the task's files. Raises InputError for a file that changed, cannot be read, or has another
    shape."""
    for file in files_of(task).values():
        path = Path(file.path)
        if not path.is_file():
            raise InputError(f"there is no file {path}", "Put it back, or name another one in the task file.")
        if sha256_of(path) != file.sha256:
            raise InputError(f"{path} has changed since the task was read", "Put it back, or start a new run.")
    return _read(task.model_copy(update={"answers": None, "max_new_tokens": 1}))


@lru_cache(maxsize=1)
def _read(task: OwnTask) -> dict[Split, list[OwnRow]]:
    """The rows, read once per process: they are wanted to settle what a task leaves open, and again to be split. What
    is settled then decides nothing here."""
    return {
        part: rows_of(task, part, Path(file.path).name, read_file(Path(file.path)))
        for part, file in files_of(task).items()
    }


def files_of(task: OwnTask) -> dict[Split, OwnFile]:
    """The person's files."""
    files: dict[Split, object] = {"train": task.train, "validation": task.validation, "test": task.test}
    return {part: file for part, file in files.items() if isinstance(file, OwnFile)}


def survey(task: OwnTask, loaded: dict[Split, list[OwnRow]]) -> Survey:
    """Look at all rows. Raises InputError where most rows are empty, where no row is usable, where an answer is none
    of the task's, and where the metric does not give a gold its full mark."""
    rows = [row for part in loaded.values() for row in part]
    usable, found = _apply(rows, [_without_empty, partial(_without_long, task), _misread])
    usable, spelt = _spelling(task, usable)
    found += spelt
    check_golds(task, usable)
    parts: dict[Split, list[OwnRow]] = {}
    for part in loaded:
        parts[part], repeated = _one_answer([row for row in usable if row.part == part])
        found += repeated
        if not parts[part]:
            raise InputError(f"none of the {len(loaded[part])} {part} rows is usable: {found[0].says}")
    return Survey(parts, len(rows), tuple(found + _single(task, parts)))


def resolved(task: OwnTask, loaded: dict[Split, list[OwnRow]], max_new_tokens: int | None) -> OwnTask:
    """The task with its closed answers and the room for an answer derived from the golds, where they were not given."""
    golds = [row.answer.strip() for part in loaded.values() for row in part if row.answer.strip()]
    answers = task.answers or metrics.closed_answers(task.metric, golds)
    rooms = [room for gold in {*golds, *(answers or ())} if (room := room_for(gold)) <= LONGEST_ANSWER]
    room = max_new_tokens or max(rooms, default=LONGEST_ANSWER)
    return task.model_copy(update={"answers": answers, "max_new_tokens": room})


def item_of(row: OwnRow, id: str) -> Item:
    """A row as an item of a benchmark."""
    return Item(id=id, prompt=row.prompt, answer=row.answer, columns=dict(row.columns), reference="{}")


def check_golds(task: OwnTask, rows: Sequence[OwnRow]) -> None:
    """The metric gives every answer of the person's its full mark. Raises InputError with the first that it does not,
    and how many there are."""
    grade = metrics.grader(task.metric, task.answers)
    asked = task.metric.kind not in OVERLAPS
    wrong = []
    for row in rows:
        reason = metrics.valid_gold(task.metric, row.answer)
        if asked and reason is None and (score := grade(row.answer, item_of(row, row.place)).score) < 1:
            reason = f"as an output it scores {score:g} against itself"
        if reason:
            wrong.append((row, reason))
    if wrong:
        row, reason = wrong[0]
        raise InputError(
            f"{row.place}: no output can be right for the answer {row.answer[:60]!r} by {task.metric.kind}: {reason} "
            f"({counted(len(wrong), 'such row')}: {named([row for row, _ in wrong])})",
            "Correct or leave out these rows, or choose another metric in the task file.",
        )


# --- the looks: each takes rows, and returns those that stay and what it found -------------------------------------

Look = Callable[[list[OwnRow]], tuple[list[OwnRow], list[Finding]]]


def _apply(rows: list[OwnRow], looks: Sequence[Look]) -> tuple[list[OwnRow], list[Finding]]:
    found: list[Finding] = []
    for look in looks:
        rows, more = look(rows)
        found += more
    return rows, found


def _without_empty(rows: list[OwnRow]) -> tuple[list[OwnRow], list[Finding]]:
    found = []
    for what, empty in (
        ("question", [row for row in rows if not row.prompt]),
        ("answer", [row for row in rows if row.prompt and not row.answer.strip()]),
    ):
        if len(empty) > UNUSABLE_SHARE * len(rows):
            raise InputError(
                f"the {what} is empty in {len(empty)} of {len(rows)} rows ({named(empty)})",
                "Name another column in the task file, or fill this one.",
            )
        if empty:
            says = f"{counted(len(empty), 'row')} with an empty {what}: left out"
            found.append(finding("empty", empty, says, len(empty)))
    return [row for row in rows if row.prompt and row.answer.strip()], found


def _without_long(task: OwnTask, rows: list[OwnRow]) -> tuple[list[OwnRow], list[Finding]]:
    short = [fits(row.prompt, row.answer, task.max_new_tokens) for row in rows]
    long = [row for row, one in zip(rows, short, strict=True) if not one]
    if not long:
        return rows, []
    chars = max(len(row.prompt) + len(row.answer) for row in long)
    says = f"{counted(len(long), 'row')} too long for the {WINDOW:,} tokens that the server takes, prompt and answer "
    says += f"(up to {task.max_new_tokens}, see max_new_tokens) together: left out; the longest has {chars:,} signs"
    return [row for row, one in zip(rows, short, strict=True) if one], [finding("long", long, says, len(long))]


def _misread(rows: list[OwnRow]) -> tuple[list[OwnRow], list[Finding]]:
    odd = [row for row in rows if looks_misread(row.prompt) or looks_misread(row.answer)]
    says = f"{counted(len(odd), 'row')} with a broken encoding (\ufffd, or \u00c3\u00a9 for \u00e9): kept as it is. "
    says += "Convert the file anew from where it came from"
    return rows, [finding("encoding", odd, says)] if odd else []


def looks_misread(text: str) -> bool:
    """Whether a text holds the replacement character, or UTF-8 that was read as Windows-1252."""
    if "\ufffd" in text:
        return True
    for match in _MISREAD.finditer(text):
        try:
            match.group().encode("cp1252").decode("utf-8")
        except UnicodeError:
            continue
        return True
    return False


def _spelling(task: OwnTask, rows: list[OwnRow]) -> tuple[list[OwnRow], list[Finding]]:
    """Closed answers get the one spelling that the task lists; open answers only lose the white space around them."""
    if task.answers is None:
        return [replace(row, answer=row.answer.strip()) for row in rows], []
    fold = folding(task.metric)
    official = {fold(answer): answer for answer in task.answers}
    spelt: list[OwnRow] = []
    for row in rows:
        answer = row.answer if row.answer in task.answers else official.get(fold(row.answer))
        if answer is None:
            raise InputError(
                f"{row.place}: {row.answer[:60]!r} is none of the answers {', '.join(map(repr, task.answers[:10]))}",
                "Correct the row, or list all answers in the task file.",
            )
        spelt.append(replace(row, answer=answer))
    written: dict[str, Counter[str]] = {}
    for old, new in zip(rows, spelt, strict=True):
        written.setdefault(new.answer, Counter())[old.answer] += 1
    found = []
    for answer, spellings in written.items():
        if len(spellings) > 1:
            other = [old for old, new in zip(rows, spelt, strict=True) if new.answer == answer != old.answer]
            listed = ", ".join(f"{text!r} in {counted(count, 'row')}" for text, count in spellings.most_common())
            found.append(
                finding("spelling", other, f"one answer in several spellings: {listed}; all are read as {answer!r}")
            )
    return spelt, found


def folding(metric: Metric) -> Callable[[str], str]:
    """What two spellings of one answer have in common: what the metric compares, else all but case, white space and
    punctuation around words."""
    return partial(exact_match.form, metric) if isinstance(metric, ExactMatch) else normalised


def _one_answer(rows: list[OwnRow]) -> tuple[list[OwnRow], list[Finding]]:
    """Each question once. Of different answers to it the most frequent is kept, and of equally frequent ones the first:
    nobody can tell here which is right."""
    alike: dict[str, list[OwnRow]] = {}
    for row in rows:
        alike.setdefault(row.question, []).append(row)
    kept: list[OwnRow] = []
    again: list[OwnRow] = []
    against: list[OwnRow] = []
    pairs: list[str] = []
    for same in alike.values():
        best, _ = Counter(normalised(row.answer) for row in same).most_common(1)[0]
        first, *more = [row for row in same if normalised(row.answer) == best]
        kept.append(first)
        again += more
        others = [row for row in same if normalised(row.answer) != best]
        against += others
        pairs += [
            f"row {row.number} with {row.answer[:40]!r}, row {first.number} with {first.answer[:40]!r}"
            for row in others
        ]
    found = []
    if again:
        says = f"{counted(len(again), 'row')} repeating an earlier row, question and answer: left out"
        found.append(finding("duplicate", again, says, len(again)))
    if against:
        says = (
            f"{counted(len(against), 'row')} answering a question otherwise than another row ({pairs[0]}): left out; "
        )
        says += "the more frequent answer, else the first, is kept. Correct the wrong ones"
        found.append(finding("conflict", against, says, len(against)))
    return kept, found


def _single(task: OwnTask, parts: dict[Split, list[OwnRow]]) -> list[Finding]:
    if task.answers is None:
        return []
    rows = [row for part in parts.values() for row in part]
    counts = Counter(row.answer for row in rows)
    alone = [row for row in rows if counts[row.answer] == 1]
    if not alone:
        return []
    which = ", ".join(repr(row.answer) for row in alone[:5])
    says = f"{counted(len(alone), 'answer')} with a single row ({which}): too few to be learnt and tested. "
    says += "Add rows, or leave these out"
    return [finding("single", alone, says)]
