"""The rules that change the data and not the training: which rows, in what shares and order, in whose words."""

from __future__ import annotations

from collections.abc import Iterator

from memory.records import SelfDistil
from tools.proposers.factors import factors
from tools.proposers.look import Diagnosis, Look
from tools.proposers.starting_recipe import rounded, size_of

RATE_GAIN = 0.2
"""The same for three times the learning rate where it was too low (our `family_relationships`: 0.001 to 0.003)."""
NEAR_COPIES = 0.8
"""Jaccard similarity from which two rows of collected text count as one."""
WORDY = 100.0
"""Characters of a mean answer from which on there is more than one way to say it."""


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


def further_source(look: Look) -> Iterator[Diagnosis]:
    """All rows are used, and the person gave a further source."""
    unused = [source for source in look.brief.task.raw_data if source != factors(look.recipe)["mix"]]
    if unused and look.all_rows:
        figure = f"all {look.recipe.rows} rows of the training split are used"
        yield look.diagnosis(
            "mix", unused[0], "too few rows", figure, 0.1, 0.3, "replay and mixing (2402.02314 and others)"
        )


def own_words(look: Look) -> Iterator[Diagnosis]:
    """Long answers that the model gets right now and then: its own right answers are easier to learn than the file's,
    and there are more of them."""
    brief, score = look.brief, look.score
    headroom = brief.headroom(brief.turned(score.value))
    if brief.answer_chars < WORDY or brief.closed_answers is not None or not 0.1 <= headroom <= 0.9:
        return
    if factors(look.recipe).get("self_distil") is None:
        figure = f"{score.value:.3f} on answers of {brief.answer_chars:.0f} characters"
        distil = SelfDistil(rows=max(2, look.recipe.rows), trial=look.trial.number, unsolved="gold")
        source = "rejection sampling closed a tenth of the headroom of a 7B model (RFT, 2308.01825)"
        what = "the answers may be said in the model's own words"
        yield look.diagnosis("self_distil", distil.model_dump_json(), what, figure, 0.1, 0.4, source)


def near_copies(look: Look) -> Iterator[Diagnosis]:
    """Memorised rows of collected text: near copies of one row count as one."""
    if look.overfit and not look.brief.generated and factors(look.recipe)["near_duplicates"] is None:
        figure = f"trained rows score {look.gap:.2f} beyond noise above new ones"
        source = "near copies at a Jaccard similarity of 0.8 (Data-Juicer and FineWeb take 0.7 and 0.75)"
        cause = "it memorises its rows: over-fitting"
        yield look.diagnosis("near_duplicates", NEAR_COPIES, cause, figure, 0.05, 0.25, source)


def easy_first(look: Look) -> Iterator[Diagnosis]:
    """Short rows before long ones: a curriculum, where all rows are used and nothing better is left."""
    if look.underfit and look.all_rows and factors(look.recipe)["curriculum"] is None:
        figure = f"all {look.recipe.rows} rows are used"
        source = "no order wins everywhere; one study found a gain (curriculum learning)"
        yield look.diagnosis("curriculum", "length", "hard rows come too early", figure, 0.05, 0.15, source)
