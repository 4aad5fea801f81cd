"""Rules that find what is wrong in a scored trial, from its figures and its validation outputs.

A rule names the figure, the threshold that it lies beyond and why that is the threshold, and which outputs it accounts
for at most. The planner's rules (`tools/proposers/diagnosis.py`) ask what to try next; these ask what is wrong, and
share their figures (`tools/causes/signs.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import hypot, log
from statistics import fmean

from memory.records import Blamed, Cause, CauseName, ClassRate, Outcome, Snapshot, TrainingRun
from tools.causes.signs import ENDLESS, LABEL_CHARS, OVERFIT, UNPARSED, Case
from tools.judgement import ALPHA, ErrorName
from tools.proposers.curves import SPIKE, STILL_FALLING, WILD_SHARE
from tools.statistics import mcnemar, wilson

WRONG_FORM = 0.02
"""Share of outputs with the right answer in a wrong form: each of them is lost for nothing (practice: 2 to 5 %)."""
FELL = 0.1
"""A training that learns loses more than this share of its first loss (our judgement: most lose over half)."""
MANY_PASSES = 3.0
"""Epochs from which on rows are known by heart because of the passes, and not because they are few (practice: 2 to 3
for some thousand rows)."""
PREFERRED = 1.2
"""An answer given so many times as often as it is right is preferred (class-imbalance practice)."""
RARE = 0.5
"""Of its share of the questions: a kind with less of the training rows is rare there (classes may differ twofold)."""
MOST_EXAMPLES, BY_ACCIDENT = 5, "one or two outputs in a hundred have no end by accident"


def caused(
    case: Case, name: CauseName, blamed: Blamed, says: str, figure: float, threshold: float, reason: str,
    outputs: Sequence[Outcome] = (), share: float | None = None,
) -> Cause:  # fmt: skip
    """A cause; its share is that of its outputs where none is given."""
    share = len(outputs) / len(case.outcomes) if share is None else min(1.0, max(0.0, share))
    return Cause(
        name=name, blamed=blamed, says=says, figure=round(figure, 4), threshold=round(threshold, 4), reason=reason,
        share=round(share, 4), examples=tuple(dict.fromkeys(outcome.id for outcome in outputs))[:MOST_EXAMPLES],
    )  # fmt: skip


# --- evaluation -------------------------------------------------------------------------------------------------------


def golds_scored_wrong(case: Case) -> Iterator[Cause]:
    """Outputs that are the gold, letter by letter, and do not get the full mark."""
    found = [outcome for outcome in case.wrong if outcome.output.strip() == outcome.gold.strip()]
    if found:
        says = f"{len(found)} outputs are the gold itself and do not get the full mark."
        yield caused(case, "gold scored wrong", "evaluation", says, len(found), 0, "a gold gets the full mark", found)


def limit_too_low(case: Case) -> Iterator[Cause]:
    """Outputs that the token limit cut while they were the beginning of the gold."""
    found = [outcome for outcome in case.wrong if begins_gold(outcome)]
    share = len(found) / len(case.outcomes)
    if share > ENDLESS:
        says = f"{len(found)} of {len(case.outcomes)} outputs were cut by the token limit on their way to the gold."
        yield caused(case, "limit too low", "evaluation", says, share, ENDLESS, BY_ACCIDENT, found)


def begins_gold(outcome: Outcome) -> bool:
    """Whether an output was cut while it was right."""
    said, gold = outcome.output.strip(), outcome.gold.strip()
    return outcome.finish == "length" and bool(said) and said != gold and gold.startswith(said)


def trained_answers_not_given(case: Case) -> Iterator[Cause]:
    """The loss says that trained answers are known, and the scoring of the very rows says that they are not. Only where
    the loss at the end is that of these weights on rows of all kinds, and the outputs are not sampled.

    With a mean loss of L nats a token and T supervised tokens a row, an answer's mean log-loss is m = L T. An answer of
    probability above one half is what greedy decoding gives, so by Markov's inequality at least 1 - m / ln 2 of the
    rows are answered right (Boucheron, Lugosi and Massart 2013, section 2.1, for the inequality).
    """
    trial, train, curve = case.trial, case.trial.train_score, case.curve
    run, verdict, card = trial.training, trial.verdict, trial.dataset
    if train is None or curve is None or run is None or verdict is None or card is None or not train.is_share:
        return
    other_weights = any(snapshot.weights == run.weights for snapshot in run.snapshots)
    if other_weights or len(card.groups) > 1 or trial.plan.training.order == "file" or train.samples > 1:
        return
    known = 1 - curve.end * verdict.supervised_tokens / card.rows / log(2)
    if verdict.supervised_tokens and train.ci_high < known:
        says = (
            f"The loss of {curve.end:.3f} says that at least {known:.0%} of the trained rows are answered right; "
            f"asked, the model gets {train.value:.3f} on them (n={train.n})."
        )
        reason, share = "the upper end of the 95 % interval of what was scored", known - train.value
        yield caused(case, "trained answers not given", "evaluation", says, known, train.ci_high, reason, share=share)


# --- form of the outputs ----------------------------------------------------------------------------------------------

FORMS: tuple[tuple[ErrorName, CauseName, Blamed, float, str, str], ...] = (
    ("unparsable", "no answer", "format", UNPARSED, "hold no answer", "2 to 5 % is what practice bears"),
    (
        "right answer, wrong format", "wrong form", "format", WRONG_FORM,
        "hold the right answer in a form that the scorer does not read", "each of them is lost for nothing",
    ),
    ("truncated", "cut at the limit", "format", ENDLESS, "were cut at the token limit", BY_ACCIDENT),
    ("repetition", "loops", "training", ENDLESS, "loop", BY_ACCIDENT),
)  # fmt: skip
"""Class of error, cause, who is to blame, share of outputs from which on, in words, and why from there on."""


def forms(case: Case) -> Iterator[Cause]:
    """Classes of errors that are about the form and not the answer, beyond their thresholds."""
    for kind, name, blamed, threshold, words, reason in FORMS:
        found = [outcome for outcome in case.classes.get(kind, ()) if not begins_gold(outcome)]
        share = len(found) / len(case.outcomes)
        if share > threshold:
            empty = sum(not outcome.output.strip() for outcome in found)
            says = f"{len(found)} of {len(case.outcomes)} outputs ({share:.0%}) {words}"
            says += f", {empty} of them are empty." if empty else "."
            yield caused(case, name, blamed, says, share, threshold, reason, found)


# --- training ---------------------------------------------------------------------------------------------------------


def loss_did_not_fall(case: Case) -> Iterator[Cause]:
    """The loss at the end is about that of the beginning, and the rows are not known."""
    curve = case.curve
    if curve is None or case.learnt or not curve.smooth:
        return
    fell = 1 - curve.end / max(curve.start, 1e-9)
    if fell < FELL:
        says = f"The loss went from {curve.start:.3f} to {curve.end:.3f}: it fell by {max(0.0, fell):.0%}."
        reason = "a training that learns loses more than a tenth of its first loss"
        yield caused(case, "loss did not fall", "training", says, fell, FELL, reason, share=case.wrong_share)


def loss_spikes(case: Case) -> Iterator[Cause]:
    """The loss broke out upwards, or gradients ran wild."""
    curve = case.curve
    if curve is None or curve.smooth:
        return
    if curve.spike >= SPIKE:
        says, figure, threshold = f"The loss rose to {curve.spike:.1f} times its lowest stretch.", curve.spike, SPIKE
        reason = "recipes call a loss of twice its lowest a jump"
    else:
        says, figure, threshold = f"{curve.wild:.0%} of gradient norms were above 10.", curve.wild, WILD_SHARE
        reason = "a healthy training rarely exceeds a gradient norm of 10"
    yield caused(case, "loss spikes", "training", says, figure, threshold, reason, share=case.wrong_share)


def ended_too_early(case: Case) -> Iterator[Cause]:
    """Not even the trained rows are known, and their loss still fell."""
    curve, train = case.curve, case.trial.train_score
    if curve is not None and train is not None and case.underfit and curve.falling:
        says = (
            f"The loss still fell by {curve.drop:.0%} over the last quarter, to {curve.end:.3f}, and rows it was "
            f"trained on score {train.value:.3f}."
        )
        reason = "a curve that falls by more than 5 % from one quarter to the next has not settled"
        yield caused(
            case, "ended too early", "training", says, curve.drop, STILL_FALLING, reason, share=case.wrong_share
        )


def trained_too_long(case: Case) -> Iterator[Cause]:
    """Snapshots: the loss went on falling while validation fell."""
    run = case.trial.training
    scored = [(snapshot, snapshot.score) for snapshot in run.snapshots if snapshot.score] if run else []
    if run is None or len(scored) < 2:
        return
    best, last = max(scored, key=lambda pair: pair[1].oriented), scored[-1]
    fall, noise = best[1].oriented - last[1].oriented, 2 * hypot(best[1].stderr, last[1].stderr)
    losses = loss_at(run, best[0]), loss_at(run, last[0])
    if fall > noise and losses[1] < losses[0]:
        says = (
            f"From step {best[0].step} to {last[0].step} the loss went from {losses[0]:.3f} to {losses[1]:.3f} while "
            f"validation went from {best[1].value:.3f} to {last[1].value:.3f}."
        )
        yield caused(case, "trained too long", "training", says, fall, noise, "two standard errors", share=fall)


def loss_at(run: TrainingRun, snapshot: Snapshot) -> float:
    """The mean of the last losses before a snapshot, eight at most."""
    return fmean([point.loss for point in run.losses if point.step <= snapshot.step][-8:] or [run.losses[0].loss])


def one_answer_for_all(case: Case) -> Iterator[Cause]:
    """One closed answer is given far more often than it is right: beyond noise by the exact McNemar test of the times
    that it was given wrongly and missed, corrected for the number of answers (Bonferroni). The rows are to blame where
    they prefer it as well."""
    answers = case.closed_answers or ()
    for answer in answers:
        said = [outcome for outcome in case.firsts if folded(outcome.answer) == folded(answer)]
        golds = [outcome for outcome in case.firsts if folded(outcome.gold) == folded(answer)]
        wrongly = [outcome for outcome in said if folded(outcome.gold) != folded(answer)]
        missed = len(golds) - (len(said) - len(wrongly))
        ratio = len(said) / max(1, len(golds))
        if ratio > PREFERRED and mcnemar(len(wrongly), missed) < ALPHA / len(answers):
            total = len(case.firsts)
            says = f"{len(said)} of {total} outputs say {answer[:LABEL_CHARS]!r}, which is right {len(golds)} times."
            kept = case.rows_share(answer)
            preferred = kept is not None and kept > PREFERRED * len(golds) / total
            says += f" So do {kept:.0%} of the training rows." if preferred else ""
            blamed: Blamed = "data" if preferred else "training"
            reason = "an answer given 1.2 times as often as it is right is preferred"
            share = (len(wrongly) - missed) / total
            yield caused(case, "one answer for all", blamed, says, ratio, PREFERRED, reason, wrongly, share)


def folded(text: str | None) -> str | None:
    """An answer as answers are compared here."""
    return None if text is None else text.strip().casefold()


# --- data -------------------------------------------------------------------------------------------------------------


def known_by_heart(case: Case) -> Iterator[Cause]:
    """Trained rows are known clearly better than new ones: too many passes over them, or too few of them."""
    train, plan, card = case.trial.train_score, case.trial.plan, case.trial.dataset
    if not case.overfit or train is None:
        return
    rows = f"{card.rows} rows" if card else "the rows"
    says = (
        f"Rows it was trained on score {train.value:.3f}, new ones {case.score.value:.3f}, after "
        f"{plan.training.epochs:g} passes over {rows}."
    )
    reason = "0.05 beyond two standard errors; below three passes it is the rows that are few"
    name, blamed = OVER_LEARNT[plan.training.epochs >= MANY_PASSES]
    share = min(case.wrong_share, case.gap) if case.score.is_share else case.wrong_share
    yield caused(case, name, blamed, says, case.gap, OVERFIT, reason, share=share)


OVER_LEARNT: dict[bool, tuple[CauseName, Blamed]] = {
    True: ("too many passes", "training"),
    False: ("too few rows", "data"),
}


def rare_in_the_rows(case: Case) -> Iterator[Cause]:
    """A kind of question that is wrong clearly more often than the others, and rare among the training rows."""
    total, wrong = len(case.firsts), sum(rate.wrong for rate in case.rates)
    for rate in case.rates:
        kept, asked = case.rows_share(rate.name), rate.n / total
        if kept is None or kept >= RARE * asked or not clearly_more(rate, wrong - rate.wrong, total - rate.n):
            continue
        says = (
            f"{rate.wrong} of {rate.n} questions of kind {rate.name[:LABEL_CHARS]!r} are wrong, {wrong - rate.wrong} "
            f"of {total - rate.n} others; it has {kept:.0%} of the training rows and {asked:.0%} of the questions."
        )
        reason = "classes may differ twofold; the 95 % intervals of the two rates are apart"
        found = [one for one in case.firsts if one.score < 1 and case.kind_of(one) == rate.name]
        share = (rate.wrong - rate.n * (wrong - rate.wrong) / (total - rate.n)) / total
        yield caused(case, "rare in the rows", "data", says, kept / asked, RARE, reason, found, share)


def clearly_more(rate: ClassRate, wrong: int, n: int) -> bool:
    """Whether a kind is wrong more often than `wrong` of `n` others: the Wilson intervals do not touch."""
    return n > 0 and wilson(rate.wrong, rate.n).low > wilson(wrong, n).high


def longer_than_any_row(case: Case) -> Iterator[Cause]:
    """Questions with a longer text or gold than any that was trained on, as after a filter on length, are wrong clearly
    more often."""
    card = case.trial.dataset
    if card is None or card.prompt_chars is None or card.answer_chars is None:
        return
    prompt, answer = card.prompt_chars.longest, card.answer_chars.longest
    beyond = [one for one in case.firsts if len(one.prompt) > prompt or len(one.gold) > answer]
    found = [outcome for outcome in beyond if outcome.score < 1]
    n, wrong = len(case.firsts) - len(beyond), sum(outcome.score < 1 for outcome in case.firsts) - len(found)
    if beyond and clearly_more(ClassRate(name="long", wrong=len(found), n=len(beyond)), wrong, n):
        says = (
            f"{len(found)} of {len(beyond)} questions are wrong that are longer than any training row (a question of "
            f"{prompt} characters, an answer of {answer}), {wrong} of {n} others."
        )
        reason = "the upper end of the others' 95 % interval"
        high, rate = wilson(wrong, n).high, len(found) / len(beyond)
        share = (len(found) - len(beyond) * wrong / n) / len(case.firsts)
        yield caused(case, "longer than any row", "data", says, rate, high, reason, found, share)


RULES: tuple[Callable[[Case], Iterator[Cause]], ...] = (
    golds_scored_wrong,
    limit_too_low,
    trained_answers_not_given,
    forms,
    loss_did_not_fall,
    loss_spikes,
    ended_too_early,
    trained_too_long,
    one_answer_for_all,
    known_by_heart,
    rare_in_the_rows,
    longer_than_any_row,
)
