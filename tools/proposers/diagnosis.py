"""What a scored trial's figures show, and the one factor that answers each: rules of an expert tuner, written as a
table.

A rule names cause, figure and remedy; `gain` is the share of the distance to the ceiling that the remedy closed in our
reference measurements or the named source, `confidence` how often the rule is right (our judgement, between 0 and 1).
Several rules may fire; who plans weighs them. Sources are named by paper or guide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import hypot, log, log2

from memory.records import Record, Score, Trial
from tools.proposers.brief import Brief
from tools.proposers.curves import Curve, curve_of
from tools.proposers.factors import Recipe, Value, changed, factors, shown
from tools.proposers.starting_recipe import most_epochs, rounded, size_of

ROWS_GAIN = 0.17
"""Share of the headroom closed by each doubling of unique rows (our `family_relationships`: 400 x 2 to 1,200 x 1)."""
EPOCHS_GAIN = 0.08
"""The same for each doubling of epochs over the same rows; about half of what new rows bring."""
RATE_GAIN = 0.2
"""The same for three times the learning rate where it was too low (our `family_relationships`: 0.001 to 0.003)."""
WORTHWHILE = 1.25
"""Growth below this factor is not worth a trial."""
LEARNT = 0.9
"""Score on trained rows from which they count as learnt."""


class Diagnosis(Record):
    """One cause that the figures name, and the recipe that answers it by one factor."""

    cause: str
    figure: str
    """The figure that shows it, in words."""
    remedy: str
    factor: str
    recipe: Recipe
    gain: float
    """Share of the headroom that the remedy closes where the diagnosis is right."""
    confidence: float
    source: str


@dataclass(frozen=True)
class Look:
    """One scored trial under the eyes of the rules."""

    brief: Brief
    trial: Trial
    score: Score
    recipe: Recipe

    @cached_property
    def curve(self) -> Curve | None:
        """Shape of the training curve."""
        return curve_of(self.trial.training.losses) if self.trial.training else None

    @cached_property
    def smooth(self) -> bool:
        """No sign of too high a learning rate."""
        return self.curve is not None and self.curve.smooth

    @cached_property
    def falling(self) -> bool:
        """The loss still fell at the end."""
        return self.curve is not None and self.curve.falling

    @cached_property
    def gap(self) -> float:
        """Score on trained rows minus score on validation, turned, less twice its standard error; 0 where
        unmeasured."""
        train = self.trial.train_score
        if train is None:
            return 0.0
        noise = hypot(train.stderr, self.score.stderr)
        return max(0.0, self.brief.turned(train.value) - self.brief.turned(self.score.value) - 2 * noise)

    @cached_property
    def overfit(self) -> bool:
        """Trained rows are known clearly better than new ones."""
        return self.gap > 0.05

    @cached_property
    def learnt(self) -> bool:
        """The trained rows are known."""
        train = self.trial.train_score
        return train is not None and self.brief.headroom(self.brief.turned(train.value)) <= 1 - LEARNT

    @cached_property
    def underfit(self) -> bool:
        """Not even the trained rows are known, and new ones are no worse."""
        return self.trial.train_score is not None and not self.overfit and not self.learnt

    @property
    def all_rows(self) -> bool:
        """There are no more rows to speak of."""
        return self.recipe.rows * WORTHWHILE > self.brief.rows_available

    def diagnosis(
        self, factor: str, after: Value, cause: str, figure: str, gain: float, confidence: float, source: str
    ) -> Diagnosis:
        """A diagnosis whose remedy sets one factor to `after`."""
        before = factors(self.recipe)[factor]
        recipe = changed(self.recipe, **{factor: after})
        remedy = f"{factor} {shown(before)} -> {shown(after)}"
        return Diagnosis(
            cause=cause,
            figure=figure,
            remedy=remedy,
            factor=factor,
            recipe=recipe,
            gain=gain,
            confidence=confidence,
            source=source,
        )


def spikes(look: Look) -> Iterator[Diagnosis]:
    """The loss jumped or gradients ran wild: the learning rate is too high."""
    curve = look.curve
    if curve is None or curve.smooth:
        return
    figure = f"loss rose to {curve.spike:.1f} times its lowest stretch, {curve.wild:.0%} of gradient norms above 10"
    lower = rounded(look.recipe.training.learning_rate / 3)
    source = "Axolotl stability guide: LR / 3"
    yield look.diagnosis("learning_rate", lower, "the learning rate is too high", figure, 0.25, 0.85, source)


def growth(look: Look) -> Iterator[Diagnosis]:
    """More rows are there, and time for them: the lever that pays most often."""
    score, curve, rows = look.score, look.curve, look.recipe.rows
    unparsed = 1 - score.parsed / (score.n * score.samples)
    confidence = 0.4 if curve and not curve.smooth else 0.7
    cause, figure = "few rows were used", f"trained on {rows} of {look.brief.rows_available} rows"
    if look.overfit and look.trial.train_score:
        confidence, cause = 0.8, "it memorises its rows: over-fitting"
        figure = f"{look.trial.train_score.value:.3f} on trained rows against {score.value:.3f} on new ones"
    elif unparsed > 0.05:
        confidence, cause, figure = (
            0.75,
            "the answer's format is not learnt",
            f"{unparsed:.0%} of outputs hold no answer",
        )
    elif curve and look.falling:
        confidence, cause = 0.8, "training ended too early: the loss was still falling"
        figure = f"the loss fell by {curve.drop:.0%} from the third to the last quarter, to {curve.end:.3f}"
    source = "accuracy is about log-linear in rows (RFT, 2308.01825); our reference runs"
    fitting = look.brief.row_visits(look.brief.training_room, look.recipe.training.method) / look.recipe.training.epochs
    for more in larger(rows, look.brief.rows_available, fitting):
        yield look.diagnosis("rows", more, cause, figure, ROWS_GAIN * log2(more / rows), confidence, source)


def larger(now: int, available: float, fitting: float) -> list[int]:
    """Twice and three times as much, and all that fits: each worth a trial, and none just short of all."""
    most = int(min(available, fitting))
    steps = [step for step in (2 * now, 3 * now) if step * WORTHWHILE <= most] + [most]
    return [more for more in steps if more >= WORTHWHILE * now]


def passes(look: Look) -> Iterator[Diagnosis]:
    """All rows are used: go over them more often while they are not known by heart, less often when they are."""
    recipe, epochs = look.recipe, look.recipe.training.epochs
    source = "epochs by rows: LIMA, Axolotl and Unsloth guides"
    if look.overfit and look.learnt and epochs >= 3:
        figure = f"trained rows score {look.gap:.2f} beyond noise above new ones after {epochs:g} epochs"
        fewer = max(1.0, epochs // 2)
        yield look.diagnosis("epochs", fewer, "it memorises its rows: over-fitting", figure, 0.05, 0.35, source)
    if not look.all_rows or look.learnt:
        return
    fitting = look.brief.row_visits(look.brief.training_room, recipe.training.method) / recipe.rows
    more = int(4 * min(2 * epochs, fitting, most_epochs(recipe.rows))) / 4
    if more >= WORTHWHILE * epochs:
        figure = f"all {recipe.rows} rows are used, seen {epochs:g} times"
        confidence = 0.7 if look.underfit or look.falling else 0.45
        gain = EPOCHS_GAIN * log2(more / epochs)
        yield look.diagnosis("epochs", more, "too few passes: under-fitting", figure, gain, confidence, source)


def learning_rate(look: Look) -> Iterator[Diagnosis]:
    """A smooth curve leaves room upwards; a lower rate is the second question."""
    rate, curve = look.recipe.training.learning_rate, look.curve
    size = size_of(look.brief.model.parameters)
    low, high = (size.full / 10, size.full * 5) if look.recipe.training.method == "full" else (size.low, size.high)
    source = "learning rate first, in steps of 3 (tinker-cookbook); our reference runs"
    if curve and look.smooth and rate * 1.3 < high:
        figure = f"no jump in {curve.points} loss points ({curve.start:.2f} -> {curve.end:.2f})"
        if look.falling:
            figure += f", still falling by {curve.drop:.0%} at the end"
        confidence = 0.3 if look.overfit else 0.5 if look.underfit or look.falling else 0.4
        up = rounded(min(3 * rate, high))
        cause = "the learning rate leaves room upwards"
        gain = RATE_GAIN * log(up / rate, 3)
        yield look.diagnosis("learning_rate", up, cause, figure, gain, confidence, source)
    if look.smooth and rate / 1.3 > low:
        figure = f"{shown(rate)} lies in the upper part of {low:g} to {high:g}"
        down = rounded(max(rate / 3, low))
        cause = "the learning rate may lie above its best"
        yield look.diagnosis("learning_rate", down, cause, figure, RATE_GAIN / 2, 0.15, source)


def steps(look: Look) -> Iterator[Diagnosis]:
    """Too few optimiser steps: a smaller batch makes more of them out of the same rows, at no cost."""
    batch, count = look.recipe.training.batch_size, look.recipe.steps
    if count < 100 and batch > 2:
        source = "at least 100 optimiser steps, LoRA likes small batches (tinker-cookbook, LoRA Without Regret)"
        yield look.diagnosis(
            "batch_size", batch // 2, "few optimiser steps", f"{count} steps of {batch} rows", 0.08, 0.35, source
        )


def balance(look: Look) -> Iterator[Diagnosis]:
    """A score no better than one constant answer: the labels' shares were learnt, not the task."""
    constant = look.brief.baseline.constant
    if constant is None or look.brief.closed_answers is None:
        return
    if look.brief.turned(look.score.value - constant.value) <= look.score.stderr:
        figure = f"{look.score.value:.3f}, and always answering {constant.answer!r} gets {constant.value:.3f}"
        rate, low = look.recipe.training.learning_rate, size_of(look.brief.model.parameters).low
        if look.recipe.training.method != "full" and rate / 1.3 > low:
            down, source = rounded(max(rate / 3, low)), "one answer for all: learning rate / 3 before rebalancing"
            yield look.diagnosis("learning_rate", down, "one answer is preferred", figure, RATE_GAIN, 0.5, source)
        source = "minority recall 0: rebalance (class-imbalance practice)"
        yield look.diagnosis("balance", "answer", "one answer is preferred", figure, 0.15, 0.45, source)


