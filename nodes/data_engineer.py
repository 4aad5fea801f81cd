"""The data engineer turns the plan's data recipe into a training file that holds nothing of the held-out splits."""

from pathlib import Path

from memory.state import Changes, State, plan_at_work
from nodes.deps import Deps
from tools.data import make_training_file


def data_engineer(state: State, deps: Deps) -> Changes:
    """Apply the recipe's operators. Raises TrialError: CONFIG, DATA, or CONTAMINATION where nothing else is left."""
    card = make_training_file(
        plan_at_work(state).data,
        source=deps.benchmark.name,
        train=deps.items("train"),
        raw={path: Path(path) for path in state["task"].raw_data},
        cache=deps.folder.root / "datasets",
        held_out=deps.held_out(),
    )
    for dropped in card.dropped:
        deps.events.emit("note", f"dropped {dropped.rows} rows: {dropped.reason}")
    deps.events.emit("note", f"{card.rows} training rows")
    return {"dataset": card.model_copy(update={"path": deps.folder.relative(Path(card.path))})}
