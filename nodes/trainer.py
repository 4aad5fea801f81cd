"""The trainer runs Axolotl on the validated plan and stops early what cannot end well."""

import time
from pathlib import Path

from memory.records import LossPoint, Plan, Score, Snapshot, TrainingRun
from memory.state import Changes, State, plan_at_work, seconds_left
from nodes.deps import Deps
from tools.judgement import worth_going_on
from tools.training.engine import train
from tools.training.start import start_of


def trainer(state: State, deps: Deps) -> Changes:
    """Train the plan's recipe. Raises TrialError: DIVERGED, BUDGET, OOM, CONFIG, or ENV."""
    plan, dataset = plan_at_work(state), state["dataset"]
    assert dataset is not None, "the trainer comes after the data engineer"
    start = start_of(plan.training, state.get("trials", []), deps.folder)
    deps.server.sleep()
    started = time.monotonic()
    scores = SnapshotScores(plan, deps)

    def on_loss(point: LossPoint, total_steps: int) -> None:
        left = point.seconds / max(1, point.step) * (total_steps - point.step)
        deps.events.emit("progress", "training", done=point.step, total=total_steps, seconds_left=left)
        deps.events.emit("loss", f"step {point.step} {figures(point)}", value=point.loss, done=point.step)

    run = train(
        deps.axolotl,
        plan.training,
        deps.model,
        deps.folder.resolve(dataset.path),
        deps.folder.trial(plan.number) / "train",
        device=deps.device,
        deadline_s=seconds_left(state),
        start=start,
        rewards=deps.rewards(),
        on_loss=on_loss,
        on_ladder=lambda step: deps.events.emit("note", f"out of memory: {step}"),
        on_snapshot=scores.worth_going_on,
    )
    deps.events.emit("note", f"trained {run.steps} steps in {time.monotonic() - started:.0f} s")
    note_memory(run, state, deps)
    return {"training": relative(scores.added_to(run), deps)}


def figures(point: LossPoint) -> str:
    """What a step shows, in words: the loss, and what GRPO and DPO measure beside it."""
    beside = {"reward": point.reward, "KL": point.kl, "pairs told apart": point.accuracy}
    return ", ".join([f"loss {point.loss:.4f}", *(f"{name} {at:.3f}" for name, at in beside.items() if at is not None)])


class SnapshotScores:
    """The validation scores of a training's snapshots, and what they say about going on."""

    def __init__(self, plan: Plan, deps: Deps) -> None:
        self.plan = plan
        self.deps = deps
        self.by_step: dict[int, Score] = {}

    def of(self, snapshot: Snapshot) -> Score:
        """The score of a snapshot; one that was measured before a crash is found on disk."""
        if snapshot.step not in self.by_step:
            score = self.deps.score_snapshot(self.plan, snapshot.step, Path(snapshot.weights))
            self.by_step[snapshot.step] = score
        return self.by_step[snapshot.step]

    def worth_going_on(self, snapshot: Snapshot) -> bool:
        """Score the snapshot while the training waits. On a GPU the waiting training holds the memory that the server
        needs: there nothing is scored before the end, which still finds the best snapshot but stops nothing early."""
        if self.deps.device == "cuda":
            return True
        self.of(snapshot)
        goes_on = worth_going_on(list(self.by_step.values()))
        if not goes_on:
            self.deps.events.emit("decision", f"training ended early: {self.words}")
        return goes_on

    @property
    def words(self) -> str:
        """The scores so far."""
        return "validation " + ", ".join(f"{score.value:.3f} at step {at}" for at, score in self.by_step.items())

    def added_to(self, run: TrainingRun) -> TrainingRun:
        """The training with its snapshots' scores, and with the reason where they ended it."""
        snapshots = tuple(each.model_copy(update={"score": self.of(each)}) for each in run.snapshots)
        because = f"{self.words}: {run.stopped_because}" if run.stopped_because else ""
        return run.model_copy(update={"snapshots": snapshots, "stopped_because": because})


def note_memory(run: TrainingRun, state: State, deps: Deps) -> None:
    """Say what the estimate was worth."""
    verdict = state.get("verdict")
    if verdict is not None and verdict.memory_bytes:
        says = f"{run.peak_memory_bytes / 1e9:.1f} GB at the peak, {verdict.memory_bytes / 1e9:.1f} GB estimated"
        deps.events.emit("note", f"memory: {says}")


def relative(run: TrainingRun, deps: Deps) -> TrainingRun:
    """The same with paths relative to the run's folder."""

    def of(path: str | None) -> str | None:
        return None if path is None else deps.folder.relative(Path(path))

    snapshots = tuple(
        each.model_copy(update={"weights": of(each.weights), "adapter": of(each.adapter)}) for each in run.snapshots
    )
    return run.model_copy(update={"weights": of(run.weights), "adapter": of(run.adapter), "snapshots": snapshots})