def repetition(look: Look) -> Iterator[Diagnosis]:
    """Outputs that loop or run into the token limit although rows are learnt: too high a learning rate."""
    loops = sum(error.count for error in look.trial.errors if error.name == "repetition")
    broken, total = max(loops, look.score.truncated), look.score.n * look.score.samples
    if broken / total > 0.02 and not look.underfit:
        figure = f"{broken} of {total} outputs loop or hit the token limit"
        lower = rounded(look.recipe.training.learning_rate / 2)
        source = "repetition loops: halve the learning rate (SimPO's notes)"
        yield look.diagnosis("learning_rate", lower, "outputs do not end", figure, broken / total, 0.4, source)


def capacity(look: Look) -> Iterator[Diagnosis]:
    """All rows are used, and even those stay unknown: more rank, then all weights."""
    train, training = look.trial.train_score, look.recipe.training
    if not look.underfit or not look.all_rows or train is None:
        return
    figure = f"only {train.value:.3f} on the rows it was trained on"
    source = "under-fitting: more steps, then rank x 4, then all weights (LoRA Without Regret)"
    if training.method != "full" and training.lora_rank < 64:
        rank = min(64, 4 * training.lora_rank)
        yield look.diagnosis("lora_rank", rank, "the adapter is too small", figure, 0.08, 0.3, source)
    if training.method == "lora" and look.brief.model.parameters <= 4e8:
        full = look.diagnosis("method", "full", "the adapter is too small", figure, 0.1, 0.2, source)
        rate = size_of(look.brief.model.parameters).full
        yield full.model_copy(update={"recipe": changed(full.recipe, learning_rate=rate)})


