"""The data engineer turns the plan's data recipe into a training file that holds nothing of the held-out splits."""

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from memory.records import Order, Rehearsal, Transform, Trial
from memory.state import Changes, State, plan_at_work, seconds_left
from nodes.deps import Deps, Pace
from tools.data import make_training_file
from tools.operators.rehearsal import Room
from tools.operators.rows import Workroom
from tools.proposers.brief import written_seconds
from tools.sandbox.isolation import isolation
from tools.training.objective import rows_for

TELL_SECONDS = 1.0
"""Between two reports of progress: generated code does thousands of rows a second."""


def data_engineer(state: State, deps: Deps) -> Changes:
    """Apply the recipe's operators. Raises TrialError: CONFIG, DATA, ENV, BUDGET where a step would cost more than is
    left, or CONTAMINATION where nothing else is left; ServerError where a recipe asks a model and the server dies
    twice."""
    plan, trials = plan_at_work(state), state.get("trials", [])
    deps.warm_up()
    if any(isinstance(operator, Transform) for operator in plan.data.operators) and isolation().level == "weak":
        says = f"{isolation().reason}: generated code needs bubblewrap, or --allow-weak-sandbox"
        if state["task"].allow_weak_sandbox:
            says = f"{isolation().reason}: generated code runs within limits, but could read and write your files"
        deps.events.emit("note", says)
    card = make_training_file(
        rows_for(plan.data, plan.training, deps.splits.sizes.train),
        source=deps.benchmark.name,
        train=deps.items("train"),
        raw={path: Path(path) for path in state["task"].raw_data},
        cache=deps.folder.root / "datasets",
        held_out=deps.held_out(),
        sample=partial(deps.sample, trials),
        models=models(trials, deps),
        workroom=workroom(state, deps),
    )
    for dropped in card.dropped:
        deps.events.emit("note", f"{dropped.step} dropped {dropped.rows} rows: {dropped.reason}")
    for note in card.notes:
        deps.events.emit("note", note)
    if any(isinstance(operator, Order) for operator in plan.data.operators) and plan.training.order != "file":
        deps.events.emit("note", "the order of the rows has no effect: the training shuffles them")
    deps.events.emit("note", f"{card.rows} training rows")
    return {"dataset": card.model_copy(update={"path": deps.folder.relative(Path(card.path))})}


def workroom(state: State, deps: Deps) -> Workroom:
    """What steps have at hand that ask language models or run generated code."""
    paces: dict[str, Pace] = {}
    told = time.monotonic()

    def rehearsed(rehearsal: Rehearsal) -> None:
        deps.events.emit("note", rehearsal.says)

    def progress(step: str, done: int, total: int) -> None:
        nonlocal told
        left = paces.setdefault(step, Pace()).rest(done, total)
        if time.monotonic() - told >= TELL_SECONDS:
            told = time.monotonic()
            deps.events.emit("progress", step, done=done, total=total, seconds_left=left)

    return Workroom(
        benchmark=deps.benchmark,
        room=Room(lambda: seconds_for_data(state, deps), rehearsed, progress),
        writers=deps.writers,
        sandbox="weak" if state["task"].allow_weak_sandbox else "strict",
        held_out=deps.held_out(),
    )


def seconds_for_data(state: State, deps: Deps) -> float:
    """Wall clock that is left for the training file: without the reserve, and without the rest of the trial as it was
    planned."""
    plan, baseline = plan_at_work(state), state.get("baseline")
    reserve = deps.reserve_seconds(baseline) if baseline else 0.0
    rest = plan.predicted_seconds - written_seconds(plan.data, deps.splits.sizes.train)
    return seconds_left(state) - reserve - max(0.0, rest) - deps.node_seconds()


def models(trials: Sequence[Trial], deps: Deps) -> dict[int | None, str]:
    """What decides the outputs of each model that can be asked: its weights, and how long an output may be."""
    weights: dict[int | None, str] = {None: deps.model.sha256}
    weights |= {trial.number: trial.training.weights_sha256 for trial in trials if trial.training}
    return {trial: f"{sha256} {deps.benchmark.max_new_tokens}" for trial, sha256 in weights.items()}
