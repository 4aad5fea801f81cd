"""What the four tasks of BioProBench share: their files, the published split, and the tags around an answer.

Every task has a file of test rows, from which validation and test are cut (shuffled with seed 42, the first and the
last hundred), and a much larger one of training rows. Test rows that lie between the two are used for nothing.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from memory.errors import InputError
from tools.benchmarks.benchmark import Benchmark, Draw, Graded, Item, Split, nowhere
from tools.benchmarks.measures import Measure
from tools.metrics.texts import without_reasoning
from tools.raw_data.rows import Row, published, read
from tools.raw_data.source import RawFile
from tools.raw_data.sources import BIOPROBENCH
from tools.raw_data.store import Store
from tools.serving import WINDOW

START, END = "[ANSWER_START]", "[ANSWER_END]"
_TAGGED = re.compile(r"\[ANSWER_START\](.*?)\[ANSWER_END\]", re.DOTALL)

ItemOf = Callable[[Row], Item]
"""Raises KeyError or TypeError for a row of something else."""


def asked(question: str, form: str) -> str:
    """A prompt: the question, and the form of the answer between the benchmark's tags."""
    return f"{question}\n\nAnswer in this form and with nothing else:\n{START}{form}{END}"


def answered(answer: str) -> str:
    """An answer between the tags."""
    return f"{START}{answer}{END}"


def tagged(output: str) -> str | None:
    """What stands between the last pair of tags, behind any reasoning; None where there is no pair."""
    found = _TAGGED.findall(without_reasoning(output))
    return found[-1].strip() if found else None


def first_tagged(output: str) -> str | None:
    """The published readers but one take the first pair."""
    match = _TAGGED.search(without_reasoning(output))
    return match[1].strip() if match else None


def make(
    task: str,
    title: str,
    item_of: ItemOf,
    grade: Callable[[str, Item], Graded],
    measure: Measure,
    others: Sequence[Measure],
    *,
    max_new_tokens: int,
    window: int = WINDOW,
    extras: tuple[str, ...] = (),
) -> Benchmark:
    """The benchmark of a task, which is called so in the names of its files."""
    held_out = RawFile(BIOPROBENCH, f"{task}_test.json", (f"bioprobench/{task}_test.json", f"Data/{task}_test.json"))
    training = RawFile(BIOPROBENCH, f"{task}.json")

    def items_in(path: Path) -> list[Item]:
        return [_item(item_of, row, number, path) for number, row in enumerate(read(path), 1)]

    def drawn_from(store: Store) -> Draw:
        def draw(split: Split, seed: int) -> Iterator[Item]:
            if split == "train":
                rows = read(path := store.path(training))
                order = random.Random(seed).sample(range(len(rows)), len(rows))
                yield from (_item(item_of, rows[place], place + 1, path) for place in order)
            else:
                yield from published(items_in(store.path(held_out)))[split]

        return draw

    return Benchmark(
        name=f"bioprobench_{task.lower()}",
        title=title,
        source=BIOPROBENCH.pinned,
        licence=BIOPROBENCH.licence,
        domain="biology",
        sizes="100, 100",
        draw=nowhere,
        drawn_from=drawn_from,
        items_in=items_in,
        held_out=(held_out,),
        training=(training,),
        grade=grade,
        measure=measure,
        others=tuple(others),
        max_new_tokens=max_new_tokens,
        window=window,
        extras=extras,
    )


def _item(item_of: ItemOf, row: Row, number: int, path: Path) -> Item:
    try:
        return item_of(row)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"row {number} of {path} is no row of BioProBench ({type(error).__name__}: {error})",
            "Name a folder that holds its files unchanged.",
        ) from error
