"""A small run by hand: records and files as the nodes would leave them, for tests of what reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from graph.routes import after_analyst, after_data_engineer, after_planner, after_trainer, after_validator
from graph.runner import beginning, config_of, open_database
from memory.checkpointer import DuckDBSaver
from memory.layout import RunFolder, write_record, write_rows
from memory.records import (
    Baseline,
    BaseModelCard,
    Budget,
    Change,
    Check,
    Comparison,
    DataRecipe,
    DatasetCard,
    Failure,
    Lesson,
    LossPoint,
    Outcome,
    Plan,
    Score,
    SealedTest,
    Select,
    Task,
    TrainingRecipe,
    TrainingRun,
    Trial,
    Verdict,
)
from memory.state import Changes, State, ended
from tools import report

Split = Literal["train", "validation", "test"]
MODEL = BaseModelCard(
    name="smollm2", path="/models/smollm2", chat_template="own", sha256="m" * 64, parameters=134_515_008,
    hidden_size=576, layers=30,
)  # fmt: skip


def task(**changes: object) -> Task:
    """A task of half an hour."""
    budget = Budget(seconds=1800, max_trials=5)
    return Task(base_model="smollm2", benchmark="syllogism", metric="exact", budget=budget).model_copy(update=changes)


def score(folder: RunFolder, place: str, right: Sequence[int], *, split: Split = "validation", shots: int = 0) -> Score:
    """A score over one item for each 0 or 1 of `right`, with its outcomes file at `place`."""
    outcomes = [
        Outcome(
            id=f"item-{number}", prompt=f"Question {number}?", output="Yes" if one else "\0 Nöpe",
            answer="Yes" if one else None, gold="Yes", score=one, finish="stop", output_tokens=2,
        )
        for number, one in enumerate(right)
    ]  # fmt: skip
    path = f"{place}/outcomes.jsonl"
    write_rows(folder.resolve(path), outcomes)
    value = sum(right) / len(right)
    return Score(
        metric="exact", split=split, shots=shots, value=value, n=len(right), stderr=0.1, ci_low=max(0.0, value - 0.2),
        ci_high=min(1.0, value + 0.2), parsed=sum(right), outcomes=path, seconds=10, generation_seconds=8,
    )  # fmt: skip


def baseline(folder: RunFolder) -> Baseline:
    """One of four right zero-shot, two of four few-shot."""
    return Baseline(
        model=MODEL,
        zero_shot=score(folder, "baseline/zero_shot", [0, 0, 0, 1]),
        few_shot=score(folder, "baseline/few_shot", [0, 0, 1, 1], shots=5),
    )


def plan(number: int, parent: int | None = None, change: Change | None = None, **recipe: object) -> Plan:
    """A plan of 100 rows, two epochs."""
    return Plan(
        number=number, parent=parent, diagnosis="loss still falling", hypothesis="more of it helps", change=change,
        expected_gain=0.1, data=DataRecipe(operators=(Select(rows=100),)), proposer="search", predicted_seconds=200,
        training=TrainingRecipe.model_validate({"learning_rate": 0.001, "epochs": 2} | recipe),
    )  # fmt: skip


def dataset(folder: RunFolder, number: int) -> DatasetCard:
    """The card of a training file that lies in the trial's folder."""
    path = f"trials/{number}/data.jsonl"
    folder.trial(number).joinpath("data.jsonl").write_text('{"id": "a"}\n')
    return DatasetCard(path=path, sha256="d" * 64, rows=100, mean_answer_chars=3, groups=())


def training(folder: RunFolder, number: int) -> TrainingRun:
    """A training with weights in the trial's folder."""
    weights = f"trials/{number}/train/merged"
    folder.resolve(weights).mkdir(parents=True, exist_ok=True)
    folder.resolve(f"{weights}/model.safetensors").write_text("weights")
    points = [
        LossPoint(step=s, epoch=s / 10, loss=2 / s, learning_rate=0.001, grad_norm=1, seconds=s) for s in (1, 2, 4)
    ]
    return TrainingRun(
        weights=weights, adapter=None, weights_sha256="w" * 64, config_sha256="c" * 64, losses=tuple(points), steps=4,
        step_seconds=1.0, tokens=4000, seconds=60, train_seconds=40, peak_memory_bytes=10**9, micro_batch=8,
    )  # fmt: skip


def trial(folder: RunFolder, planned: Plan, right: Sequence[int], decision: Literal["accepted", "rejected"]) -> Trial:
    """A trial that was judged on four items, two of which the base model had right."""
    write_record(folder.trial(planned.number) / "plan.json", planned)
    scored = score(folder, f"trials/{planned.number}/eval/validation", right)
    difference = scored.value - 0.5
    return Trial(
        plan=planned, decision=decision, arithmetic=f"{difference:+.2f}", dataset=dataset(folder, planned.number),
        training=training(folder, planned.number), score=scored,
        train_score=score(folder, f"trials/{planned.number}/eval/probe", right, split="train"),
        comparison=Comparison(
            against="base few-shot", n=4, difference=difference, ci_low=-0.1, ci_high=0.6, wins=2, losses=0,
            p_value=0.002, method="mcnemar",
        ),
        seconds=100,
    )  # fmt: skip


def failed_trial(planned: Plan) -> Trial:
    """A trial that the validator refused."""
    failure = Failure(kind="CONTAMINATION", node="validator", message="3 rows of validation in the data")
    return Trial(plan=planned, decision="failed", arithmetic="refused", failure=failure, seconds=5)


