"""What the command line can do: start, resume and fork a run, list runs and their checkpoints; each an exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

from graph import runner
from graph.approval import lines as lines_of_question
from graph.batch.work import batch
from graph.finished import resume_command, run_command
from graph.fork import fork
from graph.handing_over import export, reproduce
from graph.history import history, lines
from graph.live import columns, open_view, people, tell
from graph.message import needs_process, post
from graph.new_task import new_task
from graph.runs import all_runs, find, listing, new_run, past_events, summary
from graph.serving import ask, serve
from graph.settings import Action, Settings
from graph.workshop import Equip, Say, Workshop
from memory.errors import TunewrightError
from memory.events import Listener
from memory.layout import RunFolder, read_record
from memory.records import Question, Task
from tools.report import RunReport

FINISHED, NOT_IMPROVED, WAITING = 0, 3, 4


def start(settings: Settings, equip: Equip) -> int:
    """A new run."""
    task = settings.task()
    folder = new_run(settings.runs, task.benchmark)

    def drive(prepare: runner.Prepare, ears: Sequence[Listener]) -> runner.RunResult:
        return runner.start(task, folder, prepare, ears, settings.wait)

    return work(settings, equip, folder, task, drive)


def resume(settings: Settings, equip: Equip) -> int:
    """Go on with a run; a finished one shows its result again."""
    return go_on(settings, equip, find(settings.runs, settings.run))


def grow(settings: Settings, equip: Equip) -> int:
    """A new run from a checkpoint of another."""
    source = find(settings.runs, settings.run)
    task = read_record(source.task, Task)
    folder = new_run(settings.runs, task.benchmark)
    origin = fork(source, settings.checkpoint, settings.edits, folder)
    print(f"run {folder.id} grows from {origin.run}: {origin.happened}", file=people(settings.json_output), flush=True)
    return go_on(settings, equip, folder)


def go_on(settings: Settings, equip: Equip, folder: RunFolder) -> int:
    """Drive a run that exists to its end."""

    def drive(prepare: runner.Prepare, ears: Sequence[Listener]) -> runner.RunResult:
        return runner.resume(folder, prepare, ears, settings.wait)

    return work(settings, equip, folder, read_record(folder.task, Task), drive)


def answer(settings: Settings, equip: Equip) -> int:
    """Say something to a run: the process that holds it reads it; a run that nobody holds goes on with it here."""
    folder = find(settings.runs, settings.run)
    tell(people(settings.json_output), post(folder, settings.says))
    return go_on(settings, equip, folder) if needs_process(folder, settings.says) else FINISHED


def work(
    settings: Settings,
    equip: Equip,
    folder: RunFolder,
    task: Task,
    drive: Callable[[runner.Prepare, Sequence[Listener]], runner.RunResult],
) -> int:
    """Show a run while it works, and say at its end how it ended and how to go on."""
    out = people(settings.json_output)
    view = open_view(out, task.budget.seconds, plain=settings.plain, colour=settings.colour, past=past_events(folder))
    try:
        with view:
            view.say(f"run {folder.id}")
            result = drive(lambda task: prepared(task, settings, equip, view.say), (view,))
    except KeyboardInterrupt:
        print(f"stopped. {way_on(settings, folder)}", file=sys.stderr)
        raise
    except TunewrightError as error:
        print(f"tunewright: {error}", file=sys.stderr)
        if error.exit_code != 2:
            print(way_on(settings, folder), file=sys.stderr)
        return error.exit_code
    if result.question is not None:
        return ask_person(settings, folder, result.question)
    if settings.json_output:
        tell(sys.stdout, (folder.root / "report.json").read_text(encoding="utf-8").rstrip())
    for line in closing(folder):
        tell(out, line)
    return FINISHED if result.improved else NOT_IMPROVED


def ask_person(settings: Settings, folder: RunFolder, question: Question) -> int:
    """Show a question, and how to answer it."""
    if settings.json_output:
        tell(sys.stdout, question.model_dump_json(indent=2))
    out = people(settings.json_output)
    for line in ["", *lines_of_question(question), ""]:
        tell(out, line)
    tell(out, f"waiting for your answer: {run_command(settings, '--answer', folder.id, 'TEXT')}")
    return WAITING


def prepared(task: Task, settings: Settings, equip: Equip, say: Say) -> Workshop:
    """The workshop of a run, with the key that the environment holds."""
    return replace(equip(task, settings.cache, say), access=settings.access, cluster=settings.cluster)


def show_history(settings: Settings, equip: Equip) -> int:
    """The checkpoints of a run."""
    folder = find(settings.runs, settings.run)
    with runner.open_database(folder) as database:
        entries = history(runner.compiled(database), folder)
    show(settings, [entry.model_dump() for entry in entries], lines(entries))
    return FINISHED


def show_list(settings: Settings, equip: Equip) -> int:
    """The runs."""
    summaries = [summary(folder) for folder in all_runs(settings.runs)]
    show(settings, [one.model_dump() for one in summaries], listing(summaries))
    return FINISHED


def act(settings: Settings, equip: Equip) -> int:
    """Do what the settings say; the exit code."""
    return ACTIONS[settings.action](settings, equip)


ACTIONS: dict[Action, Callable[[Settings, Equip], int]] = {
    "start": start,
    "batch": lambda settings, _: batch(settings),
    "resume": resume,
    "fork": grow,
    "answer": answer,
    "history": show_history,
    "list": show_list,
    "new_task": new_task,
    "export": export,
    "reproduce": reproduce,
    "serve": serve,
    "ask": ask,
}


def show(settings: Settings, rows: Sequence[object], text: Sequence[str]) -> None:
    """A table for a person, or the same as a JSON array."""
    print(json.dumps(rows, indent=2) if settings.json_output else "\n".join(text), flush=True)


def way_on(settings: Settings, folder: RunFolder) -> str:
    """How to go on with a run."""
    if not folder.task.exists():
        return "Nothing had begun: start it again."
    return f"Go on with: {resume_command(settings, folder)}"


def closing(folder: RunFolder) -> list[str]:
    """The result for a person: the sealed test, the judgement, and where everything lies."""
    report = read_record(folder.root / "report.json", RunReport)
    test = report.test
    scores = {
        "base, zero-shot": test.zero_shot,
        f"base, {test.few_shot.shots}-shot": test.few_shot,
        "tuned": test.tuned,
    }
    rows = [("SEALED TEST", test.zero_shot.metric.upper(), "95 % INTERVAL", "N")]
    for name, score in scores.items():
        if score is not None:
            interval = f"[{score.ci_low:.3f}, {score.ci_high:.3f}]"
            rows.append((name, f"{score.value:.3f} ± {score.stderr:.3f}", interval, str(score.n)))
    if test.constant is not None:
        rows.append((f"always {test.constant.answer!r}", f"{test.constant.value:.3f}", "", str(test.constant.n)))
    where = [f"report: {folder.root / 'report.md'}"]
    if folder.model.exists():
        where += [f"model:  {folder.model}", f"serve:  {report.serve}"]
    return ["", *columns(rows), "", report.decision.says, *where]
