"""Scores of a session on validation, what they teach, and the sealed test, which is opened once and shows no item."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

from memory.errors import InputError, ServerError
from memory.layout import RunFolder, made, read_record, read_rows, write_record
from memory.records import Comparison, LossPoint, Outcome, Record, Score
from tools.arena.answers import Evaluation, Feedback, Figures, FinalTest, ItemOutcome, OutcomePage
from tools.arena.trainings import Trainings
from tools.benchmarks.benchmark import Benchmark, Item, Split
from tools.benchmarks.splits import Manifest, read_items, split_path, verify
from tools.estimates import compared_files, written
from tools.judgement import better, classify_errors, error_class
from tools.lengths import shots_that_fit
from tools.scoring import Evaluation as Wanted
from tools.scoring import evaluate
from tools.serving import Server
from tools.warm_engine import WarmEngine

MOST_SHOTS = 5
"""Worked examples in a prompt: the first rows of the training split."""
LONGEST_PAGE = 200
CURVE_POINTS = 60
TEST_SECONDS = 6 * 3600.0
"""A limit for what hangs; the final test has no budget."""


class Kept(Record):
    """An evaluation on disk."""

    evaluation: Evaluation
    score: Score


class Opened(Record):
    """For what the test was opened; written before it is."""

    training: int
    step: int | None


class Scores:
    """`evaluations/ID/` holds the outcomes and `kept.json`; `test/` the same of the sealed test."""

    def __init__(
        self,
        folder: RunFolder,
        benchmark: Benchmark,
        splits: Manifest,
        server: Server,
        scorer: WarmEngine,
        trainings: Trainings,
        go_on: Callable[[], None],
    ) -> None:
        """`go_on` is called on the way, and raises where the work is to end."""
        self.folder, self.benchmark, self.splits = folder, benchmark, splits
        self.server, self.scorer, self.trainings, self.go_on = server, scorer, trainings, go_on

    def all(self) -> tuple[Evaluation, ...]:
        """Those on validation, oldest first."""
        paths = sorted(self.folder.root.glob("evaluations/*/kept.json"), key=lambda path: path.stat().st_mtime_ns)
        return tuple(read_record(path, Kept).evaluation for path in paths)

    def known(self, training: int | None, step: int | None, shots: int) -> Evaluation | None:
        """An evaluation that was made before."""
        path = self._place(_id(training, step, shots)) / "kept.json"
        return read_record(path, Kept).evaluation if path.exists() else None

    def evaluate(
        self, training: int | None, step: int | None, shots: int, seconds: float, say: Callable[[str], None]
    ) -> Evaluation:
        """Score on validation within so many seconds. Raises InputError, ServerError, EngineError."""
        name = _id(training, step, shots)
        wanted = self._wanted("validation", shots)
        (score,) = self._scored(training, step, [wanted], self._place(name), seconds, say)
        made_of = Evaluation(
            id=name, training=training, step=step, score=figures(score), seconds=round(score.seconds, 1)
        )
        write_record(self._place(name) / "kept.json", Kept(evaluation=made_of, score=score))
        return made_of

    def page(self, evaluation: str, offset: int, limit: int, only_wrong: bool) -> OutcomePage:
        """Outcomes without golds. Raises InputError for an unknown evaluation."""
        outcomes = self._outcomes(self._kept(evaluation).score)
        shown = [one for one in outcomes if one.score < 1] if only_wrong else outcomes
        page = shown[offset : offset + min(limit, LONGEST_PAGE)]
        return OutcomePage(outcomes=tuple(map(self._shown, page)), total=len(shown))

    def feedback(self, evaluation: str) -> Feedback:
        """Error classes, paired comparisons, and the curve of the training behind it. Raises InputError."""
        kept = self._kept(evaluation)
        outcomes = self._outcomes(kept.score)
        others = [one.id for one in self.all() if one.id != evaluation]
        training = kept.evaluation.training
        return Feedback(
            evaluation=evaluation,
            score=kept.evaluation.score,
            errors=classify_errors(outcomes, self.benchmark.closed_answers),
            against=tuple(self._compared(kept.score, self._kept(other).score, other) for other in others),
            losses=thinned(self.trainings.run(training).losses) if training is not None else (),
        )

    def tested(self) -> FinalTest | None:
        """The final test, where it was made."""
        path = self.folder.test / "final_test.json"
        return read_record(path, FinalTest) if path.exists() else None

    def final_test(self, training: int, step: int | None, say: Callable[[str], None]) -> FinalTest:
        """Open the sealed test, once. Raises InputError where it was opened for something else."""
        self.trainings.weights(training, step)
        opened, mine = made(self.folder.test) / "opened.json", Opened(training=training, step=step)
        if opened.exists() and (before := read_record(opened, Opened)) != mine:
            raise InputError(
                f"the test was opened for training {before.training} already", "It is opened once in a session."
            )
        if (done := self.tested()) is not None:
            return done
        verify(self.splits, self.folder.data, self.folder.sealed)
        write_record(opened, mine)
        base = [self._wanted("test", 0), self._wanted("test", self._most_shots("test"), "few_shot")]
        zero, few = self._scored(None, None, base, self.folder.test / "base", TEST_SECONDS, say)
        (tuned,) = self._scored(training, step, base[:1], self.folder.test / "tuned", TEST_SECONDS, say)
        best = better(zero, few)
        against = self._compared(tuned, best, "base few-shot" if best is few else "base zero-shot")
        done = FinalTest(
            training=training, step=step, base=figures(zero), base_few_shot=figures(few), tuned=figures(tuned),
            against_base=against,
        )  # fmt: skip
        write_record(self.folder.test / "final_test.json", done)
        return done

    # --- inner life -------------------------------------------------------------------------------------------------

    def _place(self, evaluation: str) -> Path:
        return self.folder.root / "evaluations" / evaluation

    def _kept(self, evaluation: str) -> Kept:
        known = [one.id for one in self.all()]
        if evaluation not in known:
            raise InputError(
                f"there is no evaluation {evaluation[:40]!r}", f"There are: {', '.join(known) or 'none yet'}."
            )
        return read_record(self._place(evaluation) / "kept.json", Kept)

    def _outcomes(self, score: Score) -> list[Outcome]:
        return list(read_rows(self.folder.resolve(score.outcomes), Outcome))

    def _shown(self, outcome: Outcome) -> ItemOutcome:
        closed = self.benchmark.closed_answers
        return ItemOutcome(
            id=outcome.id,
            sample=outcome.sample,
            prompt=outcome.prompt,
            output=outcome.output,
            answer=outcome.answer,
            score=outcome.score,
            error=error_class(outcome, closed) if outcome.score < 1 else None,
            finish=outcome.finish,
        )

    def _compared(self, ours: Score, theirs: Score, against: str) -> Comparison:
        left, right = ((written(self.folder.resolve(score.outcomes)),) for score in (ours, theirs))
        return compared_files(self.benchmark.measure, left, right, against)

    def _items(self, split: Split) -> Path:
        return split_path(split, self.folder.data, self.folder.sealed if split == "test" else None)

    def _most_shots(self, split: Split) -> int:
        items, examples = (
            read_items(self._items(split)),
            list(islice(read_rows(self._items("train"), Item), MOST_SHOTS)),
        )
        return shots_that_fit(MOST_SHOTS, items, examples, self.benchmark.max_new_tokens, self.benchmark.window)

    def _wanted(self, split: Split, shots: int, name: str = "") -> Wanted:
        """Items to ask, with the first training rows as worked examples. Raises InputError where those do not fit."""
        most = self._most_shots(split) if shots else 0
        if shots > most:
            raise InputError(f"{shots} worked examples do not fit", f"{most} do.")
        examples = str(self._items("train").resolve()) if shots else None
        items = str(self._items(split).resolve())
        return Wanted(name=name or split, split=split, items=items, shots=shots, examples=examples)

    def _scored(
        self,
        training: int | None,
        step: int | None,
        wanted: list[Wanted],
        folder: Path,
        seconds: float,
        say: Callable[[str], None],
    ) -> list[Score]:
        """Scores with paths relative to the session's folder; a server that dies is started once more."""
        weights, sha256 = Path(self.server.model.path), self.server.model.sha256
        if training is not None:
            weights, sha256 = self.trainings.weights(training, step)

        def progress(done: int, total: int) -> None:
            self.go_on()
            say(f"{done} of {total} outputs scored")

        def once() -> list[Score]:
            return evaluate(
                self.scorer, self.server, self.benchmark, weights, wanted, folder,
                weights_sha256=sha256, timeout_s=seconds, on_progress=progress,
            )  # fmt: skip

        say("loading the weights into the server")
        try:
            scores = once()
        except ServerError as error:
            self.go_on()
            say(f"{error.message}; scoring again with a fresh server")
            scores = once()
        return [score.model_copy(update={"outcomes": self.folder.relative(Path(score.outcomes))}) for score in scores]


def figures(score: Score) -> Figures:
    """A score without the place of its outcomes."""
    shared = score.model_dump(include=set(Figures.model_fields) - {"others"})
    return Figures(**shared, others={name: each.value for name, each in score.others.items()})


def thinned(losses: Iterable[LossPoint]) -> tuple[LossPoint, ...]:
    """A curve of at most CURVE_POINTS points; the last one is kept."""
    points = list(losses)
    every = max(1, -(-len(points) // CURVE_POINTS))
    return tuple(points[::-1][::every][::-1])


def _id(training: int | None, step: int | None, shots: int) -> str:
    name = "base" if training is None else f"training-{training}"
    return "_".join([name, *([f"step-{step}"] if step is not None else []), f"{shots}-shot"])
