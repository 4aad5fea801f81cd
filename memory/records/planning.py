"""Who plans a run: the search proposer or a language model, which ones, and what their calls may cost."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from memory.records.record import Record

OPENAI_URL = "https://api.openai.com/v1"
LOCAL = "local"
"""The name under which the model that is tuned plans for itself, on the run's own server."""


Planner = Literal["search", "llm", "hybrid"]
"""search: rules and a sampler. llm: a language model. hybrid: a language model says what changes, and Optuna draws what
a number is set to."""

Strategy = Literal["greedy", "best-first", "mcts"]
"""How the search proposer chooses the trial to grow from (`tools/proposers/strategies/`)."""


class Price(Record):
    """What a model costs, in US dollars for a million tokens."""

    prompt: float = Field(ge=0)
    answer: float = Field(ge=0)
    """Reasoning tokens are billed as answer."""


class Planning(Record):
    """Who plans. No secret is in it, so that it can be kept: the key comes from the environment at each start."""

    planner: Planner = "search"
    search: Strategy = "greedy"
    """Of the search proposer, also where it stands behind a language model. `greedy` is what runs did before there was
    a choice; the front door gives a new run `DEFAULT_SEARCH` of graph/planning.py."""
    recall: bool = True
    """Whether earlier runs in the same folder are recalled; off where runs are compared and each has to stand alone."""
    model: str = ""
    """The model that plans, as its server calls it, or `local`; empty where search plans."""
    strong_model: str = ""
    """Asked once more where a proposal of `model` cannot be used; empty asks `model` again."""
    weak_model: str = ""
    """Reads wrong outputs and says what they share; empty lets the planner see them raw."""
    base_url: str = OPENAI_URL
    """The OpenAI-compatible server of all but `local`."""
    research: bool = False
    """Whether the model may look things up in public catalogues before its first plan."""
    budget_usd: float | None = Field(default=None, gt=0)
    """Hard cap on what all calls of the run may cost together; None sets no cap."""
    prices: dict[str, Price] = Field(default_factory=dict)
    """Prices that the person gave, by model; they come before our own table."""


class ModelCall(Record):
    """One call of a language model, for the meter: written before it is sent, and again when it is over."""

    id: str
    """Unique in the run; the last record of an id holds."""
    state: Literal["sent", "answered", "failed"]
    """`sent` counts with the most that the call can cost, so that a process killed meanwhile cannot overspend."""
    purpose: str
    """Who asked, and for what."""
    model: str
    trial: int | None = None
    """The trial that was planned meanwhile; None for a call that served none."""
    prompt_tokens: int = Field(default=0, ge=0)
    answer_tokens: int = Field(default=0, ge=0)
    dollars: float | None = Field(default=None, ge=0)
    """None where the model's price is not known."""
    seconds: float = Field(default=0.0, ge=0)
    """Wall clock from sending to the answer."""


class ModelUse(Record):
    """All calls of one model for one purpose."""

    purpose: str
    model: str
    calls: int
    prompt_tokens: int
    answer_tokens: int
    dollars: float | None
    seconds: float


ModelFault = Literal["timeout", "rate limit", "context", "key", "model", "connection", "server", "request", "budget"]
"""How a call can fail for good. context: the prompt is longer than the model takes. request: the server refuses what
was asked, as it was asked. budget: the call could cost more than is left."""
