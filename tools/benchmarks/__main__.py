"""`python -m tools.benchmarks`: what there is, what a scorer does with an output, raw data made ready, and outputs in a
file scored without a model."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from memory.errors import InputError, TunewrightError
from memory.layout import folder_name
from tools.benchmarks import BENCHMARKS, get
from tools.benchmarks.benchmark import Benchmark, Item, Split
from tools.benchmarks.lighteval_tasks import table
from tools.benchmarks.listing import lightevals, listing, manifested, scores, shown
from tools.benchmarks.predictions import score_file
from tools.benchmarks.preparation import fetch, install
from tools.benchmarks.splits import Sizes, write_splits
from tools.engines import environments
from tools.raw_data.profile import EXAMPLES, in_words, profile
from tools.raw_data.store import Store, data_folder


def main(arguments: list[str]) -> int:
    """Print what was asked for; the exit code is 2 for an unknown name, missing data and unusable files."""
    asked = parser().parse_args(arguments)
    cache = environments.cache_folder(os.environ)
    try:
        store = Store(data_folder(asked.data_dir or os.environ.get("TUNEWRIGHT_DATA")), cache)
        sys.stdout.write(answer(asked, store) + "\n")
    except TunewrightError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m tools.benchmarks", description=__doc__)
    commands = made.add_subparsers(dest="command", required=True)
    says = {
        "list": "all benchmarks, a line each",
        "show": "a question, its gold, and what the scorers say to four outputs",
        "prepare": "fetch its raw data, install packages of its own, write its splits",
        "score": "score a file of outputs, lines of {id, output}",
    }
    each = {name: commands.add_parser(name, help=help, description=help) for name, help in says.items()}
    for name, command in each.items():
        command.add_argument("--data-dir", metavar="DIR", help="a folder that holds raw data (TUNEWRIGHT_DATA)")
        if name == "list":
            command.add_argument("whose", nargs="?", choices=["ours", "lighteval"], default="ours")
        else:
            command.add_argument("name", help="a benchmark of ours, or lighteval:TASK, or lighteval:TASK|SHOTS")
    each["score"].add_argument("predictions", type=Path)
    each["score"].add_argument(
        "--rows", type=Path, metavar="FILE", help="rows in the benchmark's own schema to score on"
    )
    each["score"].add_argument("--split", choices=["validation", "test"], default="test", help="default: test")
    each["score"].add_argument("--json", action="store_true", help="the score as JSON")
    return made


def answer(asked: argparse.Namespace, store: Store) -> str:
    """The text that was asked for. Raises InputError and SetupError."""
    if asked.command == "list":
        return lightevals(table().values()) if asked.whose == "lighteval" else listing(BENCHMARKS.values(), store)
    benchmark = get(asked.name, store)
    if asked.command == "show":
        return shown(benchmark)
    if asked.command == "prepare":
        return prepared(benchmark, store)
    score = score_file(benchmark, asked.predictions, items_of(benchmark, asked.rows, asked.split))
    return score.model_dump_json(indent=2) if asked.json else scores(score)


def items_of(benchmark: Benchmark, rows: Path | None, split: Split) -> list[Item]:
    """What is scored on. Raises InputError where a benchmark has no rows of its own, or its raw data cannot be had."""
    if not benchmark.fixed:
        raise InputError(f"the items of {benchmark.name} are generated anew for each run", "Score outputs in a run.")
    if rows is None:
        return list(benchmark.draw(split, 0))
    if benchmark.items_in is None:
        raise InputError(f"{benchmark.name} reads no rows from a file", "Leave --rows out.")
    return benchmark.items_in(rows)


def prepared(benchmark: Benchmark, store: Store) -> str:
    """Make a benchmark ready, and say what its splits are."""

    def say(line: str) -> None:
        sys.stderr.write(f"{line}\n")

    score = environments.installed(environments.specs(environments.detect_hardware())["score"], store.cache)
    for python in (Path(sys.executable), *([score.python] if score else [])):
        install(benchmark, python, store.cache / "extras.log", say)
    fetch([benchmark], store, say)
    for file in dict.fromkeys((*benchmark.held_out, *benchmark.training)):
        shown = 0 if file in benchmark.held_out else EXAMPLES
        say(in_words(f"{file.source.title}, {file.name}", profile(store.path(file), shown)))
    folder = store.cache / "splits" / folder_name(benchmark.name)
    return manifested(write_splits(benchmark, folder / "data", folder / "sealed", Sizes(), 0), folder)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
