"""A simulated task for proposers: a response surface with noise, a clock, and the records that a real run would leave.

Accuracy follows what was measured on small models: it saturates in unique rows, gains less from further epochs, and
has a best learning rate above which training diverges. Trainings of one recipe may differ by luck.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from memory import lineage
from memory.records import (
    Baseline,
    BaseModelCard,
    Budget,
    Comparison,
    DataRecipe,
    DatasetCard,
    Failure,
    FailureKind,
    LossPoint,
    Plan,
    Planning,
    Score,
    Select,
    Task,
    TrainingRecipe,
    TrainingRun,
    Trial,
    Verdict,
)
from tools.proposers.brief import (
    Brief,
    Stop,
    cost_of,
    measured_overhead,
    measured_row_tokens,
    measured_seconds_per_token,
)
from tools.proposers.factors import Recipe

MODEL = BaseModelCard(
    name="small",
    path="/models/small",
    chat_template="own",
    sha256="0",
    parameters=135_000_000,
    hidden_size=576,
    layers=30,
)
ITEMS = 200
START_UP = 120.0
"""Seconds that are spent before the first trial: engines and baseline."""


def score(
    value: float, *, n: int = ITEMS, split: str = "validation", shots: int = 0, parsed: int | None = None
) -> Score:
    """A right-or-wrong score over `n` items, with a rough interval that reaches the ceiling where no item is wrong."""
    stderr = math.sqrt(max(value * (1 - value), 0.0) / n)
    return Score.model_validate(
        {
            "metric": "accuracy",
            "split": split,
            "shots": shots,
            "value": value,
            "n": n,
            "stderr": stderr,
            "ci_low": max(0.0, value - 2 * stderr),
            "ci_high": min(1.0, value + 2 * stderr + 1e-9),
            "parsed": n if parsed is None else parsed,
            "outcomes": "eval/outcomes.jsonl",
            "seconds": 22.0,
        }
    )


def trained(losses: list[float], *, seconds: float = 100.0, tokens: int = 28_000) -> TrainingRun:
    """A training with these losses, one a step."""
    points = tuple(
        LossPoint(
            step=i + 1, epoch=1.0, loss=loss, learning_rate=1e-3, grad_norm=1.0, seconds=seconds * i / len(losses)
        )
        for i, loss in enumerate(losses)
    )
    return TrainingRun(
        weights="w",
        adapter="a",
        weights_sha256="0",
        config_sha256="0",
        losses=points,
        steps=len(losses),
        step_seconds=seconds / len(losses),
        tokens=tokens,
        seconds=seconds + 25,
        train_seconds=seconds,
        peak_memory_bytes=3 * 10**9,
        micro_batch=8,
    )


@dataclass
class World:
    """One task on one machine. `fail` may say that a plan fails, and how."""

    best_rate: float = 4e-3
    width: float = 1.2
    """Tolerance of the learning rate, in natural logarithms."""
    diverges_at: float = 0.02
    rows_for_two_thirds: float = 1_800.0
    """Effective rows at the best rate that close 63 % of the distance to the cap."""
    cap: float = 1.0
    base: float = 0.0
    train_rows: int = 4_000
    seconds: float = 840.0
    max_trials: int | None = None
    seed: int = 0
    slowness: float = 1.0
    """True seconds per token against what is assumed before the first trial."""
    retained: float = 0.9
    """Share of what was learnt that a training keeps which goes on."""
    epochs_power: float = 0.5
    """So much an epoch counts: twice the epochs are like `2 ** epochs_power` times the rows."""
    form_rows: float = 0.0
    """Effective rows that teach the form of an answer and nothing else."""
    rank_power: float = 0.0
    """The same for the rank, against rank 16."""
    rate_by_batch: bool = False
    """Whether the best learning rate, which stands for batch 8, goes with the square root of the batch."""
    seed_spread: float = 0.0
    """Standard deviation of the true accuracy between trainings of one recipe."""
    fail: Callable[[Plan], FailureKind | None] = lambda plan: None
    planning: Planning = field(default_factory=Planning)
    trials: list[Trial] = field(default_factory=list)
    spent: float = 0.0
    row_tokens = 75.0
    overhead = 58.0
    reserve = 85.0

    def __post_init__(self) -> None:
        self.spent = START_UP
        self.baseline = Baseline(model=MODEL, zero_shot=score(self.base), few_shot=score(self.base, shots=5))

    @property
    def seconds_per_token(self) -> float:
        """True training speed with LoRA."""
        return self.slowness / 560

    def truth(self, recipe: Recipe) -> float:
        """Accuracy without noise."""
        if recipe.training.learning_rate >= self.diverges_at:
            return 0.0
        effective = max(0.0, self.effective(recipe) - self.form_rows)
        return self.base + (self.cap - self.base) * (1 - math.exp(-((effective / self.rows_for_two_thirds) ** 0.77)))

    def effective(self, recipe: Recipe) -> float:
        """Rows that count: those of this training at its learning rate, and those of the one that it goes on from."""
        training = recipe.training
        best_rate = self.best_rate * (math.sqrt(training.batch_size / 8) if self.rate_by_batch else 1.0)
        off = math.log(training.learning_rate / best_rate) / self.width
        if off > 0:
            off *= 1.5
        effective = recipe.rows * training.epochs**self.epochs_power * math.exp(-off * off / 2)
        effective *= (training.lora_rank / 16) ** self.rank_power
        effective *= min(1.0, (recipe.steps / 60) ** 0.3)
        if training.continue_from is not None:
            earlier = self.trials[training.continue_from - 1].plan
            effective += self.retained * self.effective(Recipe(data=earlier.data, training=earlier.training))
        return float(effective)

    def true_score(self, plan: Plan) -> float:
        """Accuracy of the weights that a plan's training ends with: `truth`, and the luck of the training."""
        truth = self.truth(Recipe(data=plan.data, training=plan.training))
        luck = random.Random(f"{self.seed} training {plan.training.seed} {plan.number}").gauss(0, self.seed_spread)
        return min(1.0, max(0.0, truth + luck))

    def brief(self) -> Brief:
        """What a planner sees now."""
        task = Task(
            base_model="small",
            benchmark="simulated",
            metric="accuracy",
            budget=Budget(seconds=self.seconds, max_trials=self.max_trials),
            seed=self.seed,
            planning=self.planning,
        )
        return Brief(
            task=task,
            model=MODEL,
            baseline=self.baseline,
            trials=tuple(self.trials),
            seconds_left=max(0.0, self.seconds - self.spent),
            trials_left=None if self.max_trials is None else self.max_trials - len(self.trials),
            train_rows=self.train_rows,
            row_tokens=measured_row_tokens(self.trials) or 80.0,
            longest_row=110,
            reserve_seconds=self.reserve,
            evaluation_seconds=22.0,
            overhead_seconds=measured_overhead(self.trials) or 60.0,
            seconds_per_token=measured_seconds_per_token(self.trials),
            device="cpu",
        )

    def run(self, plan: Plan) -> Trial:
        """Spend the plan's time and write down what came of it."""
        recipe = Recipe(data=plan.data, training=plan.training)
        noise = random.Random(f"{self.seed} {plan.model_dump_json()}")
        rows = min(recipe.rows, self.train_rows)
        tokens = int(rows * self.row_tokens)
        training = tokens * plan.training.epochs * self.seconds_per_token * cost_of(plan.training)
        kind = self.fail(plan) or ("DIVERGED" if plan.training.learning_rate >= self.diverges_at else None)
        if kind is not None:
            spent = 35.0 if kind != "DIVERGED" else 45.0 + training / 3
            failure = Failure(kind=kind, node="validator", message=f"simulated {kind}")
            trial = Trial(plan=plan, decision="failed", arithmetic="", failure=failure, seconds=spent)
        else:
            trial = self._scored(plan, recipe, tokens, training, noise)
        asking = self.brief().sampling_seconds(plan.data) if plan.training.objective != "sft" else 0.0
        trial = trial.model_copy(update={"seconds": trial.seconds + asking})
        self.trials.append(trial)
        self.spent += trial.seconds
        return trial

    def _scored(self, plan: Plan, recipe: Recipe, tokens: int, training: float, noise: random.Random) -> Trial:
        truth = self.true_score(plan)
        value = sum(noise.random() < truth for _ in range(ITEMS)) / ITEMS
        known = min(
            1.0, truth + (0.25 * (1 - truth) * (plan.training.epochs - 1) ** 0.5 if plan.training.epochs > 1 else 0)
        )
        rate = plan.training.learning_rate / self.best_rate
        points = max(8, recipe.steps)
        losses = [
            (
                0.2
                + 2.5 * (1 - truth) * (0.35 + 0.65 * math.exp(-3 * i / points))
                + (3.0 if rate > 3 and i > points // 2 else 0)
            )
            * math.exp(noise.gauss(0, 0.1))
            for i in range(points)
        ]
        before = max((t.score.value for t in self.trials if t.score and t.decision == "accepted"), default=self.base)
        error = math.sqrt(2 * 0.2 * max(value * (1 - value), 0.01) / ITEMS)
        gain = value - before
        decision = "accepted" if gain > 2 * error else "inconclusive" if gain > -2 * error else "rejected"
        return Trial.model_validate(
            {
                "plan": plan,
                "decision": decision,
                "comparison": Comparison(
                    against="the incumbent",
                    n=ITEMS,
                    difference=gain,
                    ci_low=gain - 2 * error,
                    ci_high=gain + 2 * error,
                    wins=0,
                    losses=0,
                    p_value=math.erfc(abs(gain) / error / math.sqrt(2)),
                    method="mcnemar",
                ),
                "arithmetic": f"{value} against {before}",
                "dataset": DatasetCard(path="d", sha256="0", rows=recipe.rows, mean_answer_chars=6, groups=()),
                "verdict": Verdict(
                    checks=(),
                    step_seconds=training / max(1, recipe.steps),
                    predicted_seconds=training,
                    tokens=tokens,
                    supervised_tokens=tokens // 10,
                    longest_row=105,
                ),
                "training": trained(losses, seconds=training, tokens=int(tokens * plan.training.epochs)),
                "score": score(value),
                "train_score": score(round(known, 3), n=50, split="train"),
                "seconds": training + 22.0 + self.overhead,
            }
        )

    def play(self, proposer: Callable[[Brief], Plan | Stop]) -> Stop:
        """Let a proposer spend the budget; returns its last word."""
        for _ in range(60):
            answer = proposer(self.brief())
            if isinstance(answer, Stop):
                return answer
            self.run(answer)
        raise AssertionError("60 trials without an end")

    @property
    def handed_over(self) -> float:
        """True accuracy of the trial that the run would hand over; the base model's where there is none."""
        winner = lineage.winner(self.trials)
        return self.base if winner is None else self.true_score(winner.plan)

    @property
    def result(self) -> float:
        """True accuracy of the last accepted trial; the base model's where there is none."""
        accepted = [t for t in self.trials if t.decision == "accepted"]
        last = accepted[-1].plan if accepted else None
        return self.base if last is None else self.truth(Recipe(data=last.data, training=last.training))


def uniform_random(brief: Brief) -> Plan | Stop:
    """The yardstick: recipes drawn at random from the same space, each sized to fit what is left."""
    draw = random.Random(f"{brief.task.seed} {brief.number}")
    epochs = draw.choice((1, 2, 3))
    most = min(brief.rows_available, int(brief.row_visits(brief.training_room) / epochs))
    if brief.trials_left == 0 or most < 64:
        return Stop(reason="spent")
    batch = draw.choice((4, 8, 16))
    training = TrainingRecipe(
        learning_rate=math.exp(draw.uniform(math.log(3e-4), math.log(6e-3))),
        epochs=epochs,
        batch_size=batch,
        micro_batch=4,
        lora_rank=draw.choice((8, 16, 32, 64)),
    )
    data = DataRecipe(operators=(Select(rows=int(math.exp(draw.uniform(math.log(64), math.log(most))))),))
    return Plan(
        number=brief.number,
        parent=None,
        diagnosis="",
        hypothesis="",
        change=None,
        expected_gain=0,
        data=data,
        training=training,
        proposer="search",
        predicted_seconds=brief.trial_seconds(data, training),
    )
