"""The trainings of a session on disk: numbered in the order in which they were begun, found again by content."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from memory.errors import InputError, TrialError
from memory.layout import RunFolder, read_record, write_record, write_text
from memory.records import Record, TrainingRecipe, TrainingRun
from tools.arena.answers import Training
from tools.training.start import Start, start_from


class Asked(Record):
    """What decides a training."""

    dataset: str
    dataset_sha256: str
    recipe: TrainingRecipe


class Trainings:
    """`trials/N/` holds `asked.json` once a training was begun, and `training.json` once it has ended well."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    def begun(self) -> Iterator[tuple[int, Asked]]:
        """Numbers and what was asked, in order."""
        for path in sorted(self.folder.root.glob("trials/*/asked.json"), key=lambda path: int(path.parent.name)):
            yield int(path.parent.name), read_record(path, Asked)

    def number(self, asked: Asked) -> int | None:
        """The number under which this was begun before; a data set's name does not count, its content does."""
        same = (asked.dataset_sha256, asked.recipe)
        return next((number for number, other in self.begun() if (other.dataset_sha256, other.recipe) == same), None)

    def begin(self, asked: Asked, data: Path) -> int:
        """A number for it, with a copy of its data."""
        if (number := self.number(asked)) is not None:
            return number
        number = max((number for number, _ in self.begun()), default=0) + 1
        write_text(self.data(number), data.read_text(encoding="utf-8"))
        write_record(self.folder.trial(number) / "asked.json", asked)
        return number

    def data(self, number: int) -> Path:
        """The training file."""
        return self.folder.trial(number) / "data.jsonl"

    def finish(self, number: int, run: TrainingRun) -> None:
        """Keep what came of it; its paths become relative to the session's folder."""

        def of(path: str | None) -> str | None:
            return None if path is None else self.folder.relative(Path(path))

        snapshots = tuple(
            each.model_copy(update={"weights": of(each.weights), "adapter": of(each.adapter)}) for each in run.snapshots
        )
        changes = {"weights": of(run.weights), "adapter": of(run.adapter), "snapshots": snapshots}
        write_record(self.folder.trial(number) / "training.json", run.model_copy(update=changes))

    def finished(self, number: int) -> TrainingRun | None:
        """What came of it; None where it has not ended well, or its weights are gone."""
        path = self.folder.root / "trials" / str(number) / "training.json"
        run = read_record(path, TrainingRun) if path.exists() else None
        return run if run and self.folder.resolve(run.weights).is_dir() else None

    def all(self) -> tuple[Training, ...]:
        """The finished ones."""
        return tuple(self.told(number) for number, _ in self.begun() if self.finished(number))

    def told(self, number: int) -> Training:
        """A finished training as an agent sees it. Raises InputError where there is none of that number."""
        run, asked = self.run(number), dict(self.begun())[number]
        return Training(
            number=number,
            dataset=asked.dataset,
            recipe=asked.recipe,
            steps=run.steps,
            tokens=run.tokens,
            seconds=run.seconds,
            first_loss=run.losses[0].loss if run.losses else None,
            last_loss=run.losses[-1].loss if run.losses else None,
            peak_memory_bytes=run.peak_memory_bytes,
            snapshots=tuple(each.step for each in run.snapshots),
            ladder=run.ladder,
        )

    def run(self, number: int) -> TrainingRun:
        """A finished training. Raises InputError where there is none of that number."""
        if run := self.finished(number):
            return run
        there = ", ".join(str(number) for number, _ in self.begun() if self.finished(number)) or "none yet"
        raise InputError(f"there is no finished training {number}", f"There are: {there}.")

    def weights(self, number: int, step: int | None) -> tuple[Path, str]:
        """Whole weights at the end of a training, or after a step at which they were kept, with their hash. Raises
        InputError where there are none."""
        run = self.run(number)
        if step is None:
            return self.folder.resolve(run.weights), run.weights_sha256
        for snapshot in run.snapshots:
            if snapshot.step == step:
                return self.folder.resolve(snapshot.weights), snapshot.weights_sha256
        kept = ", ".join(str(each.step) for each in run.snapshots) or "none; a recipe's `snapshots` asks for them"
        raise InputError(f"training {number} kept no weights at step {step}", f"Kept: {kept}.")

    def start(self, recipe: TrainingRecipe) -> Start | None:
        """Where a recipe begins; None is the base model. Raises TrialError CONFIG where that does not fit."""
        if (number := recipe.continue_from) is None:
            return None
        if self.finished(number) is None:
            raise TrialError("CONFIG", f"there is no training {number} to go on from", "Go on from a finished one.")
        theirs = dict(self.begun())[number].recipe
        return start_from(recipe, theirs, self.run(number), self.folder, f"training {number}")
