"""The winning trial made again from its lineage: the same rows, recipe, seed and base weights, trained once more.

A trial that goes on from an earlier one is made again from its beginning, trial by trial. The new weights are then
compared with those of the run.
"""

from __future__ import annotations

import fcntl
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

import yaml

from memory.errors import InputError, RunBusyError, StorageError, TrialError
from memory.layout import RunFolder, disk, link_or_copy, made, sha256_of, write_record
from memory.lineage import went_on_from
from memory.records import BaseModelCard, Record, Sampling, Snapshot, TrainingRun, Trial
from tools.benchmarks.benchmark import Benchmark
from tools.benchmarks.splits import read_held_out, read_items, split_path
from tools.data import make_training_file
from tools.engines.contract import Engine
from tools.handover.weights_difference import Distance, distance
from tools.report import RunReport
from tools.training.config import Device
from tools.training.engine import train
from tools.training.objective import rows_for
from tools.training.rewards import Rewards
from tools.training.start import start_of

TOLERANCE = 0.1
"""Share of the way from the base model by which the new weights may miss the recorded ones and still count as the same
training: another number of threads rounds sums otherwise. Another seed misses them by about its whole way."""
DEADLINE_FACTOR, SHORTEST_DEADLINE = 20.0, 3600.0
"""Nothing is budgeted here: only a training that hangs is to end, at twenty times what it took, or after an hour."""
PLACES = frozenset({"base_model", "datasets", "dataset_prepared_path", "lora_model_dir", "output_dir"})
"""Settings that say where files lie; what is in the files is compared by hash."""
Say = Callable[[str], None]


class RowsAgain(Record):
    """A training file, found or made again with the recorded hash."""

    trial: int
    sha256: str
    how: Literal["rebuilt by its recipe", "taken from the run's folder"]
    why: str = ""
    """Why it could not be rebuilt."""


class Reproduced(Record):
    """What came of it; lies in the run's folder as reproduced/reproduce.json."""

    run: str
    trial: int
    chain: tuple[int, ...]
    """The trials that were trained, in order; the last is the winner."""
    base_sha256: str
    rows: tuple[RowsAgain, ...]
    seed: int
    other_environments: tuple[str, ...]
    """Engine environments that are not those of the run; with others nothing says that the weights come out equal."""
    other_settings: tuple[str, ...]
    """Keys of Axolotl's configuration that are not what they were, paths left out; empty with the same release."""
    recorded_sha256: str
    sha256: str
    largest_difference: float | None
    """Of two numbers of the weights, absolute; 0 where the hashes are equal, None where the tensors cannot be
    compared."""
    share: float | None
    """Distance of new and recorded weights over the way that the recorded ones went from the base model."""
    tolerance: float
    """Of `share`."""
    outcome: Literal["equal", "within tolerance", "different"]
    """equal: bit for bit."""
    seconds: float


@dataclass(frozen=True)
class Remake:
    """A finished run, and the tools that make its winner again."""

    folder: RunFolder
    report: RunReport
    winner: Trial
    engine: Engine
    model: BaseModelCard
    benchmark: Benchmark
    """Its scorer gives GRPO its rewards once more."""
    device: Device
    locks: Mapping[str, str]
    """Hash of each environment's lock file, as it is now."""


def place_of(folder: RunFolder) -> Path:
    """Where a reproduction lies."""
    return folder.root / "reproduced"


def record_path(folder: RunFolder) -> Path:
    """What it came to."""
    return place_of(folder) / "reproduce.json"


@contextmanager
def only_one(folder: RunFolder) -> Iterator[None]:
    """One reproduction of a run at a time; the lock goes with the process. Raises RunBusyError."""
    path = folder.root / "reproduced.lock"
    with disk(path):
        lock = path.open("w")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = f"run {folder.id} is being reproduced by another process"
            raise RunBusyError(message, "Wait until it ends.") from None
        yield


