"""What a scored trial's figures show, and the one factor that answers each: rules of an expert tuner, written as a
table.

A rule names cause, figure and remedy; `gain` is the share of the distance to the ceiling that the remedy closed in our
reference measurements or the named source, `confidence` how often the rule is right (our judgement, between 0 and 1).
Several rules may fire; who plans weighs them. Sources are named by paper or guide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import log, log2

from memory.records import Trial
from tools.causes.signs import ENDLESS, UNPARSED
from tools.proposers.brief import Brief
from tools.proposers.data_levers import RATE_GAIN, balance, easy_first, further_source, near_copies, own_words
from tools.proposers.factors import Recipe, changed, shown
from tools.proposers.history import rows_open, rows_seen, visits_seen
from tools.proposers.look import WORTHWHILE, Diagnosis, Look
from tools.proposers.starting_recipe import batch_for, most_epochs, rounded, rows_at_once, size_of

ROWS_GAIN = 0.17
"""Share of the headroom closed by each doubling of unique rows (our `family_relationships`: 400 x 2 to 1,200 x 1)."""
EPOCHS_GAIN = 0.08
"""The same for each doubling of epochs over the same rows; about half of what new rows bring."""


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
    rows = look.recipe.rows
    cause, figure, confidence = hunger(look)
    source = "accuracy is about log-linear in rows (RFT, 2308.01825); our reference runs"
    fitting = look.brief.row_visits(look.brief.training_room, look.recipe.training) / look.recipe.training.epochs
    for more in larger(rows, rows_open(look.brief, look.recipe), fitting):
        gain = gain_of_rows(look.brief, look.recipe, more)
        yield look.diagnosis("rows", more, cause, figure, gain, confidence, source)


def gain_of_rows(brief: Brief, recipe: Recipe, rows: int) -> float:
    """What a recipe gains by selecting so many rows, counted from all that its weights have seen, also in the trainings
    that it goes on from."""
    seen = rows_seen(brief, recipe)
    return ROWS_GAIN * log2((seen - recipe.rows + rows) / seen)


def hunger(look: Look) -> tuple[str, str, float]:
    """What asks for more rows: the cause, its figure, and how sure that is."""
    score, curve = look.score, look.curve
    if look.overfit and look.trial.train_score:
        figure = f"{look.trial.train_score.value:.3f} on trained rows against {score.value:.3f} on new ones"
        return "it memorises its rows: over-fitting", figure, 0.8
    if look.unparsed > UNPARSED:
        return "the answer's format is not learnt", f"{look.unparsed:.0%} of outputs hold no answer", 0.75
    if curve and look.falling:
        figure = f"the loss fell by {curve.drop:.0%} from the third to the last quarter, to {curve.end:.3f}"
        return "training ended too early: the loss was still falling", figure, 0.8
    figure = f"trained on {rows_seen(look.brief, look.recipe)} of {look.brief.rows_available} rows"
    return "few rows were used", figure, 0.7 if look.smooth else 0.4


def going_on(look: Look) -> Iterator[Diagnosis]:
    """The trained weights go on with rows that they have not seen, so that no step is paid twice."""
    brief, recipe, number = look.brief, look.recipe, look.trial.number
    if look.trial.training is None or (look.curve and not look.smooth):
        return
    seen, visits = rows_seen(brief, recipe), visits_seen(brief, recipe)
    fitting = brief.row_visits(brief.training_room, recipe.training)
    batch = rows_at_once(max(recipe.training.batch_size, batch_for(visits + fitting)))
    fitting = brief.row_visits(brief.training_room, recipe.training.model_copy(update=batch))
    source = "accuracy is about log-linear in rows (RFT, 2308.01825); our runs of going on"
    cause, figure, confidence = hunger(look)
    for more in larger(seen, brief.rows_available, seen + fitting):
        new = more - seen
        most = min(fitting / new, most_epochs(more, start=True)) if more == brief.rows_available else 1.0
        epochs = max(1.0, int(4 * most) / 4)
        yield Diagnosis(
            cause=cause,
            figure=figure,
            remedy=f"going on from trial {number} with {new} new rows" + (f" x {epochs:g}" if epochs > 1 else ""),
            factor="continue_from",
            recipe=changed(recipe, continue_from=number, rows=new, skip=seen, epochs=epochs, **batch),
            gain=ROWS_GAIN * log2(more / seen) + EPOCHS_GAIN * log2(epochs),
            confidence=confidence,
            source=source,
        )
    epochs = int(4 * min(fitting / seen, most_epochs(seen) - visits / seen)) / 4
    if look.all_rows and not look.learnt and epochs >= max(0.5, (WORTHWHILE - 1) * visits / seen):
        again = changed(recipe, continue_from=number, rows=seen, skip=0, epochs=epochs, **batch)
        yield Diagnosis(
            cause="too few passes: under-fitting" if look.underfit else "more passes are left",
            figure=f"all {seen} rows are used, seen {visits / seen:.3g} times",
            remedy=f"going on from trial {number} with {epochs:g} more epochs",
            factor="continue_from",
            recipe=again,
            gain=EPOCHS_GAIN * log2((visits + epochs * seen) / visits),
            confidence=0.6 if look.underfit or look.falling else 0.4,
            source=source,
        )


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
    fitting = look.brief.row_visits(look.brief.training_room, recipe.training) / recipe.rows
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


def repetition(look: Look) -> Iterator[Diagnosis]:
    """Outputs that loop or run into the token limit although rows are learnt: too high a learning rate."""
    broken, total = look.endless, look.outputs
    if broken / total > ENDLESS and not look.underfit:
        figure = f"{broken} of {total} outputs loop or hit the token limit"
        lower = rounded(look.recipe.training.learning_rate / 2)
        source = "repetition loops: halve the learning rate (SimPO's notes)"
        yield look.diagnosis("learning_rate", lower, "outputs do not end", figure, broken / total, 0.4, source)


def capacity(look: Look) -> Iterator[Diagnosis]:
    """All rows are used, and even those stay unknown: more rank, then all weights."""
    train, training = look.trial.train_score, look.recipe.training
    if not look.underfit or not look.all_rows or train is None or training.continue_from is not None:
        return  # what goes on from trained weights keeps the adapter's shape
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


RULES: tuple[Callable[[Look], Iterator[Diagnosis]], ...] = (
    spikes,
    repetition,
    balance,
    going_on,
    growth,
    passes,
    learning_rate,
    steps,
    capacity,
    regularisation,
    further_source,
    own_words,
    near_copies,
    easy_first,
)


def diagnose(brief: Brief, trial: Trial, recipe: Recipe) -> list[Diagnosis]:
    """Everything that a trial's figures name, most confident first; empty where nothing was scored, and after DPO and
    GRPO, whose curves and rows these rules cannot read."""
    if trial.score is None or recipe.training.objective != "sft":
        return []
    look = Look(trial, trial.score, brief, recipe)
    found = [diagnosis for rule in RULES for diagnosis in rule(look)]
    return sorted(found, key=lambda one: -one.confidence)
