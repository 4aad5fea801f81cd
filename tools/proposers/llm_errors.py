"""A cheaper model reads wrong outputs and says what they share, so that the planner need not read them all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from memory.errors import ModelError, ServerError, TrialError
from memory.records import Record
from tools.llm.broker import Broker
from tools.llm.endpoint import Endpoint, Message
from tools.llm.prompt import fenced, form_text, rendered
from tools.llm.typed import ask_for
from tools.proposers.brief import Brief
from tools.proposers.history import standing
from tools.proposers.llm_brief import Facts, fitted, wrong_outputs

PURPOSE = "reading errors"


class ErrorReading(Record):
    """What wrong outputs share, and what is to blame."""

    shared: str = Field(max_length=400, description="what the wrong outputs have in common")
    blame: Literal["format", "training", "data", "evaluation"] = Field(description="what is most likely to blame")


@dataclass(frozen=True)
class ErrorReader:
    """Reads the wrong outputs of the trial to grow from."""

    broker: Broker
    endpoint: Endpoint
    template: str
    """The prompt, with places for `form`, `task` and `outputs`."""
    note: Callable[[str], None]

    def __call__(self, brief: Brief, facts: Facts, patience_s: float) -> str:
        """What they share; empty where there are none, or where the reader has failed, which is said: the
        planner then has the outputs themselves."""
        best, parts = standing(brief), wrong_outputs(brief, facts)
        if best is None or not parts:
            return ""
        outputs = fitted(parts, self.endpoint.prompt_chars // 2)
        task = f"{facts.benchmark.name}, {facts.benchmark.title}"
        prompt = rendered(self.template, form=form_text(ErrorReading), task=task, outputs=outputs)
        asked = [Message(role="user", content=prompt)]
        try:
            read = ask_for(ErrorReading, self.broker, self.endpoint, asked, PURPOSE, patience_s)
        except (ModelError, ServerError, TrialError) as error:
            self.note(f"{self.endpoint.model} did not read the wrong outputs of trial {best.number}: {error}")
            return ""
        who = f"{self.endpoint.model} read trial {best.number}'s wrong outputs. To blame: {read.blame}. They share:"
        return f"{who}\n{fenced(read.shared)}"  # what it says may repeat what the outputs say
