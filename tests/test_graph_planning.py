"""Who plans: what options and environment say, and one clear line where they contradict each other."""

from __future__ import annotations

import pytest

from graph.arguments import parse
from graph.planning import DEFAULT_SEARCH, access_of, check_access, says
from graph.settings import Settings
from memory.errors import InputError
from memory.records import Price

KEY = {"HOME": "/home/somebody", "OPENAI_API_KEY": "sk-canary"}
SERVER = {"HOME": "/home/somebody", "OPENAI_BASE_URL": "http://127.0.0.1:8000/v1/"}


def parsed(line: str, environment: dict[str, str]) -> Settings:
    return parse(["--benchmark", "syllogism", *line.split()], environment)


def test_search_plans_unless_a_model_or_a_key_is_given() -> None:
    assert parsed("", {"HOME": "/"}).task().planning.planner == "search"
    assert parsed("--planner search", KEY).task().planning.planner == "search"
    assert parsed("--planner-model local", {"HOME": "/"}).task().planning.model == "local"
    planning = parsed("", KEY).task().planning
    assert (planning.planner, planning.model) == ("llm", "gpt-5-mini")
    assert says(planning).startswith("planned by gpt-5-mini at https://api.openai.com/v1")


def test_how_search_grows_its_tree_goes_with_either_planner() -> None:
    assert parsed("", {"HOME": "/"}).task().planning.search == DEFAULT_SEARCH
    alone = parsed("--search mcts --no-recall", {"HOME": "/"}).task().planning
    assert (alone.planner, alone.search, alone.recall) == ("search", "mcts", False)
    behind = parsed("--planner-model local --search best-first", {"HOME": "/"}).task().planning
    assert (behind.planner, behind.search, behind.recall) == ("llm", "best-first", True)


def test_a_model_may_leave_the_numbers_to_optuna() -> None:
    planning = parsed("--planner hybrid", KEY).task().planning
    assert (planning.planner, planning.model) == ("hybrid", "gpt-5-mini")
    assert "numbers tuned by Optuna" in says(planning)
    with pytest.raises(InputError, match="gpt-5-mini cannot be asked without a key"):
        parsed("--planner hybrid", {"HOME": "/"})


def test_catalogues_are_asked_only_on_request_and_where_the_environment_says() -> None:
    assert not parsed("", KEY).task().planning.research
    settings = parsed("--research", KEY | {"HF_ENDPOINT": "http://127.0.0.1:1/", "TUNEWRIGHT_PAPERS": "http://[::1]:2"})
    assert settings.task().planning.research
    assert (settings.access.hub_url, settings.access.papers_url) == ("http://127.0.0.1:1", "http://[::1]:2")
    assert parsed("", KEY).access.hub_url.startswith("https://")


def test_models_of_ones_own_server_need_no_key() -> None:
    planning = parsed("--planner-model qwen --strong-model big", SERVER).task().planning
    assert (planning.model, planning.strong_model) == ("qwen", "big")
    assert planning.base_url == "http://127.0.0.1:8000/v1"


def test_the_key_is_in_nothing_that_is_kept_or_shown() -> None:
    settings = parsed("", KEY)
    assert settings.access.key is not None
    assert settings.access.key.get_secret_value() == "sk-canary"
    assert "canary" not in settings.task().model_dump_json()
    assert "canary" not in settings.model_dump_json() + repr(settings)


def test_money_has_a_price_and_a_cap() -> None:
    assert parsed("--budget-usd 2.50", KEY).task().planning.budget_usd == 2.5
    planning = parsed("--planner-model qwen --budget-usd $1 --price qwen=0.1/0.4", SERVER).task().planning
    assert planning.prices == {"qwen": Price(prompt=0.1, answer=0.4)}


@pytest.mark.parametrize(
    ("line", "environment", "says"),
    [
        ("--planner search --planner-model gpt-5", KEY, "--planner-model has no meaning where search plans"),
        ("--budget-usd 1", {"HOME": "/"}, "--budget-usd has no meaning where search plans"),
        ("--research", {"HOME": "/"}, "--research has no meaning where search plans"),
        ("--planner search --research", KEY, "--research has no meaning where search plans"),
        ("", {**KEY, "HF_ENDPOINT": "somewhere"}, "HF_ENDPOINT is no address"),
        ("--planner llm", {"HOME": "/"}, "gpt-5-mini cannot be asked without a key"),
        ("--planner llm", SERVER, "no model is named for http://127.0.0.1:8000/v1"),
        ("--planner-model qwen --budget-usd 1", SERVER, "no price is known for qwen"),
        ("--planner-model qwen --budget-usd 0", SERVER, "'0' is no amount of money"),
        ("--planner-model qwen --price qwen=cheap", SERVER, "'qwen=cheap' is no price"),
        ("--planner maybe", KEY, "invalid choice"),
        ("", {**KEY, "OPENAI_BASE_URL": "somewhere"}, "OPENAI_BASE_URL is no address"),
        ("", {**KEY, "OPENAI_BASE_URL": "https://me:pass@host/v1"}, "holds more than an address"),
    ],
)
def test_what_cannot_be_is_one_clear_line(line: str, environment: dict[str, str], says: str) -> None:
    with pytest.raises(InputError) as raised:
        parsed(line, environment)
    assert says in str(raised.value)
    assert "pass" not in raised.value.message


def test_a_key_goes_to_no_address_that_the_environment_does_not_name() -> None:
    planning = parsed("--planner-model qwen", SERVER).task().planning
    with pytest.raises(InputError, match=r"Set OPENAI_BASE_URL=http://127\.0\.0\.1:8000/v1"):
        check_access(planning, access_of(KEY))
    check_access(planning, access_of({}))
    check_access(planning, access_of(KEY | {"OPENAI_BASE_URL": "http://127.0.0.1:9000/v1"}))


def test_a_run_that_exists_keeps_who_plans_it() -> None:
    settings = parse(["--resume", "abc"], KEY)
    assert settings.access.key is not None
    with pytest.raises(InputError, match="A run keeps its task"):
        parse(["--resume", "abc", "--planner", "search"], KEY)
