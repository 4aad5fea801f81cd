"""The report of a run as a record: every figure comes from the state, and programs read it as `report.json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from memory.lineage import went_on_from
from memory.records import (
    Attribution,
    Baseline,
    Comparison,
    Lesson,
    ModelUse,
    Outcome,
    Record,
    Research,
    SealedTest,
    Task,
    Trial,
)
from memory.state import State, winner
from tools.own_task.findings import Findings
from tools.serving import WINDOW

SIGNIFICANT = 0.05
"""Two-sided p below which a difference is told from noise."""


EXAMPLES, EXAMPLE_CHARS = 2, 200


class Verdict(Record):
    """How the run ended."""

    outcome: Literal["improved", "not improved", "nothing accepted"]
    says: str
    """One sentence for a person, with the figures."""
    stopped_because: str


class Spent(Record):
    """The budget and where it went."""

    budget_seconds: float
    spent_seconds: float
    max_trials: int | None
    trials: int
    training_seconds: float
    """Optimiser steps of all trials."""
    generating_seconds: float
    """Generation by the server in all evaluations."""
    server_starts: int
    """1 for a run without a break."""


class Lineage(Record):
    """What the winning weights were made of: enough to make them again."""

    base_model: str
    base_sha256: str
    chat_template: str
    split_sha256: dict[str, str]
    chain: tuple[int, ...] = ()
    """Trials whose weights the winner went on from, oldest first; their data and configurations stand with them."""
    data_sha256: str | None
    config_sha256: str | None
    seed: int | None
    weights_sha256: str | None
    engines: dict[str, str]
    """Hash of the lock file of each engine's environment."""
    forked_from: str | None = None


class Example(Record):
    """A wrong output of the winner on validation, cut; without its gold, so that the report can be shown around."""

    item: str
    cause: str
    question: str
    """Its end."""
    output: str
    """Its start."""


class RunReport(Record):
    """All of it."""

    run_id: str
    task: Task
    baseline: Baseline
    trials: tuple[Trial, ...]
    lessons: tuple[Lesson, ...]
    test: SealedTest
    decision: Verdict
    budget: Spent
    lineage: Lineage
    data: str = ""
    """Where the benchmark's items come from, and under which licence."""
    findings: Findings | None = None
    """What was odd about the rows of a person's own data; None for a benchmark of the table."""
    attribution: Attribution = Attribution()
    """What each change did, and how good the plans' expectations were."""
    examples: tuple[Example, ...] = ()
    """Wrong outputs of the winner, or of the best trial where none was accepted; by cause."""
    models: tuple[ModelUse, ...] = ()
    """What language models were asked for, and what that cost; empty where search planned."""
    research: Research | None = None
    """What was looked up in public catalogues before the first plan; None where nothing was."""
    serve: str
    """The command that serves the winning model."""
    window: int = WINDOW
    """Tokens that the server took in this run, prompt and answer together; the model is served with as many."""

    @property
    def winner(self) -> Trial | None:
        """The trial that was handed over; None where none was accepted."""
        return next((trial for trial in self.trials if trial.number == self.test.winner), None)


def examples(trial: Trial, outcomes: Sequence[Outcome]) -> tuple[Example, ...]:
    """Wrong outputs of a trial, EXAMPLES of each cause; of each class of errors where no single outputs are to
    blame."""
    causes: list[tuple[str, tuple[str, ...]]] = []
    causes += [(cause.name, cause.examples) for cause in (trial.blame.causes if trial.blame else ()) if cause.examples]
    causes = causes or [(error.name, error.examples) for error in trial.errors]
    by_id = {outcome.id: outcome for outcome in reversed(outcomes) if outcome.score < 1}
    return tuple(
        Example(
            item=item,
            cause=name,
            question=" ".join(by_id[item].prompt[-EXAMPLE_CHARS:].split()),
            output=" ".join(by_id[item].output[:EXAMPLE_CHARS].split()),
        )
        for name, items in causes
        for item in [item for item in items if item in by_id][:EXAMPLES]
    )


def judge(test: SealedTest, stop: str) -> Verdict:
    """Improved only if the tuned model beats the better of the two base prompts on the sealed test, p < 0.05."""
    if test.tuned is None:
        says = "No trial was accepted on validation; the untouched model stands."
        return Verdict(outcome="nothing accepted", says=says, stopped_because=stop)
    hardest = hardest_comparison(test)
    better = hardest.difference > 0 and hardest.p_value < SIGNIFICANT
    word = "better than" if better else "not shown to be better than"
    says = (
        f"On the sealed test the tuned model scores {test.tuned.value:.3f} "
        f"[{test.tuned.ci_low:.3f}, {test.tuned.ci_high:.3f}] (n={test.tuned.n}): {word} the {hardest.against} "
        f"({hardest.difference:+.3f} [{hardest.ci_low:+.3f}, {hardest.ci_high:+.3f}], p={hardest.p_value:.2g})."
    )
    if test.constant is not None and not test.tuned.clearly_beats(test.constant.value):
        above = "above" if test.tuned.higher_is_better else "below"
        says += f" It is not clearly {above} always answering {test.constant.answer!r} ({test.constant.value:.3f})."
    return Verdict(outcome="improved" if better else "not improved", says=says, stopped_because=stop)


def hardest_comparison(test: SealedTest) -> Comparison:
    """The comparison with the better of the two base rows."""
    assert test.against_zero is not None and test.against_few is not None, "a tuned model was compared with both"
    comparisons = (test.against_zero, test.against_few)
    return min(comparisons, key=lambda comparison: comparison.difference)


def spent(state: State, seconds: float, server_starts: int) -> Spent:
    """Where the budget went; `seconds` is what the whole run took, this report included."""
    trials, baseline, test = state.get("trials", []), state.get("baseline"), state.get("test")
    scores = [score for trial in trials for score in (trial.score, trial.train_score)]
    scores += [baseline.zero_shot, baseline.few_shot] if baseline else []
    scores += [test.zero_shot, test.few_shot, test.tuned] if test else []
    budget = state["task"].budget
    return Spent(
        budget_seconds=budget.seconds,
        spent_seconds=seconds,
        max_trials=budget.max_trials,
        trials=len(trials),
        training_seconds=sum(trial.training.train_seconds for trial in trials if trial.training),
        generating_seconds=sum(score.generation_seconds for score in scores if score),
        server_starts=server_starts,
    )


def lineage(state: State, splits: dict[str, str], engines: dict[str, str], forked_from: str | None) -> Lineage:
    """What the winner was made of; without one, what the base model was."""
    baseline, best = state.get("baseline"), winner(state)
    assert baseline is not None, "a report comes after the baseline"
    training = best.training if best else None
    earlier = went_on_from(best.plan.training.continue_from if best else None, state.get("trials", []))
    return Lineage(
        base_model=baseline.model.name,
        base_sha256=baseline.model.sha256,
        chat_template=baseline.model.chat_template,
        split_sha256=splits,
        chain=tuple(trial.number for trial in earlier),
        data_sha256=best.dataset.sha256 if best and best.dataset else None,
        config_sha256=training.config_sha256 if training else None,
        seed=best.plan.training.seed if best else None,
        weights_sha256=training.weights_sha256 if training else None,
        engines=engines,
        forked_from=forked_from,
    )
