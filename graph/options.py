"""The options of the command line as a table, and the parser made of it."""

from __future__ import annotations

import argparse
import textwrap
from typing import Any, NoReturn, get_args

from graph.edits import edit
from graph.planning import DEFAULT_SEARCH, price
from graph.settings import GUARD_MARGIN, Action
from graph.values import EMBEDDED_MODEL, dollars, duration, names, port, positive, share, whole
from graph.wishes import CAN_BE_SAID
from memory.errors import InputError
from memory.records import Approval, Planner, Strategy, TrainingRecipe
from tools.handover.export_check import Form

OPTIONS: dict[Action, frozenset[str]] = {
    "start": frozenset(
        {"benchmark", "task", "base_model", "budget", "max_trials", "sample_cap", "seed", "dataset", "description"}
        | {"guard", "guard_margin", "data_dir", "approve", "wait"}
        | {"planner", "search", "no_recall", "planner_model", "strong_model", "weak_model", "budget_usd", "price"}
        | {"allow_weak_sandbox", "research"}
    ),
    "new_task": frozenset({"new_task"}),
    "resume": frozenset({"resume", "wait"}),
    "history": frozenset({"history"}),
    "fork": frozenset({"fork", "edits", "wait"}),
    "answer": frozenset({"answer", "wait"}),
    "list": frozenset({"list"}),
    "export": frozenset({"export", "format", "to"}),
    "reproduce": frozenset({"reproduce"}),
    "serve": frozenset({"serve", "port"}),
    "ask": frozenset({"ask"}),
}
"""Which options go with which action; `run_dir`, `json` and `plain` go with all."""
EVERYWHERE = frozenset({"run_dir", "json", "plain"})

EPILOG = """\
durations: 90s, 30m, 2h, 1h30m

what --set changes in a fork (repeat it for several):
  budget=1h max_trials=5 sample_cap=200           the task, until the planner has stopped
  approve=never                                   the same: where it waits for you
  search=mcts                                     the same: how search chooses the trial to grow from
  seed=1                                          the task, at the first checkpoint: it draws the splits
  plan.rows=200 plan.balance=answer               the pending trial, where data_engineer comes next
  plan.learning_rate=0.003 plan.epochs=2 ...      the pending trial, where data_engineer or validator comes next;
  the fields of plan are rows, balance and
{fields}

what --answer says to a run, at work or not:
{sentences}

exit codes: 0 finished, 1 failed, 2 bad input, 3 finished but nothing improved (or --reproduce made
other weights), 4 waiting for your answer, 130 stopped
"""

TABLE: dict[str, dict[str, dict[str, Any]]] = {
    "a new run": {
        "--benchmark": {"metavar": "NAME", "help": "what to become better at"},
        "--task": {"metavar": "FILE.toml", "help": "your own data and metric; --new-task writes one"},
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
        "--data-dir": {"metavar": "DIR", "help": "raw data of benchmarks that you have already (TUNEWRIGHT_DATA)"},
        "--benchmark-description": {"dest": "description", "metavar": "TEXT", "help": "the task, in your words"},
        "--guard": {"metavar": "NAME[,NAME]", "type": names, "help": "benchmarks that must not become worse"},
        "--guard-margin": {
            "metavar": "SHARE",
            "type": share,
            "help": f"what a guard may lose of the metric (default {GUARD_MARGIN:g})",
        },
        "--approve": {"choices": get_args(Approval), "help": "ask you before each plan, data set or training"},
        "--new-task": {"metavar": "DATA", "help": "look at a data file, and write a task file for it"},
    },
    "who plans a new run (OPENAI_API_KEY and OPENAI_BASE_URL say where language models are)": {
        "--planner": {"choices": get_args(Planner), "help": "llm where a model or a key is given, else search"},
        "--search": {
            "choices": get_args(Strategy),
            "help": f"grow from the best trial, the most promising one, or by tree search (default {DEFAULT_SEARCH})",
        },
        "--no-recall": {"action": "store_true", "help": "learn nothing from earlier runs in the folder"},
        "--planner-model": {"metavar": "NAME", "help": "the model that plans; local is the one that is tuned"},
        "--strong-model": {"metavar": "NAME", "help": "asked where a proposal of it is of no use; writes rows"},
        "--weak-model": {"metavar": "NAME", "help": "reads wrong outputs and says what they share; judges rows"},
        "--research": {
            "action": "store_true",
            "help": "it may look up data sets, models and papers in public catalogues first",
        },
        "--budget-usd": {"metavar": "N", "type": dollars, "help": "hard cap on what all their calls may cost"},
        "--price": {
            "metavar": "MODEL=IN/OUT",
            "type": price,
            "action": "append",
            "help": "dollars for a million tokens, where a model's price is not known",
        },
        "--allow-weak-sandbox": {
            "action": "store_true",
            "help": "run code that it writes for data steps also without bubblewrap: it could read your files",
        },
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
        "--answer": {"metavar": ("RUN", "TEXT"), "nargs": 2, "help": "say something to a run; below"},
        "--wait": {"metavar": "10m", "type": duration, "help": "a question waits so long with engines warm"},
    },
    "the tuned model of a finished run": {
        "--ask": {"metavar": ("RUN", "QUESTION"), "nargs": 2, "help": "answers of base and tuned model"},
        "--serve": {"metavar": "RUN", "help": "an OpenAI-compatible endpoint on this machine, until Ctrl-C"},
        "--port": {"metavar": "N", "type": port, "help": "of --serve (default 8000)"},
        "--export": {"metavar": "RUN", "help": "write the model to a folder, loaded and checked"},
        "--format": {"choices": get_args(Form), "help": "of --export (default merged)"},
        "--to": {"metavar": "DIR", "help": "of --export (default RUN/export/FORMAT)"},
        "--reproduce": {"metavar": "RUN", "help": "train the winning trial again, and compare the weights"},
    },
    "always": {
        "--run-dir": {"metavar": "DIR", "help": "the folder that holds the runs (default ./runs)"},
        "--json": {"action": "store_true", "help": "the result as JSON on standard output"},
        "--plain": {"action": "store_true", "help": "plain lines instead of the live view"},
    },
}
"""The options in groups: names (the first is ours, the others are aliases) and what argparse needs to know."""


class Parser(argparse.ArgumentParser):
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


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line; only options that were written come out of it."""
    made = Parser(
        prog="python -m graph.run",
        description="Fine-tune a language model for a benchmark, trial after trial, within a budget.",
        epilog=EPILOG.format(fields=_fields(), sentences=_sentences()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    for title, options in TABLE.items():
        group = made.add_argument_group(title)
        for spelling, details in options.items():
            group.add_argument(*spelling.split(), **({"action": _Once} | details))
    return made


def _sentences() -> str:
    """What can be said, a line each."""
    return "\n".join(f"  {line}" for line in CAN_BE_SAID)


def _fields() -> str:
    """The fields of a training recipe, wrapped for the help."""
    return textwrap.fill(", ".join(TrainingRecipe.model_fields), 110, initial_indent="  ", subsequent_indent="  ")
