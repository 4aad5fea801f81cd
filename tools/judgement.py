"""Judgement by arithmetic: is a trial better than the incumbent, what kind of errors are left, did the expectation
come true?

The rule, and why it is this one. With 200 validation items and a fifth of them changing sides, the standard error of
a paired difference is 3.2 points: a run of six trials none of which is any better shows one that looks 4 points
better (the best of four null trials looks 1.0 standard errors better, of eight 1.4). Taking every rise would make
noise the incumbent again and again. Demanding significance corrected for six trials (p < 0.008) would miss a real
gain of 8 points 59 times in 100; p < 0.05 misses it 33 times. So a trial is accepted at p < 0.05 uncorrected: of
trials that are no better it lets 2 % pass (the exact test is cautious), and a tenth of all runs with six such trials
promote one wrongly. Such a run shows it in the end: the sealed test is untouched by the choice, and its p-value is
paired against the untouched model.

A rise that is not significant does not make an incumbent, but it may be grown from: gains of several steps are
compared with the incumbent as one, and add up to something that can be seen. A tie keeps the incumbent.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from memory.records import (
    Comparison,
    ConstantAnswer,
    Decision,
    ErrorClass,
    GuardScore,
    Outcome,
    Plan,
    Score,
    Trial,
)

ALPHA = 0.05
"""Two-sided p-value under which a difference counts."""
WORTHWHILE = 0.02
"""Smallest gain of the metric worth having: 4 of 200 items. A trial that surely gains less is rejected."""
REPEATED_SHARE = 0.5
"""Share of repeated word 4-grams from which on an output counts as a loop."""

_LOOP = re.compile(r"(\S.{0,19}?)\1{3,}", re.DOTALL)
_WORD = re.compile(r"\w+(?:-\w+)*")


ErrorName = Literal["unparsable", "truncated", "wrong answer", "repetition", "right answer, wrong format"]


class Judgement(NamedTuple):
    """A decision and the numbers that made it."""

    decision: Decision
    arithmetic: str
    """One line."""


def decide(score: Score, comparison: Comparison, constant: ConstantAnswer | None = None) -> Judgement:
    """Decide about a trial from its paired comparison with the incumbent.

    accepted: better, p < 0.05. rejected: worse, p < 0.05, or the 95 % interval excludes a gain of WORTHWHILE. Else
    inconclusive. `constant` only adds to the words: an accepted trial may still score no more than one answer given
    always.
    """
    difference, p_value = comparison.difference, comparison.p_value
    decision: Decision
    if difference > 0 and p_value < ALPHA:
        decision, reason = "accepted", f"better, p < {ALPHA:g}"
    elif difference < 0 and p_value < ALPHA:
        decision, reason = "rejected", f"worse, p < {ALPHA:g}"
    elif comparison.ci_high < WORTHWHILE:
        decision, reason = "rejected", f"the interval excludes a gain of {_step(score, WORTHWHILE)}"
    elif difference > 0:
        decision, reason = (
            "inconclusive",
            f"a rise, but p >= {ALPHA:g}: may be grown from, does not replace the incumbent",
        )
    else:
        decision, reason = "inconclusive", "no rise, but a gain is not excluded: the incumbent stays"
    line = (
        f"{_level(score)} against {comparison.against}: {_step(score, difference, sign=True)} "
        f"[{_step(score, comparison.ci_low, sign=True)}, {_step(score, comparison.ci_high, sign=True)}], "
        f"{comparison.wins} won, {comparison.losses} lost of {comparison.n}, "
        f"{comparison.method} p = {p_value:.2g}: {reason}"
    )
    if constant is not None and not score.clearly_beats(constant.value):
        above = "above" if score.higher_is_better else "below"
        always = f"{constant.value:.1%}" if score.is_share else f"{constant.value:.3f}"
        line += f"; not clearly {above} always answering {constant.answer!r} ({always})"
    return Judgement(decision, line)


def guarded(judgement: Judgement, guards: Iterable[GuardScore], margin: float) -> Judgement:
    """Reject what would be accepted where a guard lost more than `margin` of its metric against the untouched model;
    the words name every guard."""
    lines, blocked = [], []
    for guard in guards:
        compared = guard.comparison
        assert compared is not None, "a guard is compared with the untouched model"
        lost = -compared.difference > margin + 1e-9
        blocked += [guard.benchmark] if lost else []
        lines.append(
            f"guard {guard.benchmark} {_level(guard.score)}: {_step(guard.score, compared.difference, sign=True)} "
            f"[{_step(guard.score, compared.ci_low, sign=True)}, {_step(guard.score, compared.ci_high, sign=True)}]"
            + (f", more than {_step(guard.score, margin)} lost" if lost else "")
        )
    line = "; ".join((judgement.arithmetic, *lines))
    return Judgement("rejected", f"{line}: not accepted") if blocked else Judgement(judgement.decision, line)


def better(*scores: Score) -> Score:
    """The best of scores with one metric; of equals, the first."""
    return max(scores, key=lambda score: score.oriented)


def worth_going_on(scores: Sequence[Score]) -> bool:
    """Whether a training goes on after a snapshot, from the validation scores of its snapshots so far, oldest first.

    It ends where the last two both lie below the best before them: one lower score is noise as often as not.
    """
    if len(scores) < 3:
        return True
    best = better(*scores[:-2])
    return any(better(best, later) is not best for later in scores[-2:])


def may_grow(trial: Trial) -> bool:
    """Whether a later trial may take this one as its parent: it was accepted, or it rose without being significant."""
    rose = trial.comparison is not None and trial.comparison.difference > 0
    return trial.decision == "accepted" or (trial.decision == "inconclusive" and rose)


def expectation_met(plan: Plan, comparison: Comparison) -> bool:
    """Whether the measured gain reached what the plan expected, by the point estimate; its error bar stands in the
    comparison."""
    return comparison.difference >= plan.expected_gain


def classify_errors(
    outcomes: Iterable[Outcome], closed_answers: Sequence[str] | None = None, examples: int = 5
) -> tuple[ErrorClass, ...]:
    """Sort every output that is not fully right into one class, the most frequent class first.

    The first that fits, in this order: a loop ("repetition"); the gold with other case, punctuation or words around
    it ("right answer, wrong format"); cut by the token limit ("truncated"); no answer extracted ("unparsable");
    "wrong answer".
    """
    wrong = [outcome for outcome in outcomes if outcome.score < 1]
    classes: dict[ErrorName, list[str]] = {}
    for outcome in wrong:
        classes.setdefault(_class(outcome, closed_answers), []).append(outcome.id)
    return tuple(
        ErrorClass(name=name, count=len(ids), examples=tuple(dict.fromkeys(ids))[:examples])
        for name, ids in sorted(classes.items(), key=lambda pair: -len(pair[1]))
    )


def _class(outcome: Outcome, closed_answers: Sequence[str] | None) -> ErrorName:
    if _loops(outcome.output):
        return "repetition"
    if _holds_gold(outcome.output, outcome.gold, closed_answers):
        return "right answer, wrong format"
    if outcome.finish == "length":
        return "truncated"
    return "unparsable" if outcome.answer is None else "wrong answer"


def _loops(output: str) -> bool:
    """The same characters four times in a row, twelve of them at least, or half of the word 4-grams repeated."""
    if any(len(match.group()) >= 12 for match in _LOOP.finditer(output)):
        return True
    words = output.casefold().split()
    grams = Counter(tuple(words[start : start + 4]) for start in range(len(words) - 3))
    repeated = sum(count for count in grams.values() if count > 1)
    return repeated > REPEATED_SHARE * grams.total() if grams else False


def _holds_gold(output: str, gold: str, closed_answers: Sequence[str] | None) -> bool:
    """The gold begins or ends the output, case and punctuation apart, and no other closed answer stands beside it."""
    said, right = _words(output), _words(gold)
    if not right or right not in (said[: len(right)], said[-len(right) :]):
        return False
    others = {_words(answer) for answer in closed_answers or ()} - {right}
    return not any(other == said[at : at + len(other)] for other in others for at in range(len(said)))


def _words(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(text.casefold()))


def _level(score: Score) -> str:
    """A score in words: a share in per cent, anything else as it is."""
    return f"{score.value:.1%}" if score.is_share else f"{score.metric} {score.value:.3f}"


def _step(score: Score, difference: float, sign: bool = False) -> str:
    """A difference of such scores: of shares in percentage points."""
    shown = "+" if sign else ""
    return f"{100 * difference:{shown}.1f} points" if score.is_share else f"{difference:{shown}.3f}"
