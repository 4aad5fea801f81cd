"""The planner decides what the next trial is, or that there is none: it briefs a proposer and writes down its plan."""

from statistics import fmean

from memory.layout import write_record
from memory.records import Attribution, Plan, Task
from memory.state import Changes, State, asked_to_end, open_wishes, refused, seconds_left, trials_left
from nodes.deps import Deps
from nodes.measurement import attribution
from tools.benchmarks.splits import read_items
from tools.earlier_runs import best_recipe
from tools.lengths import row_tokens
from tools.lessons import holding
from tools.proposers import brief as costs
from tools.proposers.brief import Brief, Stop
from tools.sandbox.isolation import isolation


def planner(state: State, deps: Deps) -> Changes:
    """Propose the next trial. The plan lies in the trial's folder before anything is spent on it.

    What a person wished of a plan is in the brief, and is carried by the plan that comes of it. Whoever asked the run
    to end is obeyed here, where no trial is at work.
    """
    wishes, end = open_wishes(state), asked_to_end(state)
    proposal = Stop(reason=f'You said: "{end.text}".') if end else deps.propose(brief(state, deps))
    if isinstance(proposal, Stop):
        deps.events.emit("decision", f"no further trial: {proposal.reason}")
        return {"stop": proposal.reason}
    # As it will come back from a checkpoint: epochs 4 and 4.0 would render, and be hashed, differently after a resume.
    proposal = Plan.model_validate_json(proposal.model_dump_json())
    proposal = proposal.model_copy(update={"wishes": tuple(wish.number for wish in wishes)})
    write_record(deps.folder.trial(proposal.number) / "plan.json", proposal)
    deps.events.trial = proposal.number
    deps.events.emit("note", f"trial {proposal.number}: {proposal.hypothesis}")
    return {"plan": proposal, "trial_started": state.get("spent_seconds", 0.0)}


def brief(state: State, deps: Deps) -> Brief:
    """All that a proposer sees; nothing of it comes from the sealed test."""
    baseline, trials = state.get("baseline"), state.get("trials", [])
    assert baseline is not None, "the baseline comes first"
    items = read_items(deps.items("train"))
    tokens = [row_tokens(item.prompt, item.answer) for item in items]
    return Brief(
        task=state["task"],
        model=deps.model,
        baseline=baseline,
        trials=tuple(trials),
        lessons=holding(state.get("lessons", [])),
        attribution=Attribution() if state["task"].planning.planner == "search" else attribution(state, deps),
        remembered=None if trials else best_recipe(deps.folder, state["task"]),
        wishes=tuple(open_wishes(state)),
        declined=tuple(refused(state)),
        seconds_left=seconds_left(state),
        trials_left=trials_left(state),
        train_rows=len(items),
        row_tokens=costs.measured_row_tokens(trials) or fmean(tokens),
        longest_row=max(round(max(tokens)), costs.measured_longest_row(trials) or 0),
        answer_chars=fmean(len(item.answer) for item in items),
        generated=deps.benchmark.generated,
        closed_answers=deps.benchmark.closed_answers,
        reserve_seconds=deps.reserve_seconds(baseline),
        evaluation_seconds=baseline.zero_shot.seconds + sum(guard.score.seconds for guard in baseline.guards),
        overhead_seconds=costs.measured_overhead(trials) or costs.OVERHEAD_SECONDS[deps.device],
        seconds_per_token=costs.measured_seconds_per_token(trials),
        device=deps.device,
        no_code=no_code(state["task"]),
    )


def no_code(task: Task) -> str:
    """Why generated code cannot run; empty where it can."""
    if task.planning.planner == "search":
        return "this run has no language model to write it."
    if task.allow_weak_sandbox or isolation().level == "strict":
        return ""
    return f"{isolation().reason}, and the person did not give --allow-weak-sandbox."