def reproduce(remake: Remake, say: Say) -> Reproduced:
    """Train the chain of trials that ends in the winner, in RUN/reproduced, and compare the weights.

    One that was interrupted goes on; one that ended is made anew. Raises InputError where base weights or rows are no
    longer those of the run, TrialError where a training fails, StorageError.
    """
    began = time.monotonic()
    if record_path(remake.folder).exists():
        with disk(place_of(remake.folder)):
            shutil.rmtree(place_of(remake.folder))
    links = chain(remake.winner, remake.report.trials)
    rows: list[RowsAgain] = []
    again: list[Trial] = []
    for trial in links:
        rows.append(rows_again(remake, trial))
        say(f"trial {trial.number}: {rows[-1].how}, {trial.dataset.rows if trial.dataset else 0} rows; training ...")
        again.append(trial.model_copy(update={"training": trained_again(remake, trial, again)}))
    recorded, made_again = remake.winner.training, again[-1].training
    assert recorded is not None and made_again is not None, "a winner was trained"
    equal = made_again.weights_sha256 == recorded.weights_sha256
    apart = Distance(0.0, 0.0) if equal else missed_by(remake, Path(made_again.weights))
    near = apart is not None and apart.share <= TOLERANCE
    locks = remake.report.lineage.engines
    done = Reproduced(
        run=remake.folder.id, trial=remake.winner.number, chain=tuple(trial.number for trial in links),
        base_sha256=remake.model.sha256, rows=tuple(rows), seed=recorded.seed,
        other_environments=tuple(name for name, sha256 in locks.items() if remake.locks.get(name) != sha256),
        other_settings=other_settings(remake), recorded_sha256=recorded.weights_sha256,
        sha256=made_again.weights_sha256, largest_difference=apart.largest if apart else None,
        share=apart.share if apart else None, tolerance=TOLERANCE,
        outcome="equal" if equal else "within tolerance" if near else "different",
        seconds=time.monotonic() - began,
    )  # fmt: skip
    write_record(record_path(remake.folder), done)
    return done


def chain(winner: Trial, trials: Sequence[Trial]) -> list[Trial]:
    """The trials that the winner's training goes on from, oldest first, and the winner. Raises StorageError."""
    links = [*went_on_from(winner.plan.training.continue_from, trials), winner]
    missing = links[0].plan.training.continue_from
    if missing is not None or any(one.number >= other.number for one, other in pairwise(links)):
        raise StorageError(f"trial {links[0].number} goes on from trial {missing}, which the report lacks")
    return links


def in_words(done: Reproduced) -> list[str]:
    """The outcome for a person."""
    if done.outcome == "equal":
        verdict = f"equal, bit for bit: sha256 {done.sha256}"
    elif done.largest_difference is None:
        verdict = "different: the tensors cannot be compared"
    else:
        verdict = (
            f"{done.outcome}: numbers differ by at most {done.largest_difference:.3g} (tolerance {done.tolerance:g})"
        )
    notes = [f"the {name} environment is not that of the run" for name in done.other_environments]
    notes += [f"Axolotl's setting {key} is not that of the run" for key in done.other_settings]
    return [f"trial {done.trial} made again in {done.seconds:.0f} s. The weights are {verdict}", *notes]


# --- rows and training ------------------------------------------------------------------------------------------------


def rows_again(remake: Remake, trial: Trial) -> RowsAgain:
    """The trial's training file at `data_path`, with the recorded hash: rebuilt where that is possible, else the one
    that lies in the run's folder. Raises InputError where neither has the recorded content."""
    card, target = trial.dataset, data_path(remake, trial)
    assert card is not None, "a trained trial has rows"
    made(target.parent)
    path, why = rebuilt(remake, trial)
    if path is None or sha256_of(path) != card.sha256:
        why = why or "rebuilt, it has another content"
        path = remake.folder.resolve(card.path)
        if not path.exists() or sha256_of(path) != card.sha256:
            raise InputError(
                f"the training rows of trial {trial.number} cannot be had again: {why}, and {path} is gone or altered",
                "Put the file or its sources back.",
            )
    with disk(target):
        target.unlink(missing_ok=True)
        link_or_copy(path, target)
    how: Literal["rebuilt by its recipe", "taken from the run's folder"]
    how = "taken from the run's folder" if why else "rebuilt by its recipe"
    return RowsAgain(trial=trial.number, sha256=card.sha256, how=how, why=why)


