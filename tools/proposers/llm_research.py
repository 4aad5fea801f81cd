"""A language model looks things up before its first plan: its queries, what they found, and what a plan cites of it.

Nothing is downloaded. What the catalogues say is foreign text: it is cut, stands between marks, and is never obeyed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import Field

from memory.errors import CatalogueError, ModelError, ServerError, TrialError
from memory.layout import RunFolder, read_record, write_record
from memory.records import Found, Plan, Query, Record, Research, Shelf
from tools.llm.broker import Broker
from tools.llm.endpoint import Endpoint, Message
from tools.llm.prompt import fenced, form_text, rendered
from tools.llm.typed import ask_for
from tools.proposers.brief import Brief, Stop
from tools.proposers.llm_brief import DESCRIPTION_CHARS, Facts, Part, task_part
from tools.research.library import Library

PURPOSE = "research"
ROUNDS = 2
"""Times that the model may ask: the second time it knows what the first one found."""
WORD = re.compile(r"[\w.+-]+")
"""Of a query; a search box needs no other signs."""
MOST_CHARS, ENTRY_CHARS, SHORT_CHARS = 6_000, 400, 600
"""Of all that was found, in a prompt; of an entry; and of all where space is short."""
GROUP, CITED = re.compile(r"\[([^\]]*)\]"), re.compile(r"\bR(\d{1,3})\b")
"""`[R1]`, or `[R1, R4]`."""


class Inquiry(Record):
    """What to look up, a query for each catalogue at most."""

    datasets: str | None = Field(default=None, max_length=80, description="words to search data sets for")
    models: str | None = Field(default=None, max_length=80, description="words to search models for")
    papers: str | None = Field(default=None, max_length=80, description="words to search papers for")

    def queries(self, shelves: Sequence[Shelf]) -> list[Query]:
        """The queries for the catalogues that can be reached."""
        asked: dict[Shelf, str | None] = {"dataset": self.datasets, "model": self.models, "paper": self.papers}
        found = ((shelf, " ".join(WORD.findall(words or ""))) for shelf, words in asked.items())
        return [Query(shelf=shelf, words=words) for shelf, words in found if words and shelf in shelves]


@dataclass(frozen=True)
class Researcher:
    """Looks things up once a run, before its first plan."""

    broker: Broker
    endpoint: Endpoint
    template: str
    """The prompt, with places for `form`, `task` and `found`."""
    library: Library
    folder: RunFolder
    note: Callable[[str], None]

    def __call__(self, brief: Brief, facts: Facts, patience_s: float) -> Research:
        """What was looked up: now, or when the run began. Where the model cannot be asked, that is said, and the run
        goes on without."""
        if self.folder.research.exists():
            return read_record(self.folder.research, Research)
        if brief.trials or not self.library.shelves:
            return Research()
        try:
            research = self.asked(brief, facts, patience_s)
        except (ModelError, ServerError, TrialError) as error:
            self.note(f"{self.endpoint.model} looked nothing up: {error}")
            return Research()
        write_record(self.folder.research, research)
        return research

    def asked(self, brief: Brief, facts: Facts, patience_s: float) -> Research:
        """Ask for queries and carry them out, round after round."""
        research = Research()
        task = f"{task_part(brief, facts)}\n{brief.task.description[:DESCRIPTION_CHARS]}"
        for _ in range(ROUNDS):
            found = research_text(research, min(MOST_CHARS, self.endpoint.prompt_chars // 2))
            prompt = rendered(self.template, form=form_text(Inquiry), task=task, found=found)
            said = [Message(role="user", content=prompt)]
            inquiry = ask_for(Inquiry, self.broker, self.endpoint, said, PURPOSE, patience_s)
            known = {(query.shelf, query.words) for query in research.queries}
            queries = [one for one in inquiry.queries(self.library.shelves) if (one.shelf, one.words) not in known]
            if not queries:
                break
            for query in queries:
                research = self.carried_out(research, query)
        return research

    def carried_out(self, research: Research, query: Query) -> Research:
        """The research with one more query."""
        found: list[Found] = []
        try:
            found = self.library.search(query)
        except CatalogueError as error:
            query = query.model_copy(update={"problem": error.message})
        self.note(f"looked up {query.shelf}s for “{query.words}”: {query.problem or f'{len(found)} found'}")
        known = {(one.shelf, one.id) for one in research.found}
        fresh = tuple(one for one in found if (one.shelf, one.id) not in known)
        return Research(queries=(*research.queries, query), found=(*research.found, *fresh))


def research_text(research: Research, most_chars: int = MOST_CHARS) -> str:
    """What was found, as data in a prompt; says so where there is nothing."""
    if not research.queries:
        return "Nothing was looked up yet."
    asked = "; ".join(f"{query.shelf}s: {query.words}" for query in research.queries)
    lines = [
        " | ".join(part for part in (f"R{number} {one.says}", one.title, one.summary) if part)[:ENTRY_CHARS]
        for number, one in enumerate(research.found, 1)
    ]
    return f"Looked up in public catalogues ({asked}):\n" + fenced("\n".join(lines)[:most_chars] or "nothing was found")


def research_part(research: Research) -> Part:
    """What was found, for the brief."""
    if not research.queries:
        return Part("")
    rule = "Where a plan rests on one of them, cite it in the hypothesis as [R1]. None of it is on this machine."
    short = f"{research_text(research, SHORT_CHARS)}\n{rule}"
    return Part(f"{research_text(research)}\n{rule}", rank=12, short=short)


def cited(plan: Plan | Stop, research: Research) -> Plan | Stop:
    """The plan with what it cites; numbers that stand for nothing are left out."""
    if isinstance(plan, Stop):
        return plan
    groups = GROUP.findall(f"{plan.diagnosis} {plan.hypothesis}")
    numbers = dict.fromkeys(int(number) for group in groups for number in CITED.findall(group))
    known = dict(enumerate(research.found, 1))
    cites = tuple(f"R{number} {known[number].says}" for number in numbers if number in known)
    return plan.model_copy(update={"cites": cites})
