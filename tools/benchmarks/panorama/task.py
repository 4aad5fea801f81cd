"""What PANORAMA's three tasks share: how a row becomes a prompt, where rows come from, and how an output is opened.

PANORAMA holds decisions of US patent examiners, from real office actions (arXiv 2510.24774). Validation and test are
the first and last hundred rows of the published test file, shuffled with seed 42, as FT-Dojo cuts them; training rows
come from the published training file. Prompts are long, ten to twenty thousand tokens: they need a model and a server
with a window for that.

Ours takes the one JSON object of an output and nothing else, so that what is no clean answer is wrong. FT-Dojo's
scorers, whose figures stand beside ours, look into the first code fence and then guess; each task says how.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tools.benchmarks.benchmark import Benchmark, Draw, Item, Split, nowhere
from tools.benchmarks.measures import Mean
from tools.metrics.json_fields import parsed
from tools.metrics.texts import without_reasoning
from tools.raw_data.rows import Row, nested, published, read, some
from tools.raw_data.source import RawFile
from tools.raw_data.sources import PANORAMA
from tools.raw_data.store import Store

WINDOW = 32_768
"""Tokens of prompt and answer together."""
TRAINING_ROWS = 2000
"""As many as FT-Dojo lets an agent train on; each is a document of some 60,000 characters."""


def patent(details: Any, claims: Any = None) -> str:
    """A patent for the prompt: its number, title, abstract and claims."""
    listed = json.dumps(list(details.get("claims", []) if claims is None else claims), indent=4, ensure_ascii=False)
    return (
        f"Patent {details.get('patent_id')}\nTitle: {details.get('title')}\nAbstract: {details.get('abstract')}\n"
        f"Claims: {listed}"
    )


def application(row: Row) -> tuple[str, str]:
    """The application for the prompt, and the text of the claim that is asked about."""
    context = nested(row["context"])
    number = int(str(row["claim_number"]))
    claims = list(context["claims"])
    text = claims[number - 1] if 0 < number <= len(claims) else "(its text is missing)"
    head = f"Application {row['application_number']}\nTitle: {context['title']}\nAbstract: {context['abstract']}"
    return head, str(text)


def name_of(task: str, row: Row, *more: object) -> str:
    """An item's id: application, claim, and what else tells two rows apart."""
    return "-".join([task, str(row["application_number"]), f"cl{row['claim_number']}", *map(str, more)])


def named(value: object) -> list[str]:
    """Letters or numbers of a column that holds a list, or a text with commas."""
    if isinstance(value, str):
        value = json.loads(value) if value.startswith("[") else value.replace(",", " ").split()
    return [str(part) for part in (value if isinstance(value, Sequence) else [value])]


def field(output: str, key: str) -> object:
    """What the one JSON object of an output holds under a key; None where there is no such object, or no such key."""
    found = parsed(without_reasoning(output))
    return found.get(key) if found else None


def fenced(output: str) -> str:
    """The first fence that says json, or else the first fence, or else all of it."""
    text = output.strip()
    fence = r"```json\s*(.*?)\s*```" if "```json" in text else r"```\s*(.*?)\s*```"
    found = re.search(fence, text, re.DOTALL)
    return found[1] if found else text


def json_ftdojo(text: str) -> Any:
    """What FT-Dojo's scorers take for the JSON of an output; None where it is none."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return None


def figures(*names: str) -> tuple[Mean, ...]:
    """Means of figures that are called like them."""
    return tuple(Mean(name, name) for name in names)


def make(task: str, title: str, item_of: Callable[[Row], Item], **scoring: Any) -> Benchmark:
    """The benchmark of one task; `scoring` is its grade, its measures and its closed answers."""
    held_out = RawFile(PANORAMA, f"{task.upper()}/test.parquet", elsewhere=(f"panorama/{task}",))
    training = RawFile(PANORAMA, f"{task.upper()}/train.parquet")

    def drawn_from(store: Store) -> Draw:
        def draw(split: Split, seed: int) -> Iterator[Item]:
            if split == "train":
                rows = [row for _, row in some(store.path(training), TRAINING_ROWS, seed)]
            else:
                rows = published(read(store.path(held_out)))[split]
            yield from map(item_of, rows)

        return draw

    def items_in(path: Path) -> list[Item]:
        return [item_of(row) for row in read(path)]

    return Benchmark(
        name=f"panorama_{task}",
        title=title,
        source=f"{PANORAMA.pinned}, {task.upper()}",
        licence=PANORAMA.licence,
        domain="patents",
        sizes="100, 100",
        draw=nowhere,
        drawn_from=drawn_from,
        items_in=items_in,
        held_out=(held_out,),
        training=(training,),
        max_new_tokens=64,
        window=WINDOW,
        **scoring,
    )
