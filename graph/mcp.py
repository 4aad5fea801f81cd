"""The front door for other people's agents: an MCP server on standard input and output, `python -m graph.mcp`.

One tool for each thing that a session can do, and nothing else: the work is `tools/arena/`. What takes longer than a
call should is started, and asked for with `job`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ParamSpec, TypeVar

from pydantic import Field

from graph.arena import Arena, Offer
from graph.options import Parser
from graph.run import guarded
from graph.values import EMBEDDED_MODEL, base_model, duration
from memory.errors import InputError, SetupError, TunewrightError
from memory.records import TrainingRecipe
from tools.arena.answers import (
    DatasetView,
    DataView,
    Feedback,
    Job,
    NewRow,
    OutcomePage,
    RowPage,
    SessionView,
    SystemInfo,
    TaskLine,
    TaskView,
)
from tools.arena.equipment import system_info
from tools.arena.jobs import Jobs
from tools.engines.environments import cache_folder, detect_hardware
from tools.own_task.task_file import read_task
from tools.raw_data.store import data_folder

if TYPE_CHECKING:
    from graph.workshop import Equip

P = ParamSpec("P")
R = TypeVar("R")
INSTRUCTIONS = """\
Fine-tune a language model on a task within a budget of wall clock, which runs from open_task on.
Look (list_tasks, open_task, profile_data, read_rows), make a data set (write_dataset, import_dataset, process_dataset),
then start_validation, start_training and start_evaluation; each gives a job, and `job` says what came of it. Learn
from read_feedback and read_outcomes, and go on. Evaluate the untouched model first: leave `training` out. The test is
sealed; start_final_test opens it once, where that is allowed, and ends the session.
"""
Offset = Annotated[int, Field(ge=0)]
Limit = Annotated[int, Field(ge=1, le=200)]


class Tools:
    """The tools. Their signatures are their schemas, their docstrings what a model reads of them."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self.jobs = Jobs()

    def list_tasks(self) -> list[TaskLine]:
        """All tasks that are offered here, with metric, sizes and licence. Costs no budget."""
        return list(self.arena.tasks())

    def open_task(self, task: str) -> TaskView:
        """Open a task, or look at it again: prompt, scorer, sizes, licence, budget. The budget's clock runs from the
        first time on. Fetches what is missing, which may take minutes the first time."""
        if self.jobs.busy and task != self.arena.session.benchmark.name:
            raise InputError("a job of the open task is at work", "Wait for its end: `job` says when.")
        return self.arena.open(task).view()

    def system_info(self) -> SystemInfo:
        """Processors, memory, disk, accelerator, and the versions of the engines."""
        return system_info(detect_hardware(), self.arena.offer.cache)

    def session_status(self) -> SessionView:
        """What is spent of the budget, and all data sets, trainings and evaluations of the open task."""
        return self.arena.session.status()

    def profile_data(self) -> DataView:
        """The training split in figures: rows, columns, lengths, answers, and the raw files it comes from."""
        return self.arena.session.datasets.profile()

    def read_rows(self, offset: Offset = 0, limit: Limit = 20) -> RowPage:
        """Rows of the training split, page by page."""
        return self.arena.session.datasets.page(offset, limit)

    def write_dataset(self, name: str, rows: list[NewRow]) -> DatasetView:
        """Make a data set of rows that you write: a prompt and the answer that the model shall learn. A name stands for
        one content."""
        return self.arena.session.datasets.write(name, rows)

    def import_dataset(self, name: str, file: str) -> DatasetView:
        """Make a data set of a JSONL file in the session's folder `incoming/`, each line {"prompt": ..., "answer":
        ...}; `file` is its name there."""
        return self.arena.session.datasets.bring(name, file)

    def process_dataset(self, name: str, code: str, function: str = "process", source: str = "train") -> DatasetView:
        """Make a data set by running a Python function over each row of `source`: `train`, or a data set. It gets a
        dict of id, prompt, answer and columns, and returns {"prompt": ..., "answer": ...}, a list of such, or None to
        drop the row. `code` is the whole file. It runs without network and files, with the standard library alone."""
        session = self.arena.session
        return session.datasets.process(name, source, code, function, session.clock.demand)

    def start_validation(self, dataset: str, recipe: TrainingRecipe) -> Job:
        """Check a data set and a recipe before paying for a training: rows, golds, held-out text, memory, lengths,
        template, time. Takes about a minute."""
        session = self.arena.session
        return self.jobs.start("validation", lambda say: session.validate(dataset, recipe, say))

    def start_training(self, dataset: str, recipe: TrainingRecipe) -> Job:
        """Train the base model on a data set, after validation; `continue_from` goes on from an earlier training by its
        number. batch_size and micro_batch are rows, sequence_len tokens. The same again is found, not repeated."""
        session = self.arena.session
        return self.jobs.start("training", lambda say: session.train(dataset, recipe, say))

    def start_evaluation(
        self, training: int | None = None, step: int | None = None, shots: Annotated[int, Field(ge=0, le=5)] = 0
    ) -> Job:
        """Score on validation: a training by its number, one of its snapshots by `step`, or the untouched model.
        `shots` shows so many training rows as examples. The same again is found, not repeated."""
        session = self.arena.session
        return self.jobs.start("evaluation", lambda say: session.evaluate(training, step, shots, say))

    def start_final_test(self, training: int, step: int | None = None) -> Job:
        """Open the sealed test for the untouched model and this training, where the person allows it: once, and the
        session ends. Costs no budget."""
        session = self.arena.session
        return self.jobs.start("final test", lambda say: session.final_test(training, step, say))

    def job(self, job: str, wait_seconds: Annotated[float, Field(ge=0, le=50)] = 20.0) -> Job:
        """Where a job stands, or what came of it; waits so many seconds for its end."""
        return self.jobs.look(job, wait_seconds)

    def read_outcomes(
        self, evaluation: str, offset: Offset = 0, limit: Limit = 20, only_wrong: bool = False
    ) -> OutcomePage:
        """Outputs of an evaluation, each with its score and the class of its error; golds of validation are not
        shown."""
        return self.arena.session.scores.page(evaluation, offset, limit, only_wrong)

    def read_feedback(self, evaluation: str) -> Feedback:
        """What an evaluation teaches: classes of errors, paired comparisons with the others, the training's curve."""
        return self.arena.session.scores.feedback(evaluation)

    @property
    def all(self) -> Sequence[Callable[..., object]]:
        """The table of tools."""
        return (
            self.list_tasks,
            self.open_task,
            self.system_info,
            self.session_status,
            self.profile_data,
            self.read_rows,
            self.write_dataset,
            self.import_dataset,
            self.process_dataset,
            self.start_validation,
            self.start_training,
            self.start_evaluation,
            self.start_final_test,
            self.job,
            self.read_outcomes,
            self.read_feedback,
        )


