"""Why trials won or lost, in rows and lines: for the report, the page, and the language model that plans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from memory.records import Attribution, Blame, Change, ClassRate, Comparison, Contrast, Foresight, Prediction, Trial
from tools.causes.attribution import FEWEST_PREDICTIONS, reads
from tools.causes.signs import LABEL_CHARS
from tools.report import RunReport

EFFECTS, EXPECTATIONS, WRONG = "What each change did", "What was expected", "What is still wrong"
EFFECTS_SAY = (
    "Each recipe against the nearest one that it grew from and that was scored, item by item on validation. Trainings "
    "that differ in their seed alone count by their mean. With one seed a side the interval holds the chance of the "
    "items and not that of the training. p is not corrected for the number of rows: of twenty changes that do nothing, "
    "one reads like an effect."
)
EXPECTATIONS_SAY = (
    "What each plan expected against the incumbent of its moment, and what was measured. A repeat under another seed "
    "expects what was measured before and is left out. “No change” is the error of expecting nothing, ever; "
    "the bias is how much too much was hoped for on average."
)
BLAME_SAYS = "By rules over the figures and the validation outputs of each trial; none where no rule finds a cause."
EFFECT_HEAD = ("factor", "change", "effect", "95 % interval", "p", "items", "trials", "reads")
PREDICTION_HEAD = ("", "planned by", "expected", "measured", "95 % interval", "n", "against", "interval holds it")
FORESIGHT_HEAD = ("planned by", "n", "mean absolute error", "of “no change”", "bias", "sign right", "interval holds it")
BLAME_HEAD = ("", "to blame", "why", "accounts for at most", "beyond", "for example")
EXAMPLE_HEAD = ("wrong output", "cause", "question", "output")
SHOWN_RATES = 5


class Section(NamedTuple):
    """A part of the report."""

    title: str
    says: str
    tables: tuple[tuple[Sequence[str], list[list[str]]], ...]
    """Heads and rows; those without rows are left out."""
    lines: Sequence[str] = ()


def sections(report: RunReport) -> list[Section]:
    """What each change did, what was expected, what is still wrong; each only where there is something to say."""
    found, examples = report.attribution, [list(one.model_dump().values()) for one in report.examples]
    foresight = (FORESIGHT_HEAD, foresight_rows(found))
    parts = [
        Section(EFFECTS, EFFECTS_SAY, ((EFFECT_HEAD, effect_rows(found)),), unattributed(found)),
        Section(EXPECTATIONS, EXPECTATIONS_SAY, ((PREDICTION_HEAD, prediction_rows(found.predictions)), foresight)),
        Section(WRONG, BLAME_SAYS, ((BLAME_HEAD, blame_rows(report.trials)), (EXAMPLE_HEAD, examples))),
    ]
    return [part for part in parts if part.lines or any(rows for _, rows in part.tables)]


def effect_rows(attribution: Attribution) -> list[list[str]]:
    """What one change alone did, a row each; the rows of one factor stand together."""
    single = [contrast for contrast in attribution.contrasts if contrast.attributed]
    order = list(dict.fromkeys(contrast.changes[0].factor for contrast in single))
    return [effect_row(contrast) for contrast in sorted(single, key=lambda one: order.index(one.changes[0].factor))]


def effect_row(contrast: Contrast) -> list[str]:
    """One change alone, with all that its figure rests on."""
    compared, change = contrast.comparison, contrast.changes[0]
    with_it = f" (with {moved(contrast.along)})" if contrast.along else ""
    return [
        change.factor,
        f"{change.before} → {change.after}{with_it}",
        f"{compared.difference:+.3f}",
        interval(compared),
        f"{compared.p_value:.2g}",
        str(compared.n),
        f"{numbers(contrast.against)} → {numbers(contrast.trials)}",
        f"{reads(compared)}; {evidence(contrast)}",
    ]


def evidence(contrast: Contrast) -> str:
    """How many trainings the figure rests on; where a side has several, what each of ours differs by."""
    ours, theirs = len(contrast.trials), max(1, len(contrast.against))
    if ours == theirs == 1:
        return "one comparison, one seed"
    apart = ", ".join(f"{each:+.3f}" for each in contrast.apart)
    return f"{ours} {'seeds' if ours > 1 else 'seed'} against {theirs}: {apart}"


def unattributed(attribution: Attribution) -> list[str]:
    """The comparisons in which several factors changed together, a line each."""
    return [
        f"trial {numbers(contrast.trials)} against {contrast.comparison.against}: {moved(contrast.changes)} changed "
        f"together, so {difference(contrast.comparison)} is the effect of none of them alone"
        for contrast in attribution.contrasts
        if not contrast.attributed
    ]


def prediction_rows(predictions: Iterable[Prediction]) -> list[list[str]]:
    """What each plan expected, and what was measured."""
    return [
        [
            f"trial {one.trial}", one.proposer, f"{one.expected:+.3f}", f"{one.measured.difference:+.3f}",
            interval(one.measured), str(one.measured.n), one.measured.against, "yes" if one.covered else "no",
        ]
        for one in predictions
    ]  # fmt: skip


def foresight_rows(attribution: Attribution) -> list[list[str]]:
    """How good each planner's expectations were."""
    return [
        [
            one.proposer, few(one), f"{one.error:.3f}", f"{one.error_of_none:.3f}", f"{one.bias:+.3f}",
            f"{one.signs_right} of {one.signs}", f"{one.covered} of {one.n}",
        ]
        for one in attribution.foresight
    ]  # fmt: skip


