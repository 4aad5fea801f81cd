"""A workroom whose language models are a scripted server, and what such a server was shown."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memory.records import Price, Rehearsal
from tests.scripted_llm import Answer, Script
from tools.benchmarks import get
from tools.benchmarks.benchmark import Item
from tools.llm.broker import Broker
from tools.llm.endpoint import Endpoint
from tools.llm.meter import Meter
from tools.operators.rehearsal import Room
from tools.operators.rows import Row, Workroom
from tools.operators.writers import PURPOSES, Writers

PROMPTS = Path(__file__).parents[1] / "nodes" / "prompts"
SPELLING = get("spell_backward")
"""Its answers are open, and grading them is quick."""


@dataclass
class Heard:
    """What a workroom told."""

    rehearsals: list[Rehearsal] = field(default_factory=list)
    progress: list[tuple[str, int, int]] = field(default_factory=list)


def items(count: int) -> list[Item]:
    """Training items with distinct prompts."""
    found: dict[str, Item] = {}
    for item in SPELLING.draw("train", 0):
        found.setdefault(item.prompt, item)
        if len(found) == count:
            break
    return [item.model_copy(update={"id": f"train-{n}"}) for n, item in enumerate(found.values())]


def rows(count: int) -> list[Row]:
    """Rows of the training split."""
    return [Row(each.id, each.prompt, each.answer, SPELLING.name, each.columns, each) for each in items(count)]


def workroom(
    folder: Path, url: str = "", *, budget_usd: float | None = None, seconds: float = 3600.0, heard: Heard | None = None
) -> Workroom:
    """A workroom; without an address it has no language model."""
    heard = heard or Heard()
    strong = Endpoint("clever", url, price=Price(prompt=1.0, answer=10.0), answer_tokens=1000)
    broker = Broker(folder / "llm", Meter(folder / "llm", budget_usd), lambda call: None)
    templates = {name: (PROMPTS / f"{name}.md").read_text() for name in PURPOSES}
    weak = Endpoint("quick", url, price=Price(prompt=0.1, answer=1.0), answer_tokens=1000)
    return Workroom(
        benchmark=SPELLING,
        room=Room(lambda: seconds, heard.rehearsals.append, lambda *told: heard.progress.append(told)),
        writers=Writers(broker, {"strong": strong, "weak": weak}, templates) if url else None,
    )


def asked(script: Script) -> list[str]:
    """What the server was shown, one text a request."""
    return [body["messages"][0]["content"] for body in script.asked]


def part(body: Mapping[str, Any]) -> int:
    """Which part of a synthesis a request asks for."""
    found = re.search(r"This is part (\d+)", body["messages"][0]["content"])
    assert found is not None
    return int(found[1])


def says(answer: object) -> Answer:
    """An answer in the form that is asked for."""
    return {"text": json.dumps(answer), "tokens": (1000, 100)}