def rebuilt(remake: Remake, trial: Trial) -> tuple[Path | None, str]:
    """The file that the data recipe makes of its sources now; or None, and why it makes none."""
    folder = remake.folder
    recipe = rows_for(trial.plan.data, trial.plan.training, 0)
    if any(isinstance(operator, Sampling) for operator in recipe.operators):
        return None, "its rows were sampled from a model"
    try:
        card = make_training_file(
            recipe,
            source=remake.report.task.benchmark,
            train=split_path("train", folder.data, None),
            raw={path: Path(path) for path in remake.report.task.raw_data},
            cache=place_of(folder) / "datasets",
            held_out=read_held_out(folder.data),
        )
    except (TrialError, StorageError) as error:
        return None, error.message
    return Path(card.path), ""


def data_path(remake: Remake, trial: Trial) -> Path:
    """Where the rows of a trial lie while it is made again."""
    return place_of(remake.folder) / "trials" / str(trial.number) / "data.jsonl"


def trained_again(remake: Remake, trial: Trial, earlier: Sequence[Trial]) -> TrainingRun:
    """The trial's training once more; paths in the answer are absolute. `earlier` were made again before."""
    recorded = trial.training
    assert recorded is not None, "a trial of the chain was trained"
    folder = made(data_path(remake, trial).with_name("train"))
    ladder = remake.folder.trial(trial.number) / "train" / "ladder.json"
    if ladder.exists():  # what did not fit into memory then is not tried again
        shutil.copyfile(ladder, folder / ladder.name)
    again = train(
        remake.engine,
        trial.plan.training,
        remake.model,
        data_path(remake, trial),
        folder,
        device=remake.device,
        deadline_s=max(SHORTEST_DEADLINE, DEADLINE_FACTOR * recorded.seconds),
        start=start_of(trial.plan.training, earlier, remake.folder),
        rewards=rewards(remake) if trial.plan.training.objective == "grpo" else None,
        on_snapshot=lambda snapshot: snapshot.step != recorded.stopped_at_step,
    )
    kept = kept_snapshot(recorded)
    return again if kept is None else again.at(next(each for each in again.snapshots if each.step == kept.step))


def rewards(remake: Remake) -> Rewards:
    """The scorer over the run's training items."""
    items = read_items(split_path("train", remake.folder.data, None))
    return Rewards(remake.benchmark, {item.id: item for item in items})


def other_settings(remake: Remake) -> tuple[str, ...]:
    """Keys in which the winner's configuration is not the recorded one; both lie beside their trainings."""
    old = remake.folder.trial(remake.winner.number) / "train" / "axolotl.yml"
    before, now = settings(old), settings(data_path(remake, remake.winner).with_name("train") / "axolotl.yml")
    return tuple(key for key in sorted(before | now) if before.get(key) != now.get(key))


def settings(path: Path) -> dict[str, object]:
    """An Axolotl configuration without its paths. Raises StorageError."""
    try:
        read: dict[str, object] = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error
    return {key: value for key, value in read.items() if key not in PLACES}


def kept_snapshot(training: TrainingRun) -> Snapshot | None:
    """The snapshot whose weights the trial's model is; None where it is the end of the training."""
    return next((each for each in training.snapshots if each.weights_sha256 == training.weights_sha256), None)


def missed_by(remake: Remake, weights: Path) -> Distance | None:
    """How far `weights` are from those of the run: the winner's own, or the ones that were handed over."""
    assert remake.winner.training is not None, "a winner was trained"
    own = remake.folder.resolve(remake.winner.training.weights)
    return distance(weights, own if own.exists() else remake.folder.model, Path(remake.model.path))