@contextmanager
def opened(arena: Arena) -> Iterator[Tools]:
    """The tools; whatever is at work ends with them."""
    tools = Tools(arena)
    try:
        yield tools
    finally:
        arena.close()
        tools.jobs.close()


def serve(arena: Arena) -> None:
    """Answer on standard input and output until the client leaves. Raises SetupError without the SDK."""
    try:
        from mcp.server.mcpserver import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
    except ImportError as error:
        raise SetupError("the MCP SDK is not installed", "Install the extra `mcp`: uv pip install '.[mcp]'") from error

    def told(tool: Callable[P, R]) -> Callable[P, R]:
        """What may be expected to fail reaches the agent as one line with the way out."""

        @wraps(tool)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return tool(*args, **kwargs)
            except TunewrightError as error:
                raise ToolError(str(error)) from error

        return called

    with opened(arena) as tools:
        server = MCPServer("tunewright", instructions=INSTRUCTIONS, log_level="WARNING")
        for tool in tools.all:
            server.add_tool(told(tool))
        server.run("stdio")


def offer_of(argv: Sequence[str]) -> Offer:
    """What the command line offers. Raises InputError."""
    made = Parser(prog="python -m graph.mcp", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    made.add_argument("tasks", nargs="*", help="benchmarks and task files (.toml) to offer; none offers all benchmarks")
    made.add_argument("--session-dir", default="sessions", metavar="DIR", help="default ./sessions; a folder a task")
    made.add_argument("--base-model", default=EMBEDDED_MODEL, metavar="MODEL", type=base_model)
    made.add_argument("--budget", default=1800.0, type=duration, metavar="30m", help="wall clock of each session")
    made.add_argument("--allow-test", action="store_true", help="the agent may open the sealed test, once a session")
    made.add_argument("--data-dir", metavar="DIR", help="raw data that you have already (TUNEWRIGHT_DATA)")
    given = made.parse_args(argv)
    files = [Path(name).expanduser().absolute() for name in given.tasks if name.endswith(".toml")]
    return Offer(
        root=Path(given.session_dir).expanduser().absolute(),
        cache=cache_folder(os.environ),
        names=tuple(name for name in given.tasks if not name.endswith(".toml")),
        own=tuple(read_task(file, 0) for file in files),
        base_model=given.base_model,
        budget_seconds=given.budget,
        allow_test=given.allow_test,
        data_dir=data_folder(given.data_dir or os.environ.get("TUNEWRIGHT_DATA")),
    )


def main(argv: Sequence[str] | None = None, equip: Equip | None = None) -> int:
    """Serve until the client leaves; the exit code. `equip` makes engines and model ready; None takes the real ones."""

    def work() -> int:
        from graph.workshop import workshop

        serve(Arena(offer_of(sys.argv[1:] if argv is None else argv), equip or workshop))
        return 0

    return guarded(work)


if __name__ == "__main__":
    sys.exit(main())
