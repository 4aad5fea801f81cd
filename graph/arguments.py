"""What a person may say on the command line, and the frozen `Settings` that it becomes."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn

from graph.edits import Edit, edit
from graph.values import EMBEDDED_MODEL, base_model, dataset, duration, in_words, near, positive, whole
from memory.errors import InputError
from memory.records import Budget, Record, Task, TrainingRecipe
from tools import benchmarks
from tools.engines.environments import cache_folder

Action = Literal["start", "resume", "history", "fork", "list"]
SMALLEST_BUDGET_SECONDS = 240.0
"""Server start, baseline, one short trial and the sealed test of the embedded model on two cores; less is a typo."""
DEFAULT_BUDGET_SECONDS = 1800.0
"""Half an hour: three trials of the embedded model on two cores, baseline and sealed test included."""

OPTIONS: dict[Action, frozenset[str]] = {
    "start": frozenset(
        {"benchmark", "base_model", "budget", "max_trials", "sample_cap", "seed", "dataset", "description"}
    ),
    "resume": frozenset({"resume"}),
    "history": frozenset({"history"}),
    "fork": frozenset({"fork", "edits"}),
    "list": frozenset({"list"}),
}
"""Which options go with which action; `run_dir`, `json` and `plain` go with all."""
EVERYWHERE = frozenset({"run_dir", "json", "plain"})

EPILOG = """\
durations: 90s, 30m, 2h, 1h30m

what --set changes in a fork (repeat it for several):
  budget=1h max_trials=5 sample_cap=200           the task, until the planner has stopped
  seed=1                                          the task, at the first checkpoint: it draws the splits
  plan.rows=200 plan.balance=answer               the pending trial, where data_engineer comes next
  plan.learning_rate=0.003 plan.epochs=2 ...      the pending trial, where data_engineer or validator comes next;
  the fields of plan are rows, balance and
{fields}

exit codes: 0 finished, 1 failed, 2 bad input, 3 finished but nothing improved, 130 stopped
"""

TABLE: dict[str, dict[str, dict[str, Any]]] = {
    "a new run": {
        "--benchmark": {"metavar": "NAME", "help": "what to become better at"},
        "--base-model": {"metavar": "MODEL", "help": f"{EMBEDDED_MODEL} (default), a folder, or a hub id"},
        "--budget --timeout": {"metavar": "30m", "type": duration, "help": "wall clock of the whole run (default 30m)"},
        "--max-trials --loop-n": {"metavar": "N", "type": positive, "help": "at most N trials, failed ones included"},
        "--sample-cap --upper-data-size-limit": {
            "metavar": "N",
            "type": positive,
            "help": "at most N training rows per trial",
        },
        "--seed": {"metavar": "N", "type": whole, "help": "default 0"},
        "--dataset": {"metavar": "PATH", "nargs": "+", "action": "extend", "help": "more training rows: JSONL files"},
        "--benchmark-description": {"dest": "description", "metavar": "TEXT", "help": "the task, in your words"},
    },
    "runs that exist (RUN: an id, the start of one, or a folder)": {
        "--resume": {"metavar": "RUN", "help": "go on where the run stopped"},
        "--history": {"metavar": "RUN", "help": "list its checkpoints and what happened at each"},
        "--fork": {"metavar": "RUN@CHECKPOINT", "help": "grow a new run from a checkpoint"},
        "--set": {
            "dest": "edits",
            "metavar": "KEY=VALUE",
            "type": edit,
            "action": "append",
            "help": "of a fork; below",
        },
        "--list": {"action": "store_true", "help": "list the runs"},
    },
    "always": {
        "--run-dir": {"metavar": "DIR", "help": "the folder that holds the runs (default ./runs)"},
        "--json": {"action": "store_true", "help": "the result as JSON on standard output"},
        "--plain": {"action": "store_true", "help": "plain lines instead of the live view"},
    },
}
"""The options in groups: names (the first is ours, the others are aliases) and what argparse needs to know."""


class Settings(Record):
    """All that a person asked for. Nothing below the front door reads the environment: what it needs lies here."""

    action: Action
    runs: Path
    """Absolute folder that holds the runs."""
    run: str = ""
    """Of `resume`, `history` and `fork`: the run's id, or enough of it."""
    checkpoint: str = ""
    """Of `fork`: a prefix of the checkpoint's id."""
    edits: tuple[Edit, ...] = ()
    benchmark: str = ""
    """Of `start`. A run that exists takes this and the next six from its own task."""
    base_model: str = EMBEDDED_MODEL
    description: str = ""
    datasets: tuple[str, ...] = ()
    """Absolute paths of JSONL files."""
    budget: Budget = Budget(seconds=DEFAULT_BUDGET_SECONDS)
    sample_cap: int | None = None
    seed: int = 0
    json_output: bool = False
    """Standard output is for a program; lines for people go to standard error."""
    plain: bool = False
    """No live view."""
    colour: bool = True
    cache: Path
    """Absolute folder of engine environments and base models, shared by all runs."""

    def task(self) -> Task:
        """The task of a new run. Raises InputError for an unknown benchmark."""
        benchmark = benchmarks.get(self.benchmark)
        return Task(
            base_model=self.base_model,
            benchmark=benchmark.name,
            description=self.description,
            raw_data=self.datasets,
            metric=benchmark.metric,
            higher_is_better=benchmark.higher_is_better,
            sample_cap=self.sample_cap,
            budget=self.budget,
            seed=self.seed,
        )


