"""A sentence that asks for a run, as the command line that would start it, and what that will cost."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median

from graph.arguments import parse
from graph.page.draft import saved
from graph.page.safe_text import plain, table
from graph.values import EMBEDDED_MODEL, in_words, near
from memory.errors import InputError
from memory.records import Task
from tools import benchmarks
from tools.base_models import HUB_ID
from tools.earlier_runs import reports
from tools.engines import environments
from tools.report import RunReport

ASKS = re.compile(r"\b(fine[- ]?tun\w*|tune|train|start|teach|improve)\b", re.IGNORECASE)
"""What a sentence that asks for a run has in it."""
NUMBER = r"(\d+(?:\.\d+)?)"
UNITS = (
    (re.compile(rf"{NUMBER}\s*h(?:ours?|rs?)?(?![a-z])"), 3600.0),
    (re.compile(rf"{NUMBER}\s*m(?:in(?:ute)?s?)?(?![a-z])"), 60.0),
    (re.compile(rf"{NUMBER}\s*s(?:ec(?:ond)?s?)?(?![a-z])"), 1.0),
)
IN_WORDS = {"half an hour": "30m", "quarter of an hour": "15m", "an hour": "1h", "one hour": "1h"}
NUMBERED = (
    (re.compile(r"(\d+)\s+trials?\b"), "--max-trials"),
    (re.compile(r"(\d+)\s+rows?\b"), "--sample-cap"),
    (re.compile(r"\bseed\s+(\d+)\b"), "--seed"),
)
ASKED_FIRST = re.compile(r"\b(?:ask|approv\w*|confirm)\b.*\b(plan|data|train)")
REPORTS = 10
"""Earlier runs that an estimate is made from, the last ones."""


@dataclass(frozen=True)
class Request:
    """A run that a person asked for."""

    argv: tuple[str, ...]
    """Of `python -m graph.run`."""
    task: Task


def understood(text: str, runs: Path) -> Request | None:
    """The run that a sentence asks for; None where it asks for none. Raises InputError where it cannot be done."""
    words = text.lower()
    if not ASKS.search(words) or re.match(r"\s*(why|what|which|how|who|when|is|are|did|does)\b", words):
        return None
    rest = words
    argv = [*_measured_by(words, runs), "--base-model", _model(text), "--run-dir", str(runs)]
    for phrase, duration in IN_WORDS.items():
        rest = rest.replace(phrase, duration)
    seconds = sum(float(number) * unit for pattern, unit in UNITS for number in pattern.findall(rest))
    argv += ["--budget", f"{seconds:g}s"] if seconds else []
    for pattern, option in NUMBERED:
        if found := pattern.search(rest):
            argv += [option, found.group(1)]
    if found := ASKED_FIRST.search(rest):
        argv += ["--approve", found.group(1)]
    return Request(tuple(argv), parse(argv, {}).task())


def _measured_by(words: str, runs: Path) -> tuple[str, str]:
    """The option for the benchmark, or saved task of one's own, with the longest name that stands in the sentence;
    spaces and hyphens count as underscores. Raises InputError."""
    own = saved(runs)
    names = [*own, *benchmarks.BENCHMARKS]
    text = _joined(words)
    named = [name for name in names if re.search(rf"(?<![a-z]){re.escape(_joined(name.lower()))}(?![a-z])", text)]
    if named:
        name = max(named, key=len)
        return ("--task", str(own[name])) if name in own else ("--benchmark", name)
    known = ", ".join(names)
    found = re.search(r"\b(?:on|at|for)\s+([a-z][\w-]*)", words)
    if found is None:
        raise InputError("the sentence names no benchmark", f"Name one of: {known}.")
    raise InputError(f"there is no benchmark {found.group(1)}", near(found.group(1), names, f"Name one of: {known}."))


def _joined(words: str) -> str:
    return re.sub(r"[\s_-]+", "_", words)


def _model(text: str) -> str:
    """The base model: the embedded one, or a hub id. A folder is for the command line. Raises InputError."""
    found = re.search(r"\b(?:tun\w*|train|teach|improve)\s+(\S+)\s+(?:on|at|for)\b", text, re.IGNORECASE)
    word = found.group(1) if found else EMBEDDED_MODEL
    if word.lower().startswith(EMBEDDED_MODEL) or word.lower() in ("it", "model"):
        return EMBEDDED_MODEL
    if HUB_ID.fullmatch(word):
        return word
    raise InputError(
        f"there is no model {word}", near(word, [EMBEDDED_MODEL], f"Name {EMBEDDED_MODEL}, or a hub id OWNER/NAME.")
    )


# --- in words ---------------------------------------------------------------------------------------------------------


def proposal(request: Request, runs: Path, cache: Path) -> str:
    """What was understood and what it costs, as Markdown."""
    task = request.task
    rows = [
        ("base model", task.base_model),
        ("benchmark", f"{task.benchmark}, scored by {task.metric}"),
        ("budget", f"{in_words(task.budget.seconds)} of wall clock, baseline and sealed test included"),
        ("trials", f"at most {task.budget.max_trials}" if task.budget.max_trials else "as many as the budget allows"),
        ("rows a trial", f"at most {task.sample_cap}" if task.sample_cap else "the planner decides"),
        ("asks you", "never" if task.approve == "never" else f"before each {task.approve}"),
        ("will fit", fits(task, [*islice(reports(runs), REPORTS)])),
        ("set up first", first_set_up(task.base_model, cache)),
    ]
    same = shlex.join(["python", "-m", "graph.run", *request.argv])
    return f"This is what I understood:\n\n{table(['', ''], rows)}\n\nThe same in a terminal: `{same}`"


def fits(task: Task, earlier: Sequence[RunReport]) -> str:
    """How many trials the budget has room for, from what trials of the same model cost here before."""
    like = [report for report in earlier if report.task.base_model == task.base_model and report.trials]
    if not like:
        return "not known before the baseline is measured: no run of this model has ended here yet"
    trial = median(each.seconds for report in like for each in report.trials)
    fixed = median(report.budget.spent_seconds - sum(each.seconds for each in report.trials) for report in like)
    room = max(0, int((task.budget.seconds - fixed) / max(trial, 1.0)))
    count = min(room, task.budget.max_trials or room)
    runs = "1 earlier run" if len(like) == 1 else f"{len(like)} earlier runs"
    return f"about {count} trials ({in_words(trial)} each, {in_words(fixed)} for the rest; from {runs} here)"


def first_set_up(base_model: str, cache: Path) -> str:
    """What has to be installed or fetched before the budget begins to run."""
    specs = environments.specs(environments.detect_hardware())
    missing = [spec for spec in specs.values() if environments.installed(spec, cache) is None]
    parts = [f"the {spec.name} environment ({spec.gigabytes:g} GB)" for spec in missing]
    if base_model == EMBEDDED_MODEL and not any((cache / "models").glob(f"{EMBEDDED_MODEL}-*/card.json")):
        parts.append("the embedded model (0.3 GB)")
    elif base_model != EMBEDDED_MODEL:
        parts.append(f"{base_model}, unless it was fetched before")
    return " and ".join(parts) + "; not part of the budget" if parts else "nothing: all is there"


def begun(task: Task) -> str:
    """A task in one line of Markdown."""
    return f"{plain(task.base_model)} on {plain(task.benchmark)}, {in_words(task.budget.seconds)}"