def regularisation(look: Look) -> Iterator[Diagnosis]:
    """Memorised, and no new rows to give: a little dropout."""
    if look.overfit and look.recipe.training.lora_dropout == 0 and look.recipe.training.method != "full":
        figure = f"trained rows score {look.gap:.2f} beyond noise above new ones"
        source = "dropout 0.05 for small data (alignment-handbook, QLoRA)"
        yield look.diagnosis("lora_dropout", 0.05, "it memorises its rows: over-fitting", figure, 0.04, 0.25, source)


def further_source(look: Look) -> Iterator[Diagnosis]:
    """All rows are used, and the person gave a further source."""
    unused = [source for source in look.brief.task.raw_data if source != factors(look.recipe)["mix"]]
    if unused and look.all_rows:
        figure = f"all {look.recipe.rows} rows of the training split are used"
        yield look.diagnosis(
            "mix", unused[0], "too few rows", figure, 0.1, 0.3, "replay and mixing (2402.02314 and others)"
        )


RULES: tuple[Callable[[Look], Iterator[Diagnosis]], ...] = (
    spikes,
    repetition,
    balance,
    growth,
    passes,
    learning_rate,
    steps,
    capacity,
    regularisation,
    further_source,
)


def diagnose(brief: Brief, trial: Trial, recipe: Recipe) -> list[Diagnosis]:
    """Everything that a trial's figures name, most confident first; empty where nothing was scored."""
    if trial.score is None:
        return []
    look = Look(brief, trial, trial.score, recipe)
    found = [diagnosis for rule in RULES for diagnosis in rule(look)]
    return sorted(found, key=lambda one: -one.confidence)
