"""The benchmarks for a person: a table of them all, one of them with its prompt and scorers, and scores as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from memory.records import Score
from tools.benchmarks.benchmark import Benchmark, Graded
from tools.benchmarks.lighteval_tasks import PREFIX, KnownTask, table
from tools.benchmarks.splits import Manifest
from tools.raw_data.store import Store


def listing(benchmarks: Iterable[Benchmark], store: Store) -> str:
    """A line each: domain, metric, sizes, licence, raw data, and whether that is on this machine."""
    head = ("NAME", "DOMAIN", "METRIC", "VALIDATION, TEST", "LICENCE", "RAW DATA", "HERE")
    rows = [
        (each.name, each.domain, each.metric, each.sizes, each.terms, _raw_data(each), _here(each, store))
        for each in benchmarks
    ]
    more = f"{sum(not task.refused for task in table().values())} more are lighteval's own"
    return f"{columns([head, *rows])}\n{more}: python -m tools.benchmarks list lighteval"


def lightevals(tasks: Iterable[KnownTask]) -> str:
    """lighteval's own generative tasks, a line each."""
    head = ("NAME", "METRIC", "DATA SET", "TRAINING ROWS FROM", "EVALUATED ON")
    rows = [
        (PREFIX + each.name, each.metric, f"{each.repository} {each.subset}", each.train, "+".join(each.evaluation))
        for each in tasks
        if not each.refused
    ]
    return columns([head, *rows])


def shown(benchmark: Benchmark) -> str:
    """A question that is no test question, graded with the gold, another question's gold, the gold in a sentence, and
    nothing. Raises InputError where its raw data cannot be had."""
    candidates = benchmark.draw("validation" if benchmark.fixed else "train", 0)
    item = next(candidates)
    other = next((each.answer for each in candidates if each.answer != item.answer), "something else")
    outputs = {
        "the gold": item.answer,
        "another answer": other,
        "chatter": f"The answer is {item.answer}.",
        "nothing": "",
    }
    measures = ", ".join(measure.name for measure in benchmark.others)
    lines = [
        f"{benchmark.name}: {benchmark.title}",
        f"source     {benchmark.source}, {benchmark.terms}",
        f"metric     {benchmark.metric}, {benchmark.samples} sample(s); {_answers(benchmark)}",
        *([f"beside it  {measures}"] if measures else []),
        f"output     up to {benchmark.max_new_tokens} tokens, temperature {benchmark.temperature:g}",
        "",
        item.prompt,
        "",
        *(graded_in_words(kind, output, benchmark.grade(output, item)) for kind, output in outputs.items()),
    ]
    return "\n".join(lines)


def graded_in_words(kind: str, output: str, graded: Graded) -> str:
    """What the scorers say to one output."""
    read = "unparsable" if graded.answer is None else f"read as {graded.answer!r}"
    further = [f"{name} {value:g}" for name, value in graded.values.items()]
    further += [f"{name} read as {label!r}" for name, label in graded.labels.items()]
    return "; ".join([f"{kind:15} {output!r}: score {graded.score:g}, {read}", *further])


def scores(score: Score) -> str:
    """A score, the measures beside it, and those that could not be taken."""
    interval = f"[{score.ci_low:.4f}, {score.ci_high:.4f}]"
    rows = [
        ("", "VALUE", "95 % INTERVAL", "N"),
        (score.metric, _figure(score.value, score.stderr), interval, str(score.n)),
    ]
    for name, each in score.others.items():
        interval = f"[{each.ci_low:.4f}, {each.ci_high:.4f}]"
        rows.append((name, _figure(each.value, each.stderr), interval, str(each.n)))
    missing = [f"{name} was not measured: {why}" for name, why in score.unmeasured.items()]
    parts = [f"{name}: {part.value:.4f} (n={part.n})" for name, part in score.subsets.items()]
    return "\n".join([columns(rows), f"parsed: {score.parsed} of {score.n}", *missing, *parts])


def manifested(manifest: Manifest, folder: Path) -> str:
    """What the splits of a benchmark are."""
    rows = [("SPLIT", "ITEMS", "REPEATED", "ALSO IN ANOTHER", "NEAR COPIES", "SHA256")]
    for split, entry in manifest.splits.items():
        also = ", ".join(f"{count} in {other}" for other, count in entry.overlap.items()) or "0"
        counts = (str(entry.items), str(entry.duplicates), also, str(entry.near_copies))
        rows.append((split, *counts, entry.sha256[:16]))
    return f"{manifest.benchmark}: {manifest.source}, {manifest.licence}\n{columns(rows)}\n{folder}"


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows under each other, cells aligned."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _figure(value: float, stderr: float) -> str:
    return f"{value:.4f} ± {stderr:.4f}"


def _answers(benchmark: Benchmark) -> str:
    closed = benchmark.closed_answers
    return "open answers" if closed is None else f"{len(closed)} answers: {', '.join(closed)}"


def _raw_data(benchmark: Benchmark) -> str:
    sources = {file.source for file in (*benchmark.held_out, *benchmark.training)}
    names = [source.repository + (" (gated)" if source.gated else "") for source in sources]
    return ", ".join(sorted(names)) or "generated"


def _here(benchmark: Benchmark, store: Store) -> str:
    held_out, training = not store.missing(benchmark.held_out), not store.missing(benchmark.training)
    if held_out and training:
        return "yes"
    return "held-out rows only" if held_out else "training rows only" if training else "no"
