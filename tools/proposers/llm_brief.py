"""What a language model reads before it plans: everything that a person would ask for, cut to a number of tokens.

Nothing of the sealed test is in it, and no gold answer of validation; the example with its gold is a training row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from memory.layout import RunFolder, read_rows
from memory.records import Outcome, Plan, Score, Trial
from tools.benchmarks.benchmark import Benchmark, Item
from tools.causes.text import attribution_lines, blame_lines, reading_lines
from tools.llm.endpoint import CHARS_A_TOKEN
from tools.llm.prompt import fenced
from tools.proposers.brief import Brief, Stop
from tools.proposers.curves import curve_of
from tools.proposers.factors import Recipe, change_between, factors, shown
from tools.proposers.history import dead_end, recipe_of, standing
from tools.proposers.llm_sources import SourceProfile, source_texts
from tools.proposers.starting_recipe import size_of
from tools.training.memory import estimate_memory

PROMPT_CHARS, OUTPUT_CHARS = 700, 240
"""Of an example: the end of its prompt, where the question stands, and the start of an output."""
DESCRIPTION_CHARS = 2000
"""Of the person's own words about the task."""
ROW_CHARS = 300
"""Of a training row."""
LABEL_CHARS, MOST_LABELS = 40, 20
"""Of what data can name itself: closed answers and columns."""
EXAMPLES = 2
"""Wrong outputs shown of each class of errors."""
LONG_AGO = 20
"""Rank from which on details are the oldest of the run, and the first to go."""


@dataclass(frozen=True)
class Part:
    """A piece of the brief, and when it may go."""

    text: str
    rank: int = 0
    """The highest rank is cut first; 0 always stays."""
    short: str = ""
    """What stands for it where space is short; it goes only when all are short."""


@dataclass(frozen=True)
class Facts:
    """What the brief needs beside a proposer's own: a run's benchmark, training rows and files."""

    benchmark: Benchmark
    items: tuple[Item, ...]
    """Training rows, five at most; the first two have different answers where there are such."""
    folder: RunFolder
    memory_bytes: int
    """Of the machine's largest GPU, or of the machine."""
    earlier: tuple[str, ...] = ()
    """What earlier runs on the same benchmark or model taught."""
    sources: Callable[[], Sequence[SourceProfile]] = tuple
    """Looks at the person's further data files."""


def brief_text(brief: Brief, facts: Facts, net: Plan | Stop, most_tokens: int, more: Sequence[Part] = ()) -> str:
    """The brief in at most so many tokens, by an estimate on the safe side; what was left out is said. `more` is what
    a planner knows beside it."""
    parts = [
        Part(task_part(brief, facts)),
        Part(brief.task.description[:DESCRIPTION_CHARS], rank=1, short=brief.task.description[:LABEL_CHARS]),
        Part(example_part(facts), rank=8),
        Part(rows_part(facts), rank=13),
        *(Part(text, rank=11, short=short) for text, short in source_texts(facts.sources())),
        Part(baseline_part(brief)),
        *trial_parts(brief),
        Part(reading_part(brief), rank=3),
        Part(bullets("What each change did on validation", tuple(attribution_lines(brief.attribution))), rank=5),
        *more,
        *wrong_outputs(brief, facts),
        Part(bullets("Lessons of this run", (f"{one.text} ({one.evidence})" for one in brief.lessons)), rank=9),
        Part(bullets("Lessons of earlier runs", facts.earlier), rank=LONG_AGO - 1),
        Part(machine_part(brief, facts, net)),
        Part(net_part(brief, net), rank=4),
    ]
    return fitted(parts, int(most_tokens * CHARS_A_TOKEN))


def fitted(parts: Sequence[Part], most_chars: int) -> str:
    """The parts, the highest ranks shortened and then dropped until the rest fits."""
    texts = [part.text for part in parts]
    order = sorted((n for n, part in enumerate(parts) if part.rank), key=lambda n: -parts[n].rank)
    cuts = [(n, parts[n].short or texts[n]) for n in order] + [(n, "") for n in order]
    left_out = ""
    for n, text in cuts:
        if len(joined([*texts, left_out])) <= most_chars:
            break
        if texts[n] != text:
            texts[n], left_out = text, "(Details, the oldest first, were left out for length.)"
    return joined([*texts, left_out])


def joined(texts: Sequence[str]) -> str:
    """The texts that say something, an empty line between them."""
    return "\n\n".join(text for text in texts if text)


def bullets(title: str, lines: Iterator[str] | Sequence[str]) -> str:
    """A titled list, or nothing where there is nothing to list."""
    listed = [f"- {line}" for line in lines]
    return "\n".join([f"{title}:", *listed]) if listed else ""


# --- the task -------------------------------------------------------------------------------------------------------