def parse(argv: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Read the command line; `environment` is the front door's. Raises InputError with one clear line.

    Of the environment count NO_COLOR, CI, and what says where the cache lies.
    """
    given = _given(argv)
    action = _action(given)
    runs = Path(given.get("run_dir", "runs")).expanduser().absolute()
    run, checkpoint = "", ""
    if action == "fork":
        run, at, checkpoint = given["fork"].rpartition("@")
        if not at or not run or not checkpoint:
            raise InputError(
                f"--fork {given['fork']} names no checkpoint", "Write RUN@CHECKPOINT; --history RUN lists checkpoints."
            )
    elif action in ("resume", "history"):
        run = given[action]
    if "/" in run and "run_dir" not in given:
        place = Path(run).expanduser().absolute()
        runs, run = place.parent, place.name
    settings = Settings(
        action=action,
        runs=runs,
        run=run,
        checkpoint=checkpoint,
        edits=tuple(given.get("edits", ())),
        benchmark=given.get("benchmark", ""),
        base_model=base_model(given.get("base_model", EMBEDDED_MODEL)),
        description=given.get("description", ""),
        datasets=tuple(dataset(path) for path in given.get("dataset", ())),
        budget=Budget(seconds=_budget(given), max_trials=given.get("max_trials")),
        sample_cap=given.get("sample_cap"),
        seed=given.get("seed", 0),
        json_output=given.get("json", False),
        plain=given.get("plain", False) or bool(environment.get("CI")),
        colour=not environment.get("NO_COLOR"),
        cache=cache_folder(environment),
    )
    if action == "start":
        settings.task()
    return settings


# --- the parser ---------------------------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    """Turns argparse's usage-and-exit into one clear line."""

    def error(self, message: str) -> NoReturn:
        raise InputError(message.removeprefix("argument "), "--help lists the options.")


class _Once(argparse.Action):
    """An option under several names: given twice with different values it contradicts itself."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        before = getattr(namespace, self.dest, values)
        if before != values:
            raise InputError(f"{' / '.join(self.option_strings)} is given twice and differs", "Give it once.")
        setattr(namespace, self.dest, values)


def _parser() -> _Parser:
    parser = _Parser(
        prog="python -m graph.run",
        description="Fine-tune a language model for a benchmark, trial after trial, within a budget.",
        epilog=EPILOG.format(fields=_fields()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    for title, options in TABLE.items():
        group = parser.add_argument_group(title)
        for names, details in options.items():
            group.add_argument(*names.split(), **({"action": _Once} | details))
    return parser


def _fields() -> str:
    """The fields of a training recipe, wrapped for the help."""
    return textwrap.fill(", ".join(TrainingRecipe.model_fields), 110, initial_indent="  ", subsequent_indent="  ")


def _given(argv: Sequence[str]) -> dict[str, Any]:
    """Only the options that were written, by destination."""
    parser = _parser()
    known, unknown = parser.parse_known_args(argv)
    if unknown:
        word = unknown[0].partition("=")[0]
        options = " ".join(name for group in TABLE.values() for name in group).split()
        kind = "option" if word.startswith("-") else "word"
        raise InputError(f"unknown {kind} {word}", near(word, options, "--help lists the options."))
    return vars(known)


def _action(given: Mapping[str, object]) -> Action:
    """The one thing to do. Raises InputError where options contradict each other."""
    asked: list[Action] = [name for name in OPTIONS if name in given]
    if len(asked) > 1:
        raise InputError(f"--{asked[0]} and --{asked[1]} exclude each other", "Give one of them.")
    action: Action = asked[0] if asked else "start"
    fork = "--fork RUN@CHECKPOINT --set key=value"
    for stray in sorted(given.keys() - OPTIONS[action] - EVERYWHERE):
        if stray == "edits":
            raise InputError("--set has a meaning only with --fork", f"Write {fork}.")
        option = "--benchmark-description" if stray == "description" else "--" + stray.replace("_", "-")
        raise InputError(
            f"{option} and --{action} exclude each other",
            "Give one of them." if action == "list" else f"A run keeps its task; to change it, write {fork}.",
        )
    if action == "start" and "benchmark" not in given:
        raise InputError("no benchmark is named", f"Give --benchmark NAME, one of: {', '.join(benchmarks.BENCHMARKS)}.")
    return action


def _budget(given: Mapping[str, Any]) -> float:
    """The budget of a new run in seconds. Raises InputError where it is too small for a single trial."""
    seconds = float(given.get("budget", DEFAULT_BUDGET_SECONDS))
    if seconds < SMALLEST_BUDGET_SECONDS:
        raise InputError(
            f"a budget of {in_words(seconds)} is too small for one trial",
            f"Baseline, trial and sealed test need {in_words(SMALLEST_BUDGET_SECONDS)} at least; try --budget 15m.",
        )
    return seconds
