"""What every record is, and the closed lists of words that records share."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

NodeName = Literal["planner", "data_engineer", "validator", "trainer", "analyst"]

FailureKind = Literal["CONFIG", "DATA", "CONTAMINATION", "TEMPLATE", "OOM", "BUDGET", "ENV", "DIVERGED"]
"""CONFIG: a recipe no engine accepts. DATA: rows that cannot be trained on. CONTAMINATION: held-out text in the data.
TEMPLATE: training and serving render differently. OOM: out of memory. BUDGET: does not fit the time left. ENV: the
machine or an engine. DIVERGED: the loss became NaN, exploded or stalled."""

Decision = Literal["accepted", "rejected", "inconclusive", "failed"]


class Record(BaseModel):
    """Frozen and closed: a misspelt field is an error, and nobody changes a fact afterwards."""

    model_config = ConfigDict(frozen=True, extra="forbid")
