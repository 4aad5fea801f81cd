"""The trainer runs Axolotl on the validated plan and stops early what cannot end well."""

import time
from pathlib import Path

from memory.records import LossPoint
from memory.state import Changes, State, plan_at_work, seconds_left
from nodes.deps import Deps
from tools.training import train


def trainer(state: State, deps: Deps) -> Changes:
    """Train the plan's recipe. Raises TrialError: DIVERGED, BUDGET, OOM, CONFIG, or ENV."""
    plan, dataset = plan_at_work(state), state["dataset"]
    assert dataset is not None, "the trainer comes after the data engineer"
    deps.server.sleep()
    started = time.monotonic()

    def on_loss(point: LossPoint, total_steps: int) -> None:
        left = point.seconds / max(1, point.step) * (total_steps - point.step)
        deps.events.emit("progress", "training", done=point.step, total=total_steps, seconds_left=left)
        deps.events.emit("loss", f"step {point.step} loss {point.loss:.4f}", value=point.loss, done=point.step)

    run = train(
        deps.engines.axolotl,
        plan.training,
        deps.model,
        deps.folder.resolve(dataset.path),
        deps.folder.trial(plan.number) / "train",
        device=deps.device,
        deadline_s=seconds_left(state),
        on_loss=on_loss,
        on_ladder=lambda step: deps.events.emit("note", f"out of memory: {step}"),
    )
    deps.events.emit("note", f"trained {run.steps} steps in {time.monotonic() - started:.0f} s")
    relative = {"weights": deps.folder.relative(Path(run.weights))}
    if run.adapter is not None:
        relative["adapter"] = deps.folder.relative(Path(run.adapter))
    return {"training": run.model_copy(update=relative)}
