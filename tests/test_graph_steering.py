"""What people say to a run: answers resume it, messages become checkpoints, and of two answers the first counts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import ValidationError

from graph.build import build
from graph.history import Entry, history
from graph.inbox import drop, letters
from graph.message import post
from graph.runner import compiled, open_database
from graph.runs import past_events
from graph.snapshot import read_snapshot
from graph.steering import came_from
from memory.errors import InputError, ServerError, StoppedError
from memory.layout import read_record
from memory.records import Budget, Plan, Question, Task
from memory.state import State
from tests import example_run
from tests.steered_run import SteeredRun, begun


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("steered")


def waiting(run: SteeredRun) -> Question:
    """The question that the run comes to."""
    _, question = run.go_on()
    assert question is not None
    return question


def dying(run: SteeredRun) -> Callable[[], None]:
    """What ends the process once, as a server that dies does."""

    def dies() -> None:
        run.happens = {}
        raise ServerError("the server died")

    return dies


def told(run: SteeredRun) -> list[Entry]:
    with open_database(run.folder) as database:
        return history(compiled(database), run.folder)


def events(run: SteeredRun, kind: str) -> list[str]:
    return [event.says for event in past_events(run.folder) if event.kind == kind]


@pytest.mark.parametrize(
    ("approve", "node", "before"),
    [("plan", "data_engineer", "planner"), ("data", "validator", "data_engineer"), ("train", "trainer", "validator")],
)
def test_the_run_waits_before_the_node_and_a_yes_lets_it_go_on(
    tmp_path: Path, approve: str, node: str, before: str
) -> None:
    run = begun(tmp_path, approve=approve, budget=Budget(seconds=1800, max_trials=1))
    question = waiting(run)
    assert (question.place, question.plan.number, question.trials_left) == (approve, 1, 1)
    assert (question.rows is None) == (approve == "plan")
    assert (question.training_seconds is None) == (approve != "train")
    assert run.worked[-1][0] == before
    seen = read_snapshot(run.folder)
    assert seen is not None
    assert seen.question == question
    assert seen.following == node
    assert waiting(run).id == question.id, "a run that is resumed asks the same"
    assert post(run.folder, '{"approve": true}') == "trial 1 goes on"
    state, question_left = run.go_on()
    assert question_left is None
    assert len(state["trials"]) == 1
    assert run.worked.count((node, 1)) == 1
    assert [wish.text for wish in state["wishes"]] == ["yes"]
    assert letters(run.folder) == []
    assert not any("too late" in says for says in events(run, "note"))
    assert any("said: yes" in entry.happened for entry in told(run))


def test_a_no_with_a_wish_drops_the_plan_and_the_next_one_carries_it(tmp_path: Path) -> None:
    run = begun(tmp_path, approve="plan", budget=Budget(seconds=1800, max_trials=1))
    first = waiting(run).plan
    promised = post(run.folder, "use fewer epochs, and drop samples over 400 characters")
    assert promised == "the plan of trial 1 is dropped; the planner makes another with your wish"
    question = waiting(run)
    second = question.plan
    assert (first.number, second.number, question.trials_left) == (1, 1, 1)
    assert second.training.epochs == first.training.epochs / 2
    assert "<= 400" in second.data.model_dump_json()
    assert second.wishes == (1,)
    assert "You said" in second.hypothesis
    assert read_record(run.folder.trial(1) / "plan.json", Plan) == second
    post(run.folder, "no, and a lower learning rate")
    third = waiting(run).plan
    assert third.wishes == (1, 2), "a declined plan has carried nothing"
    assert third.training.epochs == second.training.epochs
    assert third.training.learning_rate < second.training.learning_rate
    post(run.folder, "yes")
    state, _ = run.go_on()
    assert [trial.plan for trial in state["trials"]] == [third]
    happened = [entry.happened for entry in told(run)]
    assert "said: no, and a lower learning rate; the plan of trial 1 is declined" in happened
    assert ("data_engineer", 1) in run.worked
    assert run.worked.count(("data_engineer", 1)) == 1


def test_a_plain_no_is_answered_with_no_plan_that_was_seen_before(tmp_path: Path) -> None:
    run = begun(tmp_path, approve="plan", budget=Budget(seconds=1800, max_trials=1))
    seen: list[Plan] = []
    for answer in ("no, use fewer epochs", "no", "no"):
        seen.append(waiting(run).plan)
        post(run.folder, answer)
    seen.append(waiting(run).plan)
    assert [plan.wishes for plan in seen] == [(), (1,), (), ()]
    recipes = [(plan.data, plan.training) for plan in seen]
    assert all(recipe not in recipes[:place] for place, recipe in enumerate(recipes))
    post(run.folder, '{"approve": true, "text": "stop after this trial"}')
    state, _ = run.go_on()
    assert state["wishes"][-1].text == "yes, stop after this trial"
    assert [one.plan for one in state["declined"]] == seen[:3]
    assert [trial.plan for trial in state["trials"]] == seen[3:]


def test_an_answer_while_the_process_waits_is_taken_at_once(tmp_path: Path) -> None:
    run = begun(tmp_path, approve="plan", budget=Budget(seconds=1800, max_trials=1))
    question = waiting(run)
    late = threading.Timer(0.5, lambda: post(run.folder, "yes"))
    late.start()
    state, left = run.go_on(patience=30)
    late.join()
    assert left is None
    assert len(state["trials"]) == 1
    shown = events(run, "question")
    assert shown.count("waiting for your answer. Approve the plan of trial 1") == 2
    assert any(question.plan.hypothesis in line for line in shown), "a person at the terminal sees what is asked"
    assert f"--answer {run.folder.root} TEXT" in shown[-1]
    assert question.id
    assert state["spent_seconds"] < 30


def test_a_yes_outlives_the_death_of_the_node_that_it_was_for(tmp_path: Path) -> None:
    run = begun(tmp_path, approve="plan", budget=Budget(seconds=1800, max_trials=1))
    waiting(run)
    post(run.folder, "yes")
    run.happens = {("data_engineer", 1): dying(run)}
    with pytest.raises(ServerError):
        run.go_on()
    state, question = run.go_on()
    assert question is None
    assert run.worked.count(("data_engineer", 1)) == 2
    assert [wish.text for wish in state["wishes"]] == ["yes"]


def test_a_studio_answers_in_json_and_a_bad_answer_can_be_given_again(tmp_path: Path) -> None:
    run = begun(tmp_path, approve="plan", budget=Budget(seconds=1800, max_trials=1))
    task = read_record(run.folder.task, Task)
    config: RunnableConfig = {"configurable": {"thread_id": "studio"}}
    with run.tools() as deps:
        graph = build(lambda _: deps, run.nodes()).compile(checkpointer=InMemorySaver())
        asked = graph.invoke(State(task=task), config)
        assert asked["__interrupt__"][0].value["place"] == "plan"
        with pytest.raises(ValidationError, match="'make coffee' is not understood"):
            graph.invoke(Command(resume={"approve": False, "text": "make coffee"}), config)
        asked = graph.invoke(Command(resume={"approve": False, "text": "fewer epochs"}), config)
        assert asked["__interrupt__"][0].value["plan"]["wishes"] == [1]
        ended = graph.invoke(Command(resume={"approve": True}), config)
    assert [wish.text for wish in ended["wishes"]] == ["fewer epochs", "yes"]
    assert len(ended["trials"]) == 1


def test_of_two_answers_the_first_counts_and_the_second_is_told(tmp_path: Path) -> None:
    run = begun(tmp_path, approve="plan", budget=Budget(seconds=1800, max_trials=1))
    refused: list[str] = []

    def second() -> None:
        with pytest.raises(InputError) as error:
            post(run.folder, "no")
        refused.append(str(error.value))

    run.happens = {("data_engineer", 1): second}
    waiting(run)
    post(run.folder, "yes")
    second()
    run.go_on()
    assert refused[0].startswith("that question has been answered already: 'yes'")
    assert len(refused) == 2
    with pytest.raises(InputError, match="the run has finished"):
        post(run.folder, "yes")


def test_an_answer_to_a_question_that_is_over_has_no_effect(tmp_path: Path) -> None:
    run = begun(tmp_path, approve="plan", budget=Budget(seconds=36_000, max_trials=2))
    question = waiting(run)
    run.happens = {("trainer", 1): lambda: drop(run.folder, "no", question.subject)}
    post(run.folder, "yes")
    assert waiting(run).plan.number == 2
    assert any("'no' came too late" in says for says in events(run, "note"))
    assert letters(run.folder) == []


def test_what_is_said_meanwhile_is_a_checkpoint_and_is_carried_once(tmp_path: Path) -> None:
    run = begun(tmp_path, budget=Budget(seconds=36_000, max_trials=3))
    run.happens = {("trainer", 1): lambda: post(run.folder, "try a lower learning rate and add 10 minutes")}
    state, _ = run.go_on()
    first, second, third = state["trials"]
    assert [trial.plan.wishes for trial in (first, second, third)] == [(), (1,), ()]
    assert second.plan.change is not None
    assert "learning_rate" in second.plan.change.factor + second.plan.change.after
    assert state["task"].budget.seconds == read_record(run.folder.task, Task).budget.seconds == 36_600
    entries = told(run)
    (said,) = [entry for entry in entries if entry.happened.startswith("said")]
    assert said.happened == "said: try a lower learning rate and add 10 minutes; budget 10h00m -> 10h10m"
    assert said.following == "analyst"
    assert run.worked.count(("trainer", 1)) == 1, "nothing is repeated for it"
    assert [event.value for event in past_events(run.folder) if event.kind == "budget"] == [36_600]


def test_a_message_while_a_question_waits_leaves_it_waiting(tmp_path: Path) -> None:
    run = begun(tmp_path, approve="plan", budget=Budget(seconds=1800, max_trials=1))
    before = waiting(run)
    post(run.folder, "budget 1h")
    post(run.folder, "yes")
    state, question = run.go_on()
    assert question is None
    assert state["task"].budget.seconds == 3600
    assert [wish.text for wish in state["wishes"]] == ["budget 1h", "yes"]
    assert state["trials"][0].plan == before.plan


def test_stop_asking_lets_the_run_go_on(tmp_path: Path) -> None:
    run = begun(tmp_path, approve="plan", budget=Budget(seconds=1800, max_trials=1))
    waiting(run)
    assert post(run.folder, "stop asking") == "you are not asked any more"
    state, question = run.go_on()
    assert question is None
    assert len(state["trials"]) == 1


def test_stop_after_this_trial_ends_the_run_unless_it_is_taken_back(tmp_path: Path) -> None:
    run = begun(tmp_path, budget=Budget(seconds=36_000, max_trials=3))
    run.happens = {
        ("data_engineer", 1): lambda: post(run.folder, "stop after this trial"),
        ("trainer", 1): lambda: post(run.folder, "go on"),
        ("trainer", 2): lambda: post(run.folder, "stop after this trial"),
    }
    state, _ = run.go_on()
    assert len(state["trials"]) == 2
    assert state["stop"] == 'You said: "stop after this trial".'
    assert state["test"] is not None


def test_stop_ends_the_process_after_the_node_at_work_and_the_run_can_go_on(tmp_path: Path) -> None:
    run = begun(tmp_path, budget=Budget(seconds=1800, max_trials=1))
    run.happens = {("validator", 1): lambda: post(run.folder, "stop")}
    with pytest.raises(StoppedError):
        run.go_on()
    assert run.worked[-1] == ("validator", 1)
    with pytest.raises(InputError, match="nothing to stop"):
        post(run.folder, "stop")
    state, _ = run.go_on()
    assert len(state["trials"]) == 1
    assert run.worked.count(("validator", 1)) == 1


def test_a_stop_that_nobody_read_does_not_stop_the_next_process(tmp_path: Path) -> None:
    run = begun(tmp_path, budget=Budget(seconds=1800, max_trials=1))
    drop(run.folder, "stop now")
    state, _ = run.go_on()
    assert len(state["trials"]) == 1
    assert [wish.text for wish in state["wishes"]] == ["stop now"]


def test_what_is_said_before_the_baseline_does_not_skip_it(tmp_path: Path) -> None:
    run = begun(tmp_path, budget=Budget(seconds=1800, max_trials=1))
    run.happens = {("analyst", None): dying(run)}
    with pytest.raises(ServerError):
        run.go_on()
    assert post(run.folder, "add 10 minutes") == "the budget grows by 10m"
    state, _ = run.go_on()
    assert run.worked[:3] == [("analyst", None), ("analyst", None), ("planner", None)]
    assert state["baseline"] is not None
    assert state["task"].budget.seconds == 2400


def test_a_letter_that_was_read_before_a_kill_is_not_read_twice(tmp_path: Path) -> None:
    run = begun(tmp_path, budget=Budget(seconds=1800, max_trials=1))
    again = drop(run.folder, "add 10 minutes")
    run.happens = {("trainer", 1): lambda: again.path.write_text(again.letter.model_dump_json())}
    state, _ = run.go_on()
    assert state["task"].budget.seconds == 2400
    assert len(state["wishes"]) == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("yes", "nothing waits for a yes or no"),
        ("make it better", "'make it better' is not understood. What can be said: yes / no"),
        ("go back to trial 7", "there is no trial 7 to go back to. No trial has ended yet."),
        ("go on", "nobody asked the run to end"),
        ("budget 0.2s", "a budget of 0s leaves no time"),
        ("learning rate -1", "is not understood"),
        ("dropout 7", "'7' is no value for plan.lora_dropout"),
        ("", "nothing was said"),
        ('{"approve": "perhaps"}', "that is no answer"),
    ],
)
def test_what_can_have_no_effect_is_refused_at_once(tmp_path: Path, text: str, says: str) -> None:
    run = begun(tmp_path, budget=Budget(seconds=1800, max_trials=1))
    run.happens = {("planner", None): lambda: refused.append(refusal(run, text))}
    refused: list[str] = []
    run.go_on()
    assert says in refused[0]
    assert letters(run.folder) == []


def refusal(run: SteeredRun, text: str) -> str:
    with pytest.raises(InputError) as error:
        post(run.folder, text)
    return str(error.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("yes, but use fewer epochs", "a yes takes the plan as it is"),
        ("yes, no", "says yes and no"),
        ("yes, and add 10 minutes", "is more than an answer"),
        ('{"approve": true, "text": "fewer epochs"}', "a yes takes the plan as it is"),
        ("no, use fewer epochs and stop after this trial", "the next plan cannot carry anything where the run ends"),
    ],
)
def test_an_answer_that_contradicts_itself_is_refused_and_the_question_waits_on(
    tmp_path: Path, text: str, says: str
) -> None:
    run = begun(tmp_path, approve="plan", budget=Budget(seconds=1800, max_trials=1))
    waiting(run)
    assert says in refusal(run, text)
    assert waiting(run).plan.number == 1


def test_what_is_said_between_two_nodes_leads_on_to_the_second(tmp_path: Path) -> None:
    plan = example_run.plan(1)
    folder = begun(tmp_path).folder
    baseline = example_run.baseline(folder)
    for state, coming, before in (
        (State(baseline=None), "analyst", "__start__"),
        (State(baseline=baseline, stop="enough"), "analyst", "planner"),
        (State(baseline=baseline, stop=None, plan=plan), "analyst", "trainer"),
        (State(baseline=baseline, plan=None), "planner", "analyst"),
        (State(baseline=baseline, plan=plan), "data_engineer", "planner"),
        (State(baseline=baseline, plan=plan), "validator", "data_engineer"),
        (State(baseline=baseline, plan=plan), "trainer", "validator"),
    ):
        assert came_from(state, coming) == before