def few(foresight: Foresight) -> str:
    """How many predictions, and whether they are too few to judge a planner by."""
    return f"{foresight.n}, too few to judge by" if foresight.n < FEWEST_PREDICTIONS else str(foresight.n)


def blame_rows(trials: Iterable[Trial]) -> list[list[str]]:
    """What is to blame in each trial that was scored, a row for each cause."""
    rows: list[list[str]] = []
    for trial in trials:
        if trial.blame is not None:
            rows += [[f"trial {trial.number}", *row] for row in causes_of(trial.blame)]
    return rows


def causes_of(blame: Blame) -> list[list[str]]:
    """Its causes as cells, what accounts for most first; one row where there is none."""
    if not blame.causes:
        return [["none", blame.says, "", "", ""]]
    return [
        [
            f"{cause.blamed}: {cause.name}", cause.says, f"{cause.share:.0%} of outputs",
            f"{cause.threshold:g}, as {cause.reason}", ", ".join(cause.examples),
        ]
        for cause in blame.causes
    ]  # fmt: skip


def blame_lines(blame: Blame) -> Iterator[str]:
    """What is to blame, and what else is known of the wrong outputs, a line each."""
    yield f"To blame: {blame.to}. {blame.says}"
    yield from (f"Also {cause.blamed}: {cause.says}" for cause in blame.causes[1:])
    if blame.rates:
        told = ", ".join(rate_words(rate) for rate in blame.rates[:SHOWN_RATES])
        rest = len(blame.rates) - SHOWN_RATES
        yield f"Wrong by kind of question: {told}" + (f", and {rest} kinds more." if rest > 0 else ".")


def rate_words(rate: ClassRate) -> str:
    """How often one kind of question is answered wrongly, and how many rows it was trained with."""
    rows = "" if rate.rows is None else f" ({rate.rows} training rows)"
    return f"{rate.name[:LABEL_CHARS]!r} {rate.wrong} of {rate.n}{rows}"


def reading_lines(blame: Blame) -> Iterator[str]:
    """What a language model reads in the wrong outputs, a line each; nothing where none did."""
    reading = blame.reading
    if reading is None:
        return
    yield f"{reading.model} read {reading.read} of {reading.wrong} wrong outputs. To blame: {reading.blamed}."
    for each in reading.classes:
        yield f"{each.count} of {reading.read} are {each.name} ({', '.join(each.examples[:3])})"
    yield f"They share: {reading.shared}"


def attribution_lines(attribution: Attribution) -> Iterator[str]:
    """All of it for a reader without tables: effects, what is nobody's effect, and how good the expectations were."""
    for contrast in attribution.contrasts:
        if contrast.attributed:
            compared = contrast.comparison
            yield (
                f"{moved(contrast.changes)} ({numbers(contrast.against)} -> {numbers(contrast.trials)}): "
                f"{difference(compared)}, {reads(compared)}; {evidence(contrast)}"
            )
    yield from unattributed(attribution)
    for one in attribution.foresight:
        yield (
            f"expectations of {one.proposer} (n={few(one)}): off by {one.error:.3f} on average, bias {one.bias:+.3f}, "
            f"{one.signs_right} of {one.signs} signs right, {one.covered} of {one.n} within the measured interval"
        )


def moved(changes: Iterable[Change]) -> str:
    """Changes in words."""
    return ", ".join(f"{change.factor} {change.before} → {change.after}" for change in changes)


def numbers(trials: tuple[int, ...]) -> str:
    """Trials in a cell; the untouched model where there are none."""
    return ", ".join(map(str, trials)) or "base"


def interval(compared: Comparison) -> str:
    """The 95 % interval of a difference."""
    return f"[{compared.ci_low:+.3f}, {compared.ci_high:+.3f}]"


def difference(compared: Comparison) -> str:
    """A difference with its interval, n and p."""
    return f"{compared.difference:+.3f} {interval(compared)} (n={compared.n}, p={compared.p_value:.2g})"
