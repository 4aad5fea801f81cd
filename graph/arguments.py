"""What a person may say on the command line, and how it becomes the settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from graph.options import EVERYWHERE, OPTIONS, TABLE, parser
from graph.planning import Access, access_of, planning_of
from graph.settings import (
    DEFAULT_BUDGET_SECONDS,
    GUARD_MARGIN,
    SMALLEST_BUDGET_SECONDS,
    Action,
    Settings,
)
from graph.values import EMBEDDED_MODEL, base_model, dataset, in_words, near
from memory.errors import InputError
from memory.records import Budget, Planning
from tools import benchmarks
from tools.engines.environments import cache_folder
from tools.raw_data.store import data_folder


def parse(argv: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Read the command line; `environment` is the front door's. Raises InputError with one clear line.

    Of the environment count NO_COLOR, CI, TUNEWRIGHT_DATA, OPENAI_API_KEY, OPENAI_BASE_URL, and what says where the
    cache lies.
    """
    given = _given(argv)
    action = _action(given)
    access = access_of(environment) if action in ("start", "resume", "fork") else Access()
    runs, run, checkpoint = _run(given, action)
    settings = Settings(
        action=action,
        runs=runs,
        run=run,
        checkpoint=checkpoint,
        edits=tuple(given.get("edits", ())),
        benchmark=given.get("benchmark", ""),
        task_file=_path(given.get("task")),
        guards=given.get("guard", ()),
        guard_margin=given.get("guard_margin", GUARD_MARGIN),
        base_model=base_model(given.get("base_model", EMBEDDED_MODEL)),
        description=given.get("description", ""),
        datasets=tuple(dataset(path) for path in given.get("dataset", ())),
        budget=Budget(seconds=_budget(given), max_trials=given.get("max_trials")),
        sample_cap=given.get("sample_cap"),
        seed=given.get("seed", 0),
        approve=given.get("approve", "never"),
        wait=given.get("wait", 0.0),
        planning=planning_of(given, access) if action == "start" else Planning(),
        allow_weak_sandbox=given.get("allow_weak_sandbox", False),
        access=access,
        data_dir=data_folder(given.get("data_dir") or environment.get("TUNEWRIGHT_DATA")),
        new_task=_path(given.get("new_task")),
        export_format=given.get("format", "merged"),
        destination=_path(given.get("to")),
        question=given["ask"][1] if action == "ask" else "",
        says=given["answer"][1] if action == "answer" else "",
        port=given.get("port", 8000),
        json_output=given.get("json", False),
        plain=given.get("plain", False) or bool(environment.get("CI")),
        colour=not environment.get("NO_COLOR"),
        cache=cache_folder(environment),
    )
    if action == "start":
        settings.task()
    return settings


def _given(argv: Sequence[str]) -> dict[str, Any]:
    """Only the options that were written, by destination."""
    made = parser()
    known, unknown = made.parse_known_args(argv)
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
        raise InputError(f"{_option(asked[0])} and {_option(asked[1])} exclude each other", "Give one of them.")
    action: Action = asked[0] if asked else "start"
    for stray in sorted(given.keys() - OPTIONS[action] - EVERYWHERE):
        raise _stray(stray, action)
    if action == "start" and {"benchmark", "task"} <= given.keys():
        raise InputError("--benchmark and --task exclude each other", "Give one of them.")
    if action == "start" and not {"benchmark", "task"} & given.keys():
        known = ", ".join(benchmarks.BENCHMARKS)
        raise InputError("no benchmark is named", f"Give --task FILE.toml, or --benchmark NAME, one of: {known}.")
    return action


def _stray(stray: str, action: Action) -> InputError:
    """Why an option cannot stand beside an action."""
    fork = "--fork RUN@CHECKPOINT --set key=value"
    owner = next(name for name, options in OPTIONS.items() if stray in options)
    if owner == "fork":
        return InputError("--set has a meaning only with --fork", f"Write {fork}.")
    if owner != "start":
        return InputError(f"{_option(stray)} has a meaning only with {_option(owner)}", f"Give {_option(owner)}, too.")
    keeps = action in ("resume", "history", "fork", "answer")
    way_out = f"A run keeps its task; to change it, write {fork}." if keeps else "Give one of them."
    return InputError(f"{_option(stray)} and {_option(action)} exclude each other", way_out)


def _option(name: str) -> str:
    """A name of the settings as a person writes it."""
    return "--benchmark-description" if name == "description" else "--" + name.replace("_", "-")


def _run(given: Mapping[str, Any], action: Action) -> tuple[Path, str, str]:
    """The folder of runs, the run that is meant and, for a fork, the checkpoint. Raises InputError."""
    runs = Path(given.get("run_dir", "runs")).expanduser().absolute()
    run, checkpoint = "", ""
    if action == "fork":
        run, at, checkpoint = given["fork"].rpartition("@")
        if not at or not run or not checkpoint:
            raise InputError(
                f"--fork {given['fork']} names no checkpoint", "Write RUN@CHECKPOINT; --history RUN lists checkpoints."
            )
    elif action in ("ask", "answer"):
        run = given[action][0]
    elif action not in ("start", "list", "new_task"):
        run = given[action]
    if "/" in run and "run_dir" not in given:
        place = Path(run).expanduser().absolute()
        runs, run = place.parent, place.name
    return runs, run, checkpoint


def _path(name: str | None) -> Path | None:
    """An absolute path; None stays None."""
    return None if name is None else Path(name).expanduser().absolute()


def _budget(given: Mapping[str, Any]) -> float:
    """The budget of a new run in seconds. Raises InputError where it is too small for a single trial."""
    seconds = float(given.get("budget", DEFAULT_BUDGET_SECONDS))
    if seconds < SMALLEST_BUDGET_SECONDS:
        raise InputError(
            f"a budget of {in_words(seconds)} is too small for one trial",
            f"Baseline, trial and sealed test need {in_words(SMALLEST_BUDGET_SECONDS)} at least; try --budget 15m.",
        )
    return seconds