def task_part(brief: Brief, facts: Facts) -> str:
    """What is to be learnt, by which model, from how many rows."""
    benchmark, task = facts.benchmark, brief.task
    closed = brief.closed_answers
    shown_answers = ", ".join(repr(answer[:LABEL_CHARS]) for answer in (closed or ())[:MOST_LABELS])
    answers = "open answers" if closed is None else f"{len(closed)} answers: {shown_answers}"
    sampled = f", {benchmark.samples} of them a question" if benchmark.samples > 1 else ""
    columns = sorted({name[:LABEL_CHARS] for item in facts.items for name in item.columns})[:MOST_LABELS]
    lines = [
        f"Task: {benchmark.name}, {benchmark.title}",
        f"Metric: {task.metric}, {'higher' if task.higher_is_better else 'lower'} is better; {answers}; "
        f"outputs of up to {benchmark.max_new_tokens} tokens{sampled}, at temperature {benchmark.temperature:g}.",
        f"Model: {brief.model.name}, {brief.model.parameters / 1e6:.0f}M weights, {brief.model.layers} layers.",
        f"Rows: {brief.rows_available} to train on, {brief.row_tokens:.0f} tokens on average, "
        f"{brief.longest_row} the longest; answers of {brief.answer_chars:.0f} characters"
        + (f"; columns {', '.join(columns)}." if columns else "."),
        f"They come from {benchmark.source}, licence {benchmark.terms}." if benchmark.own is None else "",
        *(f"Further source {number}: {Path(source).name}" for number, source in enumerate(task.raw_data, 1)),
    ]
    return "\n".join(line for line in lines if line)


def example_part(facts: Facts) -> str:
    """A training row with its gold, and what the scorer says to four outputs."""
    if not facts.items:
        return ""
    item = facts.items[0]
    wrong = next((other.answer for other in facts.items if other.answer != item.answer), "?")
    lines = []
    for output in (item.answer, wrong, f"The answer is {item.answer}.", ""):
        graded = facts.benchmark.grade(output, item)
        read = "no answer found" if graded.answer is None else f"read as {graded.answer!r}"
        lines.append(f"output {output[:OUTPUT_CHARS]!r}: score {graded.score:g}, {read}")
    return f"A training row, its gold {item.answer[:OUTPUT_CHARS]!r}:\n" + fenced(
        "\n".join([item.prompt[-PROMPT_CHARS:], "", *lines])
    )


def rows_part(facts: Facts) -> str:
    """Further training rows, cut."""
    rows = [f"{item.prompt[-ROW_CHARS:]}\n=> {item.answer[:ROW_CHARS]!r}" for item in facts.items[1:]]
    return f"{len(rows)} more training rows:\n{fenced(joined(rows))}" if rows else ""


def baseline_part(brief: Brief) -> str:
    """The untouched model on validation, and the best constant answer."""
    base = brief.baseline
    lines = [f"zero-shot {figure(base.zero_shot)}", f"{base.few_shot.shots}-shot {figure(base.few_shot)}"]
    if base.constant is not None:
        lines.append(f"always answering {base.constant.answer!r}: {base.constant.value:.3f}")
    lines += [f"guard {one.benchmark} {figure(one.score)}" for one in base.guards]
    return "Untouched model on validation: " + "; ".join(lines) + "."


def figure(score: Score) -> str:
    """A score with its error bar, and what did not count as an answer."""
    total = score.n * score.samples
    more = f", {total - score.parsed} unparsable" if score.parsed < total else ""
    more += f", {score.truncated} truncated" if score.truncated else ""
    return f"{score.value:.3f} ± {score.stderr:.3f} (n={score.n}{more})"


# --- the trials -----------------------------------------------------------------------------------------------------


def trial_parts(brief: Brief) -> Iterator[Part]:
    """Every trial, newest first; the newest and the one to grow from stay longest."""
    best = standing(brief)
    yield Part("" if brief.trials else "No trial was run yet.")
    for age, trial in enumerate(reversed(brief.trials)):
        keep = age == 0 or (best is not None and trial.number == best.number)
        yield Part(trial_text(brief, trial), 2 if keep else LONG_AGO + age, short=short_trial(trial))


def trial_text(brief: Brief, trial: Trial) -> str:
    """A trial's recipe, figures and verdict."""
    plan, lines = trial.plan, [short_trial(trial), f"  change: {change_text(brief, trial)}"]
    lines.append(f"  recipe: {recipe_text(recipe_of(brief, trial))}")
    if trial.score is not None:
        train = f", on trained rows {figure(trial.train_score)}" if trial.train_score else ""
        lines.append(f"  validation {figure(trial.score)}{train}; expected gain was {plan.expected_gain:+.3f}")
    curve = curve_of(trial.training.losses) if trial.training else None
    if trial.training and curve:
        falling = "still falling" if curve.falling else "flat" if curve.smooth else "with spikes"
        lines.append(f"  loss {curve.start:.3f} -> {curve.end:.3f}, {falling}, {trial.training.steps} steps")
    if trial.errors:
        lines.append("  errors: " + ", ".join(f"{one.count} {one.name}" for one in trial.errors))
    lines += [f"  {line}" for line in blame_lines(trial.blame)] if trial.blame else []
    lines += [
        f"  guard {one.benchmark} {figure(one.score)}, {one.comparison.difference:+.3f}"
        for one in trial.guards
        if one.comparison
    ]
    lines += [f"  {dead}"] if (dead := dead_end(brief, trial)) else []
    return "\n".join([*lines, f"  judged: {trial.arithmetic}"])


