"""A session from Python, on quick engines: names, budget, trainings that go on from others, and who may open it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memory.errors import InputError, RunBusyError, TrialError
from memory.layout import RunFolder
from memory.records import TrainingRecipe
from tests import example_run, fake_run
from tools.arena.answers import NewRow
from tools.arena.clock import Clock
from tools.arena.equipment import Equipment
from tools.arena.jobs import Jobs
from tools.arena.places import inside, named
from tools.arena.session import Session
from tools.benchmarks import get
from tools.benchmarks.splits import Sizes
from tools.sandbox.isolation import isolation

RECIPE = TrainingRecipe(learning_rate=1e-3, epochs=2, sequence_len=256)
TWICE = "def twice(row):\n    return [row and {'prompt': row['prompt'], 'answer': row['answer']}] * 2\n"


def kit(folder: Path) -> Equipment:
    """Quick engines and small splits."""
    shop = fake_run.workshop(example_run.task(), folder / "cache", print)
    return Equipment(
        axolotl=shop.engines.axolotl, vllm=shop.engines.vllm, lighteval=shop.engines.lighteval, model=shop.model,
        device="cpu", sizes=Sizes(train=80, validation=30, test=10),
    )  # fmt: skip


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with Session(RunFolder(tmp_path / "s"), get("syllogism"), kit(tmp_path), 600) as one:
        yield one


def rows(session: Session, count: int = 80) -> list[NewRow]:
    return [NewRow(prompt=item.prompt, answer=item.answer) for item in session.datasets.items[:count]]


def test_a_name_stands_for_one_content(session: Session) -> None:
    assert session.datasets.write("a", rows(session)) == session.datasets.write("a", rows(session))
    with pytest.raises(InputError, match="there is another data set a"):
        session.datasets.write("a", rows(session, 10))
    with pytest.raises(InputError, match="is the training split itself"):
        session.datasets.write("train", rows(session))
    assert session.datasets.names == ("a",)


def test_a_question_of_the_training_split_is_graded_and_another_is_not(session: Session) -> None:
    made = session.datasets.write("a", [*rows(session, 5), NewRow(prompt="What is up?", answer="All is well.")])
    assert (made.rows, made.graded) == (6, 5)
    wrong = [each.model_copy(update={"answer": "Perhaps"}) for each in rows(session, 20)]
    session.datasets.write("wrong", wrong)
    found = session.validate("wrong", RECIPE)
    assert not found.passed and (found.kind, found.checks[-1].name) == ("DATA", "golds")


def test_a_function_may_return_several_rows_and_fails_by_name(session: Session) -> None:
    if isolation().level != "strict":
        pytest.skip(f"an agent's code is not run: {isolation().reason}")
    made = session.datasets.process("twice", "train", TWICE, "twice", session.clock.demand)
    assert made.rows == 160
    assert not session.validate("twice", RECIPE).passed, "every row is there twice"
    with pytest.raises(InputError, match="the function returned no row for train-"):
        session.datasets.process("bad", "train", "def f(row):\n    return 7\n", "f", session.clock.demand)


@pytest.mark.slow
def test_a_training_goes_on_from_another_and_its_snapshots_can_be_scored(session: Session) -> None:
    session.datasets.write("a", rows(session))
    first = session.train("a", RECIPE.model_copy(update={"snapshots": 2}))
    assert len(first.snapshots) == 2
    middle = session.evaluate(1, step=first.snapshots[0])
    assert session.evaluate(1).score.value >= middle.score.value and middle.id.startswith("training-1_step-")
    second = session.train("a", RECIPE.model_copy(update={"continue_from": 1}))
    assert second.number == 2 and second.first_loss is not None and first.first_loss is not None
    assert second.first_loss < first.first_loss
    with pytest.raises(InputError, match="kept no weights at step 7"):
        session.evaluate(2, step=7)
    with pytest.raises(TrialError, match="there is no training 9"):
        session.train("a", RECIPE.model_copy(update={"continue_from": 9}))
    with pytest.raises(InputError, match="the final test is closed"):
        session.final_test(1)


def test_an_objective_whose_rows_an_agent_cannot_write_is_refused(session: Session) -> None:
    session.datasets.write("pairs", rows(session))
    with pytest.raises(InputError, match="not towards dpo"):
        session.train("pairs", RECIPE.model_copy(update={"objective": "dpo"}))


@pytest.mark.slow
def test_the_budget_ends_a_training_that_is_at_work(session: Session) -> None:
    session.datasets.write("a", rows(session))

    def spend(line: str) -> None:
        if line.startswith("training 1: step 2 "):
            session.clock.budget_s = 0.0

    with pytest.raises(TrialError, match="the budget ended at step 3 of 20") as ended:
        session.train("a", RECIPE, spend)
    assert ended.value.kind == "BUDGET" and session.trainings.all() == ()


def test_a_session_has_one_owner_one_task_and_one_model(session: Session, tmp_path: Path) -> None:
    with pytest.raises(RunBusyError):
        Session(session.folder, get("syllogism"), kit(tmp_path), 600)
    session.close()
    with pytest.raises(InputError, match="another task or model"):
        Session(session.folder, get("aiw"), kit(tmp_path), 600)


@pytest.mark.parametrize(
    "way", ["../secret.jsonl", "{root}/secret.jsonl", "link.jsonl", "folder/../../secret.jsonl", "linked/secret.jsonl"]
)
def test_no_way_leads_out_of_the_folder(tmp_path: Path, way: str) -> None:
    folder = tmp_path / "incoming"
    (folder / "folder").mkdir(parents=True)
    (tmp_path / "secret.jsonl").write_text("{}")
    (folder / "link.jsonl").symlink_to(tmp_path / "secret.jsonl")
    (folder / "linked").symlink_to(tmp_path)
    (folder / "folder/mine.jsonl").write_text("{}")
    assert inside(folder, "folder/mine.jsonl").read_text() == "{}"
    with pytest.raises(InputError, match="lies outside incoming/"):
        inside(folder, way.format(root=tmp_path))


@pytest.mark.parametrize("name", ["../x", "/x", "a/b", "A", "", ".", "x\n", "x" * 65])
def test_what_is_no_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="cannot name a data set"):
        named(tmp_path, name)


def test_a_restart_gives_no_time_back(tmp_path: Path) -> None:
    first = Clock(tmp_path / "clock.json", 100.0)
    first._began -= 60
    first.demand()
    second = Clock(tmp_path / "clock.json", 100.0)
    assert 39 < second.demand() < 41
    second._began -= 60
    with pytest.raises(InputError, match="the budget of 100 s is spent"):
        second.demand()


def test_a_job_that_fails_says_why_and_an_unknown_one_what_to_do() -> None:
    def refuse(_: object) -> None:
        raise InputError("no", "Do otherwise.")

    jobs = Jobs()
    job = jobs.look(jobs.start("training", refuse).id, 10)  # type: ignore[arg-type]
    assert (job.state, job.says) == ("failed", "no. Do otherwise.")
    with pytest.raises(InputError, match="no job 'job-7'"):
        jobs.look("job-7", 0)
    jobs.close()
