"""A session: one task, one base model, one budget, in a folder like a run's. Whatever was finished in it is found again
by content, also after a restart."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

from memory.errors import InputError, RunBusyError, StoppedError, TrialError
from memory.layout import RunFolder, locked, made, read_record, sha256_of, write_record
from memory.records import Check, LossPoint, Record, TrainingRecipe
from tools.arena.answers import Evaluation, FinalTest, Graded, SessionView, TaskView, Training, Validation
from tools.arena.clock import Clock
from tools.arena.datasets import Datasets
from tools.arena.equipment import Equipment
from tools.arena.scores import Scores
from tools.arena.trainings import Asked, Trainings
from tools.benchmarks.benchmark import Benchmark
from tools.benchmarks.splits import Manifest, write_splits
from tools.engines.contract import request_sha256
from tools.machine import free_memory
from tools.serving import Server
from tools.training.checks import Finding, data_findings, engine_findings, memory_finding, time_finding, verdict_of
from tools.training.engine import Preflight, kept_warm, preflight, train
from tools.warm_engine import WarmEngine

PREFLIGHT_SECONDS = 600.0
Say = Callable[[str], None]
"""Told where long work stands."""


def quiet(line: str) -> None:
    """Nobody listens."""


class Origin(Record):
    """What a session was opened for; it can be opened for nothing else."""

    task: str
    source: str
    base_model_sha256: str


class Session:
    """All that an agent can do with a task. Its methods block; `jobs.py` runs the long ones beside.

    As a context manager it closes its engines on the way out.
    """

    def __init__(
        self, folder: RunFolder, benchmark: Benchmark, kit: Equipment, budget_s: float, *, allow_test: bool = False
    ) -> None:
        """Open the session, new or not. Raises RunBusyError where another process has it open, InputError where the
        folder belongs to another task or model."""
        self.folder, self.benchmark, self.kit, self.allow_test = folder, benchmark, kit, allow_test
        self._closing = threading.Event()
        with ExitStack() as opened:
            opened.callback(os.close, _held(made(folder.root, 0o700)))
            self._belongs()
            self.splits: Manifest = write_splits(benchmark, folder.data, folder.sealed, kit.sizes, seed=0)
            self.datasets = Datasets(folder, benchmark, kit.store)
            self.trainings = Trainings(folder)
            window = benchmark.window
            self.server = Server(kit.vllm, kit.model, folder.server, device=kit.device, max_model_len=window)
            opened.callback(self.server.close)
            scorer = opened.enter_context(WarmEngine(kit.lighteval, folder.root / "scorer"))
            self.axolotl = kept_warm(kit.axolotl, folder.root / "axolotl", kit.device)
            if isinstance(self.axolotl, WarmEngine):
                opened.enter_context(self.axolotl)
            self.clock = Clock(folder.root / "clock.json", budget_s)
            opened.callback(self.clock.save)
            self.scores = Scores(folder, benchmark, self.splits, self.server, scorer, self.trainings, self._go_on)
            self._opened = opened.pop_all()

    # --- looking ----------------------------------------------------------------------------------------------------

    def view(self) -> TaskView:
        """The task, with a question of its training split and what the scorer makes of outputs to it."""
        benchmark, item = self.benchmark, self.datasets.items[0]
        others = (each.answer for each in self.datasets.items if each.answer != item.answer)
        outputs = {
            "the gold": item.answer,
            "another answer": next(others, "something else"),
            "chatter": f"The answer is {item.answer}.",
            "nothing": "",
        }
        graded = {kind: benchmark.grade(output, item) for kind, output in outputs.items()}
        return TaskView(
            name=benchmark.name,
            title=benchmark.title,
            source=benchmark.source,
            licence=benchmark.terms,
            metric=benchmark.metric,
            higher_is_better=benchmark.higher_is_better,
            closed_answers=benchmark.closed_answers,
            max_new_tokens=benchmark.max_new_tokens,
            samples=benchmark.samples,
            temperature=benchmark.temperature,
            base_model=self.kit.model.name,
            sizes={split: entry.items for split, entry in self.splits.splits.items()},
            example_prompt=item.prompt,
            example_answer=item.answer,
            scorer=tuple(
                Graded(kind=kind, output=outputs[kind], score=one.score, read_as=one.answer)
                for kind, one in graded.items()
            ),
            budget_seconds=self.clock.budget_s,
            seconds_left=round(self.clock.left, 1),
            final_test_allowed=self.allow_test,
        )

    def status(self) -> SessionView:
        """What is spent, and what there is."""
        self.clock.save()
        return SessionView(
            task=self.benchmark.name,
            budget_seconds=self.clock.budget_s,
            spent_seconds=round(self.clock.spent, 1),
            datasets=self.datasets.names,
            trainings=self.trainings.all(),
            evaluations=self.scores.all(),
            final_test=self.scores.tested(),
        )

    # --- long work --------------------------------------------------------------------------------------------------

    def validate(self, dataset: str, recipe: TrainingRecipe, say: Say = quiet) -> Validation:
        """Check data set and recipe, cheap checks first, as a run's validator does. Raises InputError for DPO and GRPO,
        whose rows an agent cannot write, and what the engines raise."""
        if recipe.objective != "sft":
            raise InputError(f"a session trains on answers as written, not towards {recipe.objective}", "Leave it sft.")
        self._demand()
        path, done = self.datasets.path(dataset), list[Check]()
        measured: Preflight | None = None
        failure: TrialError | None = None
        try:
            self._look_through(done, data_findings(path, recipe, self.benchmark, self.folder.data), say)
            kit = self.kit
            memory = memory_finding(recipe, kit.model, path, self.benchmark, kit.device, free_memory(kit.device))
            self._look_through(done, [memory], say)
            measured = self._preflight(path, recipe, say)
            say("comparing the chat template with the server's")
            self._look_through(done, engine_findings(measured, recipe, path, self.server.tokenize), say)
            self._look_through(done, [time_finding(measured, self.clock.left)], say)
        except TrialError as error:
            if error.kind == "ENV":
                raise
            failure = error
            if all(check.passed for check in done):  # it was the engine that refused
                done.append(Check(name="engine", figure=0, unit="", passed=False, says=error.message))
        verdict = verdict_of(done, recipe, measured, self.kit.model, self.kit.device)
        return Validation(
            dataset=dataset,
            passed=failure is None,
            checks=verdict.checks,
            kind=failure.kind if failure else None,
            way_out=failure.way_out if failure else "",
            predicted_seconds=verdict.predicted_seconds,
            memory_bytes=verdict.memory_bytes,
            tokens=verdict.tokens,
        )

    def train(self, dataset: str, recipe: TrainingRecipe, say: Say = quiet) -> Training:
        """Train, after validation; the same data and recipe are trained once. Raises TrialError where validation or the
        training fails."""
        path = self.datasets.path(dataset)
        asked = Asked(dataset=dataset, dataset_sha256=sha256_of(path), recipe=recipe)
        number = self.trainings.number(asked)
        if number is not None and self.trainings.finished(number):
            return self.trainings.told(number)
        checked = self.validate(dataset, recipe, say)
        if not checked.passed:
            last = checked.checks[-1]
            raise TrialError(checked.kind or "DATA", f"validation failed: {last.name}: {last.says}", checked.way_out)
        number = self.trainings.begin(asked, path)

        def on_loss(point: LossPoint, total: int) -> None:
            self._go_on()
            if self.clock.left <= 0:
                raise TrialError("BUDGET", f"the budget ended at step {point.step} of {total}", "Train less.")
            say(f"training {number}: step {point.step} of {total}, loss {point.loss:.4f}")

        self.server.sleep()
        run = train(
            self.axolotl,
            recipe,
            self.kit.model,
            self.trainings.data(number),
            self.folder.trial(number) / "train",
            device=self.kit.device,
            deadline_s=self._demand(),
            start=self.trainings.start(recipe),
            on_loss=on_loss,
            on_ladder=lambda step: say(f"out of memory: {step}"),
        )
        self.trainings.finish(number, run)
        self.clock.save()
        return self.trainings.told(number)

    def evaluate(self, training: int | None, step: int | None = None, shots: int = 0, say: Say = quiet) -> Evaluation:
        """Score a training, a snapshot of it, or for None the untouched model, on validation; the same is scored once.
        Raises InputError for what is not there, ServerError and EngineError where the evaluation is void."""
        return self.scores.known(training, step, shots) or self.scores.evaluate(
            training, step, shots, self._demand(), say
        )

    def final_test(self, training: int, step: int | None = None, say: Say = quiet) -> FinalTest:
        """Open the sealed test for the untouched model and one training, once; with it the session ends. It costs no
        budget. Raises InputError where the person has not allowed it, or it was opened for another training."""
        if not self.allow_test:
            raise InputError("the final test is closed", "Who starts the server opens it with --allow-test.")
        return self.scores.final_test(training, step, say)

    def close(self) -> None:
        """End the engines and whatever they are at; may be called again."""
        self._closing.set()
        self._opened.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- inner life -------------------------------------------------------------------------------------------------

    def _belongs(self) -> None:
        path = self.folder.root / "session.json"
        mine = Origin(task=self.benchmark.name, source=self.benchmark.source, base_model_sha256=self.kit.model.sha256)
        if path.exists() and read_record(path, Origin) != mine:
            raise InputError(f"{self.folder.root} was opened for another task or model", "Use another folder.")
        write_record(path, mine)

    def _demand(self) -> float:
        """The seconds that are left. Raises InputError where there are none, or the test was opened."""
        if self.scores.tested() is not None:
            raise InputError("the final test was opened: the session has ended", "Open another session.")
        return self.clock.demand()

    def _go_on(self) -> None:
        if self._closing.is_set():
            raise StoppedError("the session is being closed", "Open it again: what was finished is found.")

    def _look_through(self, done: list[Check], findings: Iterable[Finding], say: Say) -> None:
        for found in findings:
            self._go_on()
            done.append(found.check)
            say(f"{'ok' if found.check.passed else 'FAILED'} {found.check.name}: {found.check.says}")
            if not found.check.passed:
                raise found.error

    def _preflight(self, path: Path, recipe: TrainingRecipe, say: Say) -> Preflight:
        say("Axolotl tokenises the rows and times a few steps")
        asked = Asked(dataset="", dataset_sha256=sha256_of(path), recipe=recipe)
        self.server.sleep()
        return preflight(
            self.axolotl,
            recipe,
            self.kit.model,
            path,
            made(self.folder.root / "checks" / request_sha256(asked)[:16]),
            device=self.kit.device,
            start=self.trainings.start(recipe),
            timeout_s=min(self.clock.demand(), PREFLIGHT_SECONDS),
        )


def _held(folder: Path) -> int:
    """The folder's lock, which goes with the process. Raises RunBusyError where another one has it."""
    descriptor = os.open(folder / "session.lock", os.O_RDWR | os.O_CREAT, 0o600)
    if not locked(descriptor):
        os.close(descriptor)
        raise RunBusyError(f"another process has {folder} open", "Use another folder, or end that one.")
    return descriptor
