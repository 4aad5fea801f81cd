"""The checkpoints of a run, and in words what happened at each: the difference between one state and the next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from langgraph.types import StateSnapshot

from graph.build import Graph
from graph.edits import difference
from graph.live import columns
from graph.runner import config_of
from graph.values import in_words, near
from memory.errors import InputError
from memory.layout import RunFolder
from memory.records import Baseline, Plan, Record, Score, SealedTest, Task, TrainingRun, Trial
from memory.state import State
from tools.plan_text import changed, recipe

SHORTEST_PREFIX = 8
"""Characters of a checkpoint's id that are always shown."""


class Entry(Record):
    """One checkpoint."""

    checkpoint: str
    """The shortest start of its id that no other checkpoint of the run has."""
    checkpoint_id: str
    step: int
    """Of the graph, from 0."""
    at: float
    """Unix time in seconds."""
    node: str | None
    """The node whose work it holds; None for the beginning and for an edit by hand."""
    happened: str
    following: str | None
    """The node that comes next; None at the end."""


def history(graph: Graph, folder: RunFolder) -> list[Entry]:
    """The checkpoints of a run that another one could grow from, newest last."""
    snapshots = {snapshot_id(snapshot): snapshot for snapshot in graph.get_state_history(config_of(folder))}
    prefixes = shortest_prefixes(sorted(snapshots))
    return [
        entry(snapshot, parent_of(snapshot, snapshots), prefixes[checkpoint_id])
        for checkpoint_id, snapshot in sorted(snapshots.items())
        if "task" in snapshot.values  # the very first one holds the input before it was taken in
    ]


def entry(snapshot: StateSnapshot, parent: StateSnapshot | None, prefix: str) -> Entry:
    """What one checkpoint holds that its parent did not."""
    metadata = snapshot.metadata or {}
    by_hand = metadata.get("source") in ("update", "fork")
    node = parent.next[0] if parent and parent.next and not by_hand else None
    before, after = State(**(parent.values if parent else {})), State(**snapshot.values)  # type: ignore[typeddict-item]
    if "task" not in before:
        words = [begun(after["task"])]
    elif by_hand:
        words = said_or_edited(before, after)
    else:
        words = list(changes(before, after)) or [f"{node} changed nothing"]
    words += [f"then {task.name} stopped the run: {task.error}" for task in snapshot.tasks if task.error]
    return Entry(
        checkpoint=prefix,
        checkpoint_id=snapshot_id(snapshot),
        step=metadata.get("step", 0),
        at=datetime.fromisoformat(snapshot.created_at).timestamp() if snapshot.created_at else 0.0,
        node=None if node == "__start__" else node,
        happened="; ".join(words),
        following=snapshot.next[0] if snapshot.next else None,
    )


def said_or_edited(before: State, after: State) -> list[str]:
    """What happened between two nodes: something was said, or values were edited."""
    changed = difference(before, after)
    if heard := list(said(before, after)):
        return [*heard, *changed]
    return [f"edited by hand: {'; '.join(changed) or 'nothing'}"]


def resolve(entries: Sequence[Entry], prefix: str, run: str) -> Entry:
    """The entry whose checkpoint id starts like this. Raises InputError."""
    like = [found for found in entries if found.checkpoint_id.startswith(prefix)]
    if len(like) == 1:
        return like[0]
    if like:
        raise InputError(
            f"{len(like)} checkpoints of {run} start with {prefix}",
            f"Write more of it: {', '.join(found.checkpoint for found in like[:5])}.",
        )
    raise InputError(
        f"run {run} has no checkpoint {prefix}",
        near(prefix, [found.checkpoint for found in entries], f"--history {run} lists them."),
    )


def lines(entries: Sequence[Entry]) -> list[str]:
    """The entries as lines for a person, columns aligned."""
    rows = [
        (
            found.checkpoint,
            str(found.step),
            datetime.fromtimestamp(found.at).strftime("%Y-%m-%d %H:%M:%S"),
            found.following or "end",
            found.happened,
        )
        for found in entries
    ]
    return columns([("CHECKPOINT", "STEP", "TIME", "NEXT", "WHAT HAPPENED"), *rows])


def snapshot_id(snapshot: StateSnapshot) -> str:
    """The id of a snapshot's checkpoint."""
    return str(snapshot.config["configurable"]["checkpoint_id"])


