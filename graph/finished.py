"""A finished run: its report and its winner, read without its database, so that a run at work is never disturbed."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from graph.live import people, tell
from graph.runner import open_database
from graph.runs import find
from graph.settings import Settings
from memory.errors import InputError
from memory.layout import RunFolder, read_record
from memory.records import BaseModelCard, Trial
from tools.report import RunReport


@dataclass(frozen=True)
class Finished:
    """A run with a tuned model."""

    folder: RunFolder
    report: RunReport
    winner: Trial


def finished(settings: Settings) -> Finished:
    """The run that the settings name, which has to be finished, with its winner.

    Raises InputError where there is no such run, where it has not finished (with the command that goes on), or where
    nothing was accepted; RunBusyError where another process is at work on it; StorageError.
    """
    folder = find(settings.runs, settings.run)
    path = folder.root / "report.json"
    if not path.exists():
        with open_database(folder):  # raises where another process holds the run
            raise InputError(f"run {folder.id} has not finished", f"Go on with: {resume_command(settings, folder)}")
    report = read_record(path, RunReport)
    winner = report.winner
    if winner is None or winner.training is None:
        raise InputError(
            f"run {folder.id} has no tuned model: {report.decision.says}",
            "Start a run with a larger --budget, or fork this one with another plan.",
        )
    return Finished(folder, report, winner)


def resume_command(settings: Settings, folder: RunFolder) -> str:
    """The exact command that goes on with a run."""
    cluster = ("--cluster", settings.cluster) if settings.cluster else ()
    return run_command(settings, "--resume", folder.id, *cluster)


def run_command(settings: Settings, *words: str) -> str:
    """The exact command that does something with a run in the same folder of runs."""
    argv = ["python", "-m", "graph.run", *words]
    if settings.runs != Path("runs").absolute():
        argv += ["--run-dir", str(settings.runs)]
    return shlex.join(argv)


def check_base(run: Finished, model: BaseModelCard) -> None:
    """Raises InputError where the base model is no longer the one that the run tuned."""
    if model.sha256 != run.report.baseline.model.sha256:
        raise InputError(
            f"the weights of {model.name} have changed since run {run.folder.id} tuned them",
            "Put the old weights back; their hash stands in the model card.",
        )


def teller(settings: Settings) -> Callable[[str], None]:
    """Says lines to people: on standard output, unless a program reads that."""
    out = people(settings.json_output)
    return lambda line: tell(out, line)
