"""`python -m tools.benchmarks list` and `show NAME`: what there is, and what a benchmark's scorer does with an
output."""

from __future__ import annotations

import argparse
import sys

from memory.errors import TunewrightError
from tools.benchmarks import BENCHMARKS, get
from tools.benchmarks.benchmark import Benchmark


def main(arguments: list[str]) -> int:
    """Print what was asked for; the exit code is 2 for an unknown name."""
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="all benchmarks, a line each")
    show = commands.add_parser("show", help="a question, its gold, and what the scorer says to four outputs")
    show.add_argument("name")
    asked = parser.parse_args(arguments)
    try:
        sys.stdout.write((_listing() if asked.command == "list" else _shown(get(asked.name))) + "\n")
    except TunewrightError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


def _listing() -> str:
    return "\n".join(f"{name:24} {benchmark.title}" for name, benchmark in BENCHMARKS.items())


def _shown(benchmark: Benchmark) -> str:
    """The first training question of seed 0, graded with the gold, another question's gold, the gold in a sentence,
    and nothing."""
    candidates = benchmark.draw("train", 0)
    item = next(candidates)
    wrong = next(other.answer for other in candidates if other.answer != item.answer)
    outputs = {
        "the gold": item.answer,
        "a wrong answer": wrong,
        "chatter": f"The answer is {item.answer}.",
        "nothing": "",
    }
    lines = [
        f"{benchmark.name}: {benchmark.title}",
        f"source     {benchmark.source}, {benchmark.licence}",
        f"metric     {benchmark.metric}, {benchmark.samples} sample(s); {_answers(benchmark)}",
        f"output     up to {benchmark.max_new_tokens} tokens, temperature {benchmark.temperature:g}",
        "",
        item.prompt,
        "",
    ]
    for kind, output in outputs.items():
        graded = benchmark.grade(output, item)
        read = "unparsable" if graded.answer is None else f"read as {graded.answer!r}"
        lines.append(f"{kind:15} {output!r}: score {graded.score:g}, {read}")
    return "\n".join(lines)


def _answers(benchmark: Benchmark) -> str:
    closed = benchmark.closed_answers
    return "open answers" if closed is None else f"{len(closed)} answers: {', '.join(closed)}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
