"""Who plans a run: what a person says on the command line and in the environment becomes a `Planning`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr

from memory.errors import InputError
from memory.records import LOCAL, OPENAI_URL, Planner, Planning, Price, Record, Strategy
from tools.llm.prices import price_of
from tools.research.library import HUB_URL, PAPERS_URL

DEFAULT_MODEL = "gpt-5-mini"
"""Plans where a key is given and nothing else: a call of a brief costs about half a cent."""
DEFAULT_SEARCH: Strategy = "best-first"
"""By the figures of `tests/bench_search.py`, a simulation: on 400 tasks it hands over models that are 1.0 ± 0.2 points
better than greedy's. Most of that comes at an hour and more, where greedy stops with time to spare; up to half an hour,
where both spend it, the difference is 0.3 ± 0.2."""
MODELS = ("planner_model", "strong_model", "weak_model")
ONLY_MODELS = ("budget_usd", "price", "research")
"""Options that have a meaning only where a language model plans."""


class Access(Record):
    """How to reach an OpenAI-compatible server. Not kept: it comes from the environment at each start."""

    key: SecretStr | None = None
    base_url: str = ""
    """Empty where the environment names none."""
    hub_url: str = HUB_URL
    """Where data sets and models are looked up."""
    papers_url: str = PAPERS_URL
    """Where papers are looked up: arXiv, or a mirror of it."""


def access_of(environment: Mapping[str, str]) -> Access:
    """OPENAI_API_KEY and OPENAI_BASE_URL, HF_ENDPOINT and TUNEWRIGHT_PAPERS. Raises InputError for an address that is
    none, or that holds a secret."""
    key = environment.get("OPENAI_API_KEY", "").strip()
    return Access(
        key=SecretStr(key) if key else None,
        base_url=_address(environment, "OPENAI_BASE_URL"),
        hub_url=_address(environment, "HF_ENDPOINT") or HUB_URL,
        papers_url=_address(environment, "TUNEWRIGHT_PAPERS") or PAPERS_URL,
    )


def _address(environment: Mapping[str, str], name: str) -> str:
    """An address of the environment; empty where it names none. Raises InputError."""
    url = environment.get(name, "").strip()
    parts = urlsplit(url)
    if url and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise InputError(f"{name} is no address", "Write it like http://127.0.0.1:8000/v1.")
    if parts.username or parts.password or parts.query:
        raise InputError(f"{name} holds more than an address", "Leave name, password and question out of it.")
    return url.rstrip("/")


def planning_of(given: Mapping[str, Any], access: Access) -> Planning:
    """Who plans a new run. A model or a key that is given turns the language model on; `--planner search` turns it off.

    `hybrid` is a language model that leaves the numbers to Optuna. Raises InputError where options contradict each
    other, or the budget cannot be kept because a price is unknown.
    """
    models = [name for name in MODELS if name in given]
    own = Planning(search=given.get("search", DEFAULT_SEARCH), recall=not given.get("no_recall", False))
    asked: Planner = given.get("planner") or ("llm" if models or access.key else "search")
    if asked == "search":
        for name in (*models, *(name for name in ONLY_MODELS if name in given)):
            raise InputError(f"--{name.replace('_', '-')} has no meaning where search plans", "Leave one of them out.")
        return own
    planning = Planning(
        planner=asked,
        search=own.search,
        recall=own.recall,
        model=given.get("planner_model") or given.get("strong_model") or _default_model(access),
        strong_model=given.get("strong_model", ""),
        weak_model=given.get("weak_model", ""),
        base_url=access.base_url or OPENAI_URL,
        research=given.get("research", False),
        budget_usd=given.get("budget_usd"),
        prices=dict(given.get("price", ())),
    )
    check_access(planning, access)
    _check_prices(planning)
    return planning


def check_access(planning: Planning, access: Access) -> None:
    """Raises InputError where OpenAI's own server is to be asked without a key, and where a run that goes on would send
    a key to an address that the environment does not name."""
    kept = planning.base_url
    if planning.planner != "search" and access.key and not access.base_url and kept != OPENAI_URL:
        way_out = f"Set OPENAI_BASE_URL={kept} if your key belongs there, or unset OPENAI_API_KEY."
        raise InputError(f"the run asks models at {kept}, and OPENAI_BASE_URL is not set", way_out)
    if planning.planner != "search" and not access.key and url_of(planning, access) == OPENAI_URL:
        named = [name for name in models_of(planning) if name != LOCAL]
        if named:
            way_out = "Set OPENAI_API_KEY, or OPENAI_BASE_URL for a server of your own, or give --planner search."
            raise InputError(f"{named[0]} cannot be asked without a key", way_out)


def url_of(planning: Planning, access: Access) -> str:
    """The server of a run's models: what the environment says now, else what it said when the run began."""
    return access.base_url or planning.base_url


def models_of(planning: Planning) -> list[str]:
    """The models that are named, each once."""
    return list(dict.fromkeys(name for name in (planning.model, planning.strong_model, planning.weak_model) if name))


def says(planning: Planning) -> str:
    """Who plans, in a line."""
    if planning.planner == "search":
        return f"planned by search, {planning.search}"
    where = "on this machine" if models_of(planning) == [LOCAL] else f"at {planning.base_url}"
    cap = f", at most ${planning.budget_usd:g}" if planning.budget_usd else ""
    numbers = ", numbers tuned by Optuna" if planning.planner == "hybrid" else ""
    who = f"planned by {' and '.join(models_of(planning))} {where}{numbers}{cap}"
    return f"{who}; --planner search plans without a model"


def price(text: str) -> tuple[str, Price]:
    """`MODEL=IN/OUT`, in dollars for a million tokens. Raises InputError."""
    model, _, costs = text.rpartition("=")
    prompt, slash, answer = costs.partition("/")
    try:
        if model and slash:
            return model, Price(prompt=float(prompt), answer=float(answer))
    except ValueError:
        pass
    raise InputError(
        f"'{text}' is no price", "Write --price MODEL=IN/OUT, in dollars for a million tokens: gpt-5=1.25/10."
    )


def _default_model(access: Access) -> str:
    if access.base_url and access.base_url != OPENAI_URL:
        raise InputError(f"no model is named for {access.base_url}", "Give --planner-model NAME, or --planner search.")
    return DEFAULT_MODEL


def _check_prices(planning: Planning) -> None:
    for model in models_of(planning) if planning.budget_usd else ():
        if price_of(model, planning) is None:
            raise InputError(
                f"no price is known for {model}, so --budget-usd cannot be kept",
                f"Give it: --price {model}=IN/OUT, in dollars for a million tokens.",
            )