def parent_of(snapshot: StateSnapshot, snapshots: dict[str, StateSnapshot]) -> StateSnapshot | None:
    """The snapshot that this one grew from."""
    if snapshot.parent_config is None:
        return None
    return snapshots.get(str(snapshot.parent_config["configurable"]["checkpoint_id"]))


def shortest_prefixes(ids: Sequence[str]) -> dict[str, str]:
    """The shortest start of each id that tells it from the others; `ids` are sorted, so only neighbours matter."""
    prefixes = {}
    for place, text in enumerate(ids):
        shared = [common(text, ids[other]) for other in (place - 1, place + 1) if 0 <= other < len(ids)]
        length = max([SHORTEST_PREFIX, *(count + 1 for count in shared)])
        prefixes[text] = text[: length + 1] if text[length - 1] == "-" else text[:length]
    return prefixes


def common(one: str, other: str) -> int:
    """How many characters two texts share from their start."""
    return next((place for place, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), len(one))


# --- what happened, in words --------------------------------------------------------------------------------------


def changes(before: State, after: State) -> Iterator[str]:
    """What a node changed."""
    plan = after.get("plan")
    yield from said(before, after)
    if plan is None and (refused := before.get("plan")) and before.get("trials", []) == after.get("trials", []):
        yield f"the plan of trial {refused.number} is declined"
    if after.get("baseline") != before.get("baseline") and (baseline := after.get("baseline")):
        yield measured(baseline)
    if plan is not None and plan != before.get("plan"):
        yield planned(plan)
    if plan is not None and (dataset := after.get("dataset")) and dataset != before.get("dataset"):
        dropped = sum(group.rows for group in dataset.dropped)
        yield f"trial {plan.number} data: {dataset.rows} rows, {dropped} dropped"
    if plan is not None and (verdict := after.get("verdict")) and verdict != before.get("verdict"):
        predicted = in_words(verdict.predicted_seconds)
        yield f"trial {plan.number} validated: {len(verdict.checks)} checks, {predicted} of training predicted"
    if plan is not None and (training := after.get("training")) and training != before.get("training"):
        yield trained(plan, training)
    yield from (judged(trial) for trial in after.get("trials", [])[len(before.get("trials", [])) :])
    if (stop := after.get("stop")) and stop != before.get("stop"):
        yield f"stopped: {stop}"
    if (test := after.get("test")) and test != before.get("test"):
        yield opened(test)


def said(before: State, after: State) -> Iterator[str]:
    """What a person said."""
    yield from (f"said: {wish.text}" for wish in after.get("wishes", [])[len(before.get("wishes", [])) :])


def begun(task: Task) -> str:
    """The beginning of a run."""
    budget = in_words(task.budget.seconds)
    return f"begun: {task.benchmark} with {task.base_model}, {budget}, {task.planning.search} search"


def measured(baseline: Baseline) -> str:
    """The baseline's two figures."""
    few = baseline.few_shot
    return f"base model: {figure(baseline.zero_shot)} zero-shot, {figure(few)} {few.shots}-shot (n={few.n})"


def figure(score: Score) -> str:
    """A value with its standard error."""
    return f"{score.value:.3f} ± {score.stderr:.3f}"


def planned(plan: Plan) -> str:
    """The one change, or the recipe where there is nothing to differ from."""
    return f"trial {plan.number} planned: {changed(plan) if plan.change else recipe(plan)}"


def trained(plan: Plan, training: TrainingRun) -> str:
    """Steps, time and the way of the loss."""
    way = f", {training.course}" if training.losses else ""
    return f"trial {plan.number} trained: {training.steps} steps in {in_words(training.seconds)}{way}"


def judged(trial: Trial) -> str:
    """Decision with the two values that made it, or the failure."""
    if trial.failure is not None:
        failure = trial.failure
        return f"trial {trial.number} failed in {failure.node}: {failure.kind}: {failure.message}"
    if trial.score is None or trial.comparison is None:
        return f"trial {trial.number} {trial.decision}: {trial.arithmetic}"
    value, compared = trial.score.value, trial.comparison
    return (
        f"trial {trial.number} {trial.decision}: {value - compared.difference:.3f} ({compared.against}) -> {value:.3f} "
        f"(p={compared.p_value:.2g})"
    )


def opened(test: SealedTest) -> str:
    """The figures of the sealed test."""
    tuned = f", tuned {figure(test.tuned)} (trial {test.winner})" if test.tuned else ", no trial was accepted"
    return f"sealed test opened: base {figure(test.zero_shot)}, few-shot {figure(test.few_shot)}{tuned}"
