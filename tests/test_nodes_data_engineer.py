"""The data engineer: a recipe that asks a model becomes a training file, once, and says what it dropped and why."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from memory.errors import TrialError
from memory.events import Events
from memory.layout import RunFolder
from memory.records import (
    Augment,
    Budget,
    DataRecipe,
    Filter,
    Judge,
    Operator,
    Order,
    Outcome,
    PassRate,
    Plan,
    Select,
    SelfDistil,
    Task,
    TrainingRecipe,
    TrainingRun,
    Trial,
)
from memory.state import State
from nodes.data_engineer import data_engineer, seconds_for_data
from nodes.deps import Deps, Engines
from tests.data_steps import workroom
from tests.score_engines import fake, fake_model, fake_weights
from tests.scripted_llm import playing
from tools.benchmarks import get
from tools.benchmarks.benchmark import Item
from tools.benchmarks.splits import Sizes, read_items, write_splits
from tools.data import read_training_rows
from tools.operators.rows import item_id
from tools.row_checks import check_rows
from tools.serving import Server
from tools.warm_engine import WarmEngine

SPELLING = get("spell_backward")
"""Its answers are open, and grading them is quick."""


@dataclass
class Scripted(Deps):
    """Asks a model that solves short words never, of four letters the first sample, of five the first three, and of six
    the first five."""

    asked: list[tuple[int | None, int, int, float]] = field(default_factory=list)

    def sample(
        self, trials: Sequence[Trial], number: int | None, items: Sequence[Item], samples: int, temperature: float
    ) -> list[Outcome]:
        self.asked.append((number, len(items), samples, temperature))
        return [self.outcome(item, sample) for item in items for sample in range(samples)]

    def outcome(self, item: Item, sample: int) -> Outcome:
        output = item.answer if sample < 2 * len(item.answer) - 7 else f"{item.answer}x"
        graded = self.benchmark.grade(output, item)
        return Outcome(
            id=item.id,
            sample=sample,
            prompt=item.prompt,
            output=output,
            answer=graded.answer,
            gold=item.answer,
            score=graded.score,
            finish="stop",
            output_tokens=5,
        )


@pytest.fixture
def engines(tmp_path: Path) -> Iterator[tuple[Server, WarmEngine]]:
    """Stand-ins that start at their first use."""
    with (
        Server(fake("vllm"), fake_model(tmp_path / "base"), tmp_path / "server") as server,
        WarmEngine(fake("lighteval"), tmp_path / "warm") as scorer,
    ):
        yield server, scorer


def deps(kind: type[Deps], root: Path, engines: tuple[Server, WarmEngine]) -> Any:
    """A run's hands with real splits; the ledger and the proposer are not the data engineer's."""
    folder = RunFolder(root / "run")
    sizes = Sizes(train=60, validation=10, test=10)
    server, scorer = engines
    return kind(
        folder=folder,
        benchmark=SPELLING,
        model=server.model,
        splits=write_splits(SPELLING, folder.data, folder.sealed, sizes, 0),
        engines=Engines(fake("axolotl"), fake("vllm"), fake("lighteval")),
        locks={},
        device="cpu",
        ledger=cast(Any, None),
        events=Events(folder.events),
        server=server,
        scorer=scorer,
        axolotl=fake("axolotl"),
        propose=cast(Any, None),
    )


def state(*operators: Operator, trials: Sequence[Trial] = (), order: str = "shuffled") -> State:
    training = TrainingRecipe.model_validate({"learning_rate": 1e-3, "epochs": 1, "order": order})
    plan = Plan(
        number=len(trials) + 1,
        parent=None,
        diagnosis="none",
        hypothesis="none",
        change=None,
        expected_gain=0,
        data=DataRecipe(operators=operators),
        training=training,
        proposer="search",
        predicted_seconds=0,
    )
    task = Task(base_model="small", benchmark="spell_backward", metric="accuracy", budget=Budget(seconds=600))
    return {"task": task, "plan": plan, "trials": list(trials)}


def trained(number: int, weights: str, sha256: str) -> Trial:
    """A trial of which only the weights matter."""
    run = TrainingRun.model_validate(
        {
            "weights": weights,
            "adapter": None,
            "weights_sha256": sha256,
            "config_sha256": "c",
            "losses": (),
            "steps": 1,
            "step_seconds": 1,
            "tokens": 1,
            "seconds": 1,
            "train_seconds": 1,
            "peak_memory_bytes": 1,
            "micro_batch": 1,
        }
    )
    plan = state()["plan"]
    assert plan is not None
    plan = plan.model_copy(update={"number": number})
    return Trial(plan=plan, decision="accepted", arithmetic="none", training=run, seconds=1)


def said(hands: Deps) -> list[str]:
    return [json.loads(line)["says"] for line in hands.folder.events.read_text().splitlines()]


def test_hard_questions_are_found_augmented_and_answered_by_the_model_itself(
    tmp_path: Path, engines: tuple[Server, WarmEngine]
) -> None:
    hands = deps(Scripted, tmp_path, engines)
    at_work = state(
        Select(rows=40),
        PassRate(rows=40),
        Filter(where="pass_rate < 1"),
        Augment(prompts=("{prompt} Only the word.",)),
        SelfDistil(rows=100, samples=8),
        Order(by="difficulty"),
    )
    card = data_engineer(at_work, hands)["dataset"]
    assert card is not None
    path = hands.folder.resolve(card.path)
    rows = read_training_rows(path)
    items = {item.id: item for item in read_items(hands.items("train"))}
    lengths = [len(items[item_id(row.id)].answer) for row in rows]
    assert set(lengths) == {4, 5}, "words of six are solved four times of four, shorter ones never"
    assert lengths == sorted(lengths, reverse=True)
    assert {row.answered_by for row in rows} == {"model"}
    assert sum(row.prompt.endswith("Only the word.") for row in rows) == len(rows) / 2
    assert all(check.passed for check in check_rows(path, SPELLING, items))
    dropped = {(each.step.split()[0], each.reason): each.rows for each in card.dropped}
    assert dropped["select", "not among the 40 selected"] == 20
    never = dropped.get(("self-distil", "the scorer accepts none of 8 outputs of the base model"), 0)
    assert (40 - dropped["filter", "not: pass_rate < 1"]) * 2 - never == len(rows)
    assert hands.asked[0] == (None, 40, 4, 0.7)
    says = said(hands)
    assert "the order of the rows has no effect: the training shuffles them" in says
    assert any(each.startswith("filter pass_rate < 1 dropped ") for each in says)
    assert any(each.startswith("the base model scores ") for each in says)
    assert data_engineer(at_work, hands)["dataset"] == card
    assert len(hands.asked) == 2, "a finished file is found again"


def test_a_changed_model_gives_a_new_file(tmp_path: Path, engines: tuple[Server, WarmEngine]) -> None:
    hands = deps(Scripted, tmp_path, engines)
    recipe = PassRate(rows=10, trial=1)
    with pytest.raises(TrialError, match="trial 1, which has no weights here"):
        data_engineer(state(recipe), hands)
    first = data_engineer(state(recipe, trials=[trained(1, "w", "one")]), hands)["dataset"]
    again = data_engineer(state(recipe, trials=[trained(1, "w", "one")]), hands)["dataset"]
    other = data_engineer(state(recipe, trials=[trained(1, "w", "two")]), hands)["dataset"]
    assert first is not None
    assert other is not None
    assert first == again
    assert first.path != other.path
    assert [asked[0] for asked in hands.asked] == [1, 1]


def by_length(body: dict[str, Any]) -> dict[str, Any]:
    """A judge who likes words of more than four letters."""
    word = body["messages"][0]["content"].partition("sun -> nus): ")[2].split()[0]
    return {"text": {"reason": "its length", "score": 5 if len(word) > 4 else 2}}


def test_language_models_judge_rows_after_a_rehearsal_that_is_told_and_kept(
    tmp_path: Path, engines: tuple[Server, WarmEngine]
) -> None:
    hands, at_work = deps(Deps, tmp_path, engines), state(Select(rows=30), Judge(rubric="a long word"))
    hands.begin("data_engineer", 1)
    with pytest.raises(TrialError, match="this run has no language model"):
        data_engineer(at_work, hands)
    with playing(by_length) as (url, script):
        hands.writers = workroom(tmp_path, url).writers
        card = data_engineer(at_work, hands)["dataset"]
        assert data_engineer(at_work, hands)["dataset"] == card
        assert len(script.asked) == 30, "a finished file is found again"
        hands.writers = replace(
            hands.writers, templates={**hands.writers.templates, "judge": "{{ form }}{{ rubric }}{{ row }}"}
        )
        other = data_engineer(at_work, hands)["dataset"]
    assert card is not None and other is not None
    assert card.path != other.path, "another prompt gives another file"
    (rehearsal,) = card.rehearsals
    assert (rehearsal.calls, rehearsal.whole_rows) == (20, 30)
    assert rehearsal.says in said(hands)
    assert card.rows == 30 - next(each.rows for each in card.dropped if each.reason == "scored 2 of 5")


def test_the_time_for_data_is_what_the_rest_of_the_trial_leaves(
    tmp_path: Path, engines: tuple[Server, WarmEngine]
) -> None:
    hands, at_work = deps(Deps, tmp_path, engines), state(Select(rows=30), Judge(rubric="a long word"))
    hands.begin("data_engineer", 1)
    plan = at_work["plan"]
    assert plan is not None
    assert seconds_for_data(at_work, hands) == pytest.approx(600, abs=5)
    at_work["plan"] = plan.model_copy(update={"predicted_seconds": 230.0})
    assert seconds_for_data(at_work, hands) == pytest.approx(600 - (230 - 30), abs=5)
    at_work["spent_seconds"] = 390.0
    with playing(lambda body: {**by_length(body), "delay_s": 0.05}) as (url, _):
        hands.writers = workroom(tmp_path, url).writers
        at_work["plan"] = plan.model_copy(update={"predicted_seconds": 245.0})
        with pytest.raises(TrialError, match="0 s are left for data") as caught:
            data_engineer(at_work, hands)
    assert caught.value.kind == "BUDGET"


def test_samples_come_from_the_warm_server(tmp_path: Path, engines: tuple[Server, WarmEngine]) -> None:
    hands = deps(Deps, tmp_path, engines)
    fake_weights(hands.folder.root / "good", 0.9)
    card = data_engineer(state(SelfDistil(rows=30)), hands)["dataset"]
    better = data_engineer(state(SelfDistil(rows=30, trial=1), trials=[trained(1, "good", "g")]), hands)["dataset"]
    assert card is not None
    assert better is not None
    assert 0 < card.rows < better.rows <= 30
    items = {item.id: item for item in read_items(hands.items("train"))}
    assert all(check.passed for check in check_rows(hands.folder.resolve(better.path), SPELLING, items))
    for path in (hands.folder.root / "datasets").iterdir():
        path.unlink()
    hands.server.close()
    assert data_engineer(state(SelfDistil(rows=30)), hands)["dataset"] == card
    assert hands.server.starts == 1, "outputs that are there are not asked for again"
