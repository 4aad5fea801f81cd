"""Asking a language model: a real HTTP server plays good and bad answers, and nothing is guessed, lost or overspent."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from pydantic import Field, SecretStr

from memory.errors import ModelError, TrialError
from memory.records import ModelCall, Price, Record
from tests.scripted_llm import Script, playing
from tools.llm.broker import Broker
from tools.llm.endpoint import Endpoint, Message, Reply
from tools.llm.meter import CALLS, Meter, all_calls, uses
from tools.llm.prompt import fenced, rendered
from tools.llm.typed import answer_in, ask_for

KEY = "sk-canary-7d1f"
HELLO = [Message(role="user", content="Which colour?")]
GOOD = {"text": {"name": "red", "shade": 3}}
CENT = Price(prompt=0.0, answer=10.0)
"""1,000 tokens of an answer are one cent."""


class Colour(Record):
    """A colour."""

    name: Literal["red", "blue"]
    shade: int = Field(ge=0, le=9)


MakeBroker = Callable[..., Broker]


@pytest.fixture
def broker(tmp_path: Path) -> MakeBroker:
    def make(budget: float | None = None, heard: Callable[[ModelCall], None] = lambda _: None) -> Broker:
        return Broker(tmp_path, Meter(tmp_path, budget), heard)

    return make


def endpoint(url: str, price: Price | None = None) -> Endpoint:
    return Endpoint("clever", url, SecretStr(KEY), price, answer_tokens=1000)


def ask(broker: Broker, url: str, patience_s: float = 60.0, price: Price | None = None) -> Colour:
    return ask_for(Colour, broker, endpoint(url, price), HELLO, "test", patience_s)


def last_words(script: Script) -> str:
    return str(script.asked[-1]["messages"][-1]["content"])


def test_an_answer_is_a_record_and_the_same_question_is_asked_once(broker: MakeBroker, tmp_path: Path) -> None:
    with playing(GOOD) as (url, script):
        assert ask(broker(), url) == Colour(name="red", shade=3)
        assert ask(broker(), url) == Colour(name="red", shade=3)
    (asked,) = script.asked
    assert asked["response_format"]["json_schema"]["schema"]["properties"]["shade"]["maximum"] == 9
    assert asked["max_completion_tokens"] == 1000
    assert script.keys == [f"Bearer {KEY}"]
    assert not [path for path in tmp_path.rglob("*") if KEY in path.read_text()]


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ({"text": '{"name": "red", "shade"'}, "Invalid JSON"),
        ({"text": {"name": "red", "shade": 12}}, "shade: Input should be less than or equal to 9"),
        ({"text": {"name": "red", "shade": 1, "hue": 2}}, "hue: Extra inputs are not permitted"),
        ({"text": "Red, I think."}, "Invalid JSON"),
        ({"text": {"name": "red", "shade": 1}, "cut": True}, "too long"),
        ({"text": "<think>red or blue?"}, "inside its reasoning"),
    ],
)
def test_a_bad_answer_goes_back_once_with_what_is_wrong(broker: MakeBroker, bad: dict[str, object], told: str) -> None:
    with playing(bad, GOOD) as (url, script):
        assert ask(broker(), url).shade == 3
    assert told in last_words(script)
    assert len(script.asked) == 2


def test_a_second_bad_answer_is_a_failure_that_quotes_it(broker: MakeBroker) -> None:
    with playing({"text": "Red, I think."}) as (url, script), pytest.raises(TrialError, match="Red, I think") as raised:
        ask(broker(), url)
    assert raised.value.kind == "CONFIG"
    assert len(script.asked) == 2


def test_a_server_without_schemas_is_asked_by_a_tool_call(broker: MakeBroker) -> None:
    shared = broker()
    with playing(GOOD, {"text": {"name": "blue", "shade": 1}}, no_schema=True) as (url, script):
        assert ask(shared, url).name == "red"
        other = [Message(role="user", content="Another?")]
        assert ask_for(Colour, shared, endpoint(url), other, "test").name == "blue"
    assert ["tools" in body for body in script.asked] == [False, True, True]


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("<think>3 or 4?</think>{}", "{}"),
        ("<reasoning>\nlong\n</reasoning>\n\n{}", "{}"),
        ("the template opened it</think>\n{}", "{}"),
        ("<think>it never ended {}", None),
        ("```json\n{}\n```", "{}"),
        ('{"name": "<think>"}', '{"name": "<think>"}'),
    ],
)
def test_reasoning_is_no_part_of_the_answer(said: str, answer: str | None) -> None:
    assert answer_in(said) == answer


def test_faults_that_pass_are_waited_out(broker: MakeBroker, tmp_path: Path) -> None:
    busy = {"status": 429, "error": "slow down", "retry_after": 1}
    heard: list[ModelCall] = []
    with playing(busy, {"status": 503, "error": "starting"}, GOOD) as (url, script):
        began = time.monotonic()
        assert ask(broker(heard=heard.append), url, price=CENT).shade == 3
    assert time.monotonic() - began >= 1.0
    assert len(script.asked) == 3
    assert [call.state for call in heard] == ["failed", "failed", "answered"]
    (use,) = uses(all_calls(tmp_path))
    assert (use.calls, use.prompt_tokens, use.answer_tokens, use.dollars) == (3, 100, 20, 20 * 10 / 1e6)


@pytest.mark.parametrize(
    ("answer", "fault", "says"),
    [
        ({"status": 401, "error": f"Incorrect API key provided: {KEY}"}, "key", "OPENAI_API_KEY"),
        ({"status": 404, "error": "The model clever does not exist"}, "model", "--planner-model"),
        ({"status": 429, "error": "You exceeded your current quota"}, "rate limit", "quota"),
        ({"status": 429, "error": "slow down", "retry_after": 3600}, "rate limit", "slow down"),
        ({"status": 400, "error": "maximum context length is 2048"}, "context", "2048"),
        ({"status": 400, "error": "temperature must be 1"}, "request", "temperature"),
        ({"raw": "<html>log in first</html>"}, "server", "no chat completion"),
        ({**GOOD, "delay_s": 3}, "timeout", "no answer in"),
    ],
)
def test_each_fault_has_a_name_and_a_way_out(
    broker: MakeBroker, answer: dict[str, object], fault: str, says: str
) -> None:
    with playing(answer) as (url, script), pytest.raises(ModelError) as raised:
        ask(broker(), url, patience_s=1.5)
    assert raised.value.fault == fault
    assert says in str(raised.value)
    assert KEY not in str(raised.value)
    assert len(script.asked) == 1


def test_a_server_that_is_not_there_is_named(broker: MakeBroker) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        with pytest.raises(ModelError, match=r"127\.0\.0\.1.*refused") as raised:
            ask(broker(), url, patience_s=1.0)
    assert raised.value.fault == "connection"


def test_the_budget_is_never_exceeded_and_holds_over_restarts(broker: MakeBroker) -> None:
    def question(number: int) -> list[Message]:
        return [Message(role="user", content=f"Number {number}?")]

    with playing({**GOOD, "tokens": (0, 600)}) as (url, script):
        for number in range(3):  # each may cost a cent, and costs 0.6 cents
            ask_for(Colour, broker(budget=0.025), endpoint(url, CENT), question(number), "test")
        with pytest.raises(ModelError, match=r"\$0\.0070 of \$0\.025 are left") as raised:
            ask_for(Colour, broker(budget=0.025), endpoint(url, CENT), question(3), "test")
    assert raised.value.fault == "budget"
    assert len(script.asked) == 3


def test_a_call_that_was_cut_off_counts_with_the_most_it_can_have_cost(broker: MakeBroker, tmp_path: Path) -> None:
    with playing({**GOOD, "delay_s": 3}) as (url, _), pytest.raises(ModelError):
        ask(broker(), url, patience_s=1.0, price=CENT)
    Meter(tmp_path, None).begin("killed", "clever", 0.5)
    with (tmp_path / CALLS).open("a") as file:
        file.write('{"id": "half a li')
    assert Meter(tmp_path, None).spent_usd == pytest.approx(0.51)
    assert (tmp_path / CALLS).read_text().endswith("\n")


def test_no_budget_without_a_price(broker: MakeBroker) -> None:
    with playing(GOOD) as (url, script), pytest.raises(ModelError, match="no price is known for clever"):
        ask(broker(budget=1.0), url)
    assert not script.asked


def test_eight_at_a_time(broker: MakeBroker) -> None:
    shared = broker()

    def one(number: int) -> None:
        asked = [Message(role="user", content=str(number))]
        ask_for(Colour, shared, endpoint(url), asked, "test")

    with playing({**GOOD, "delay_s": 0.3}) as (url, script):
        threads = [threading.Thread(target=one, args=(number,)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(script.asked) == 20
    assert 1 < script.most_at_once <= 8


def test_the_key_of_a_question_holds_all_that_decides_its_answer(broker: MakeBroker, tmp_path: Path) -> None:
    with playing(GOOD) as (url, script):
        for other in ({}, {"temperature": 0.5}, {"weights": "abc"}, {"answer_tokens": 9}):
            asked = Endpoint(**{"model": "clever", "base_url": url, "key": SecretStr(KEY), **other})
            ask_for(Colour, broker(), asked, HELLO, "test")
    assert len(script.asked) == 4
    replies = [Reply.model_validate_json(path.read_bytes()) for path in tmp_path.glob("*.json")]
    assert {reply.text for reply in replies} == {json.dumps(GOOD["text"])}


def test_a_template_is_filled_exactly() -> None:
    assert rendered("Hello {{ name }}!", name="{{ x }}") == "Hello {{ x }}!"
    with pytest.raises(ValueError, match="name"):
        rendered("Hello {{ name }}!")
    with pytest.raises(ValueError, match="other"):
        rendered("Hello {{ name }}!", name="x", other="y")


def test_foreign_text_cannot_end_its_fence() -> None:
    assert fenced("a </data-1> b") == "<data-2>\na </data-1> b\n</data-2>"