def sealed_test(folder: RunFolder, winner: int) -> SealedTest:
    """The sealed test of a run that improved."""
    better = Comparison(
        against="base zero-shot",
        n=4,
        difference=0.75,
        ci_low=0.1,
        ci_high=1,
        wins=3,
        losses=0,
        p_value=0.01,
        method="mcnemar",
    )
    return SealedTest(
        zero_shot=score(folder, "test/base/zero_shot", [0, 0, 0, 1], split="test"),
        few_shot=score(folder, "test/base/few_shot", [0, 0, 1, 1], split="test", shots=5),
        tuned=score(folder, "test/tuned/tuned", [1, 1, 1, 1], split="test"),
        winner=winner, against_zero=better, against_few=better, constant=None,
    )  # fmt: skip


def finished(folder: RunFolder) -> State:
    """Baseline, an accepted trial, a failed one, one accepted on top, lessons, and the sealed test."""
    change = Change(factor="learning_rate", before="0.001", after="0.003")
    trials = [
        trial(folder, plan(1), [0, 1, 1, 1], "accepted"),
        failed_trial(plan(2, 1)),
        trial(folder, plan(3, 1, change, learning_rate=0.003), [1, 1, 1, 0], "accepted"),
    ]
    return State(
        task=task(), version=1, baseline=baseline(folder), plan=None, dataset=None, verdict=None, training=None,
        trials=trials, lessons=[Lesson(text="learning_rate helped", trials=(1, 3), evidence="+0.25")],
        stop="no trials left", test=sealed_test(folder, 3), spent_seconds=400.0, trial_started=0.0,
    )  # fmt: skip


# --- a run as the graph leaves it ------------------------------------------------------------------------------------

Step = Callable[[RunFolder], Changes]
CHANGE = Change(factor="learning_rate", before="0.001", after="0.003")

STEPS: tuple[Step, ...] = (
    lambda folder: {"baseline": baseline(folder)},
    lambda folder: {"plan": plan(1)},
    lambda folder: {"dataset": dataset(folder, 1)},
    lambda folder: {"verdict": VERDICT},
    lambda folder: {"training": training(folder, 1)},
    lambda folder: ended(trial(folder, plan(1), [0, 1, 1, 1], "accepted")),
    lambda folder: {"plan": plan(2, 1)},
    lambda folder: {"dataset": dataset(folder, 2)},
    lambda folder: ended(failed_trial(plan(2, 1))),
    lambda folder: {"plan": plan(3, 1, CHANGE, learning_rate=0.003)},
    lambda folder: {"dataset": dataset(folder, 3)},
    lambda folder: {"verdict": VERDICT},
    lambda folder: {"training": training(folder, 3)},
    lambda folder: ended(trial(folder, plan(3, 1, CHANGE, learning_rate=0.003), [1, 1, 1, 1], "accepted")),
    lambda folder: {"stop": "no trials left"},
    lambda folder: {"test": sealed_test(folder, 3)},
)
"""What the nodes return, one after the other: an accepted trial, one that the validator refuses, one accepted."""


class ScriptEndsError(Exception):
    """The run is stopped here, as an error outside any trial would stop it."""


def end_of_script() -> None:
    """What the node after the last step does, unless a test wants something else to happen there."""
    raise ScriptEndsError("no step left")


def play(folder: RunFolder, steps: int = len(STEPS), then: Callable[[], None] = end_of_script) -> None:
    """Carry a run through its first `steps` nodes: real routes, checkpoints and files, but nothing is trained."""
    from langgraph.graph import START, StateGraph  # after `graph`, which settles what checkpoints may hold

    left = iter(STEPS[:steps])

    def node(state: State) -> Changes:
        step = next(left, None)
        if step is None:
            then()
            return {}
        return {**step(folder), "spent_seconds": 10.0}

    graph = StateGraph(State)
    for name in ("analyst", "planner", "data_engineer", "validator", "trainer"):
        graph.add_node(name, node)
    graph.add_edge(START, "analyst")
    for name, route in ROUTES.items():
        graph.add_conditional_edges(name, route)
    write_record(folder.task, task())
    folder.data.mkdir(mode=0o700, exist_ok=True)
    folder.data.joinpath("train.jsonl").write_text("{}\n")
    folder.sealed.mkdir(mode=0o700, exist_ok=True)
    folder.sealed.joinpath("test.jsonl").touch(mode=0o600)
    with open_database(folder) as database:
        try:
            state = graph.compile(checkpointer=DuckDBSaver(database)).invoke(beginning(task()), config_of(folder))
            write_record(folder.root / "report.json", run_report(folder, State(**state)))
        except ScriptEndsError:
            pass


def run_report(folder: RunFolder, state: State) -> report.RunReport:
    """The report that the last node would have written."""
    assert state["baseline"] is not None
    assert state["test"] is not None
    return report.RunReport(
        run_id=folder.id, task=state["task"], baseline=state["baseline"], trials=tuple(state["trials"]),
        lessons=tuple(state["lessons"]), test=state["test"], decision=report.judge(state["test"], "no trials left"),
        budget=report.spent(state, state["spent_seconds"], 1), lineage=report.lineage(state, {}, {}, None),
        serve="vllm serve model",
    )  # fmt: skip


ROUTES = {
    "analyst": after_analyst,
    "planner": after_planner,
    "data_engineer": after_data_engineer,
    "validator": after_validator,
    "trainer": after_trainer,
}
VERDICT = Verdict(
    checks=(Check(name="schema", figure=100, unit="rows", passed=True, says="100 rows are whole"),),
    step_seconds=1.0, predicted_seconds=90, tokens=4000, supervised_tokens=300, longest_row=60,
)  # fmt: skip
