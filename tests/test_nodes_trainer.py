"""Validator and trainer on quick engines: what is checked, swept, skipped, scored in mid-training and gone on from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from graph.runner import assemble, beginning, open_database
from memory.errors import TrialError
from memory.events import Event
from memory.layout import RunFolder
from memory.records import Plan, Trial
from memory.state import State
from nodes.data_engineer import data_engineer
from nodes.deps import Deps
from nodes.trainer import trainer
from nodes.validator import validator
from tests import example_run, fake_run
from tools.benchmarks.splits import Sizes

pytestmark = pytest.mark.slow
SIZES = Sizes(train=120, validation=40, test=10)


class Bench:
    """One trial after another, without planner and analyst."""

    def __init__(self, deps: Deps, state: State, events: list[Event]) -> None:
        self.deps, self.state, self.events = deps, state, events

    def run(self, plan: Plan) -> Trial:
        """Data, checks and training; the ended trial. Raises TrialError where the trainer or the checks do."""
        self.state["plan"] = plan
        self.state.update(data_engineer(self.state, self.deps))  # type: ignore[typeddict-item]
        changes = validator(self.state, self.deps)
        if "trials" in changes:
            return changes["trials"][0]
        self.state.update(changes)  # type: ignore[typeddict-item]
        self.state.update(trainer(self.state, self.deps))  # type: ignore[typeddict-item]
        done = Trial(
            plan=plan, decision="inconclusive", arithmetic="", dataset=self.state["dataset"],
            verdict=self.state["verdict"], training=self.state["training"], seconds=1,
        )  # fmt: skip
        self.state["trials"] = [*self.state["trials"], done]
        return done

    def check(self, trial: Trial, name: str) -> str:
        """What a check said."""
        assert trial.verdict is not None
        return next(check.says for check in trial.verdict.checks if check.name == name)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    folder, task, events = RunFolder(tmp_path / "run"), example_run.task(), []
    shop = replace(fake_run.workshop(task, tmp_path / "cache", print), sizes=SIZES)
    folder.root.mkdir()
    with open_database(folder) as database:
        deps = assemble(task, folder, shop, database, (events.append,))
        state = beginning(task)
        state["baseline"] = example_run.baseline(folder)
        deps.begin("validator", 1)
        try:
            yield Bench(deps, state, events)
        finally:
            deps.close()


def planned(number: int, **recipe: object) -> Plan:
    return example_run.plan(number, **{"sequence_len": 256, **recipe})


def test_the_first_trial_sweeps_and_is_timed_and_the_next_needs_neither(bench: Bench) -> None:
    first, second = bench.run(planned(1)), bench.run(planned(2, learning_rate=3e-3))
    assert first.verdict is not None and second.verdict is not None
    assert len(first.verdict.sweep) > 20 and first.verdict.diverges_at == pytest.approx(1e-2, rel=0.4)
    assert "the loss leaves its best at" in bench.check(first, "learning rate")
    assert second.verdict.sweep == () and "no micro-run" in bench.check(second, "time")
    assert second.verdict.predicted_seconds > 0 and second.verdict.padded_tokens > 0
    assert first.verdict.memory_bytes > 0
    assert any(event.says.startswith("memory: ") for event in bench.events)
    other = bench.run(planned(3, micro_batch=2))
    assert "no micro-run" not in bench.check(other, "time")


def test_what_does_not_fit_is_refused_with_what_would(bench: Bench) -> None:
    wide = bench.deps.model.model_copy(update={"hidden_size": 2**17, "layers": 400})
    bench.deps.model = wide
    refused = bench.run(planned(1))
    assert refused.failure is not None and refused.failure.kind == "OOM"
    assert "GB free; " in refused.failure.message
    assert not (bench.deps.folder.trial(1) / "preflight").exists(), "nothing was started"


def test_snapshots_are_scored_on_validation_and_end_a_training_that_gets_worse(bench: Bench) -> None:
    trial = bench.run(planned(1, snapshots=3, epochs=8, order="file"))
    assert trial.training is not None
    scores = [each.score for each in trial.training.snapshots]
    assert [score is not None and score.n for score in scores] == [40, 40, 40]
    assert all(not Path(each.weights).is_absolute() for each in trial.training.snapshots)
    assert all(bench.deps.folder.resolve(each.weights).is_dir() for each in trial.training.snapshots)


def test_a_training_whose_scores_fall_twice_ends_there(bench: Bench) -> None:
    engine = bench.deps.engines.axolotl
    peaking = replace(engine, env={"FAKE_AXOLOTL_PEAK_AT": "80"})
    bench.deps.axolotl = peaking
    run = bench.run(planned(1, snapshots=4, epochs=20, lora_rank=64)).training
    assert run is not None and run.stopped_at_step == 200 and run.steps == 200
    assert run.stopped_because.startswith("validation 0.") and run.stopped_because.endswith("at step 200 of 250")
    assert any("training ended early" in event.says for event in bench.events)


def test_a_trial_goes_on_from_another_and_a_missing_one_is_refused(bench: Bench) -> None:
    first = bench.run(planned(1))
    second = bench.run(planned(2, continue_from=1))
    assert first.training is not None and second.training is not None
    assert second.training.losses[0].loss < first.training.losses[0].loss
    third = bench.run(planned(3, continue_from=9))
    assert third.failure is not None and (third.failure.kind, third.failure.node) == ("CONFIG", "validator")
    bench.state["plan"] = planned(4, continue_from=9)
    with pytest.raises(TrialError, match="no trial 9"):
        trainer(bench.state, bench.deps)


def test_the_ladder_is_said_as_it_is_climbed(bench: Bench) -> None:
    engine = bench.deps.engines.axolotl
    small = replace(engine, env={"FAKE_AXOLOTL_ROWS": "4"})
    bench.state["plan"] = planned(1)
    bench.state.update(data_engineer(bench.state, bench.deps))  # type: ignore[typeddict-item]
    bench.deps.axolotl = small
    changes = trainer(bench.state, bench.deps)
    run = changes["training"]
    assert run is not None and run.ladder == ("micro-batch 8 to 4, effective batch stays 8",)
    assert [event.says for event in bench.events if "out of memory" in event.says] == [
        "out of memory: micro-batch 8 to 4, effective batch stays 8"
    ]