def reading_part(brief: Brief) -> str:
    """What a cheaper model read in the wrong outputs of the trial to grow from. It may repeat what they say."""
    best = standing(brief)
    told = "\n".join(reading_lines(best.blame)) if best and best.blame else ""
    return f"Trial {best.number}'s wrong outputs:\n{fenced(told)}" if best and told else ""


def short_trial(trial: Trial) -> str:
    """A trial in one line."""
    came = f"{trial.score.value:.3f}" if trial.score else "no score"
    grown = f" from trial {trial.plan.parent}" if trial.plan.parent else ""
    return f"Trial {trial.number}{grown} ({trial.plan.proposer}): {came}, {trial.decision}, {trial.seconds:.0f} s"


def change_text(brief: Brief, trial: Trial) -> str:
    """What a trial changed."""
    change = trial.plan.change
    return f"{change.factor}: {change.before} -> {change.after}" if change else "the first of its line"


def recipe_text(recipe: Recipe) -> str:
    """A recipe's factors in a line; those that a planner does not set are left out."""
    hidden = {"select_seed", "seed", "snapshots", "micro_batch", "sequence_len", "order", "deduplicate"}
    told = {name: value for name, value in factors(recipe).items() if name not in hidden and value is not None}
    return ", ".join(f"{name} {shown(value)}" for name, value in told.items())


def wrong_outputs(brief: Brief, facts: Facts) -> list[Part]:
    """Wrong outputs of the trial to grow from, by class: question and output, never the gold."""
    best = standing(brief)
    if best is None or best.score is None or not best.errors:
        return []
    parts = []
    found = {one.id: one for one in read_rows(facts.folder.resolve(best.score.outcomes), Outcome)}
    for rank, error in enumerate(best.errors):
        examples = [found[one] for one in error.examples if one in found][:EXAMPLES]
        shown_ones = [f"{one.prompt[-PROMPT_CHARS:]}\n=> {one.output[:OUTPUT_CHARS]!r}" for one in examples]
        if shown_ones:
            title = f"Trial {best.number}, {error.count} of kind “{error.name}”, for example:"
            parts.append(Part(f"{title}\n{fenced(joined(shown_ones))}", rank=10 + rank))
    return parts


# --- what can be done -----------------------------------------------------------------------------------------------


def machine_part(brief: Brief, facts: Facts, net: Plan | Stop) -> str:
    """Machine, time and bounds."""
    size = size_of(brief.model.parameters)
    last = brief.trials[-1].plan.training if brief.trials else None
    per_row = brief.row_tokens * brief.speed
    lines = [
        f"Machine: {brief.device}, {facts.memory_bytes / 2**30:.0f} GiB. {memory_text(brief, net)}",
        f"Time: {brief.spendable:.0f} s for trials; each takes {brief.fixed_seconds:.0f} s and {per_row:.3f} s a row "
        f"and epoch; so {brief.row_visits(brief.training_room, last)} rows x epochs at most in the next one."
        + (f" {brief.trials_left} trials are left." if brief.trials_left is not None else ""),
        f"Usual learning rates of this size: LoRA {size.low:g} to {size.high:g}, full {size.full:g}.",
    ]
    return "\n".join(lines)


def memory_text(brief: Brief, net: Plan | Stop) -> str:
    """What the usual methods take for the longest row, by estimate, with the last trial's recipe or the first one's."""
    whose, training = ("Such a recipe", net.training) if isinstance(net, Plan) else ("", None)
    if brief.trials:
        whose, training = f"Trial {brief.trials[-1].number}'s recipe", brief.trials[-1].plan.training
    if training is None:
        return ""
    methods = ("lora", "full") if brief.device == "cpu" else ("qlora", "lora", "full")
    told = []
    for method in methods:
        recipe = training.model_copy(update={"method": method})
        told.append(f"{method} {estimate_memory(recipe, brief.model, brief.longest_row, brief.device) / 2**30:.1f} GiB")
    return f"{whose} takes: {', '.join(told)}."


def net_part(brief: Brief, net: Plan | Stop) -> str:
    """What the search proposer would do, which is also what an open form means."""
    if isinstance(net, Stop):
        return f"The search proposer would stop: {net.reason}"
    parent = next((trial for trial in brief.trials if trial.number == net.parent), None)
    recipe = Recipe(data=net.data, training=net.training)
    change = change_between(recipe_of(brief, parent), recipe) if parent else None
    what = f"{change.factor} {change.before} -> {change.after}, from trial {net.parent}" if change else ""
    return f"The search proposer would train: {what or recipe_text(recipe)}. Why: {net.diagnosis}"
