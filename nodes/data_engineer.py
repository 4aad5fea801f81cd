"""The data engineer turns the plan's data recipe into a training file that holds nothing of the held-out splits."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from memory.records import Order, Trial
from memory.state import Changes, State, plan_at_work
from nodes.deps import Deps
from tools.data import make_training_file
from tools.training.objective import rows_for


def data_engineer(state: State, deps: Deps) -> Changes:
    """Apply the recipe's operators. Raises TrialError: CONFIG, DATA, ENV, or CONTAMINATION where nothing else is left;
    ServerError where a recipe asks a model and the server dies twice."""
    plan, trials = plan_at_work(state), state.get("trials", [])
    deps.warm_up()
    card = make_training_file(
        rows_for(plan.data, plan.training, deps.splits.sizes.train),
        source=deps.benchmark.name,
        train=deps.items("train"),
        raw={path: Path(path) for path in state["task"].raw_data},
        cache=deps.folder.root / "datasets",
        held_out=deps.held_out(),
        sample=partial(deps.sample, trials),
        models=models(trials, deps),
    )
    for dropped in card.dropped:
        deps.events.emit("note", f"{dropped.step} dropped {dropped.rows} rows: {dropped.reason}")
    for note in card.notes:
        deps.events.emit("note", note)
    if any(isinstance(operator, Order) for operator in plan.data.operators) and plan.training.order != "file":
        deps.events.emit("note", "the order of the rows has no effect: the training shuffles them")
    deps.events.emit("note", f"{card.rows} training rows")
    return {"dataset": card.model_copy(update={"path": deps.folder.relative(Path(card.path))})}


def models(trials: Sequence[Trial], deps: Deps) -> dict[int | None, str]:
    """What decides the outputs of each model that can be asked: its weights, and how long an output may be."""
    weights: dict[int | None, str] = {None: deps.model.sha256}
    weights |= {trial.number: trial.training.weights_sha256 for trial in trials if trial.training}
    return {trial: f"{sha256} {deps.benchmark.max_new_tokens}" for trial, sha256 in weights.items()}
