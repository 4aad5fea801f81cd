"""Rows of every shape become a question and an answer; a row that is no such thing is refused by row and column."""

import math
from typing import Any

import pytest

from memory.errors import InputError
from memory.records import OwnFile, OwnTask
from memory.records.metric import ExactMatch
from tools.own_task.files import RawRow
from tools.own_task.shapes import OwnRow, rows_of


def task(**changes: Any) -> OwnTask:
    file = OwnFile(path="/data.jsonl", sha256="0")
    keys = {"name": "mine", "train": file, "shape": "columns", "prompt": "{prompt}", "metric": ExactMatch()}
    return OwnTask.model_validate(keys | {"max_new_tokens": 8} | changes)


def row_of(values: dict[str, Any], number: int = 7, **changes: Any) -> OwnRow:
    (row,) = rows_of(task(**changes), "train", "data.jsonl", [RawRow(number, values)])
    return row


def chat(*turns: tuple[str, str]) -> dict[str, Any]:
    return {"messages": [{"role": role, "content": content} for role, content in turns]}


def test_columns_are_put_together_by_the_template() -> None:
    values = {"title": "Sea", "n": 3, "ok": True, "label": "blue", "gone": None, "nothing": math.nan, "list": [1]}
    row = row_of(values, prompt="{title} {n} {ok}{gone} {{literal}}", answer="label")
    assert (row.prompt, row.answer) == ("Sea 3 true {literal}", "blue")
    assert row.columns == {"title": "Sea", "n": 3, "ok": True}, "the answer must not be a column of the prompt's"


def test_an_object_as_answer_becomes_json() -> None:
    row = row_of({"prompt": "?", "answer": {"city": "Köln", "n": 1}})
    assert row.answer == '{"city": "Köln", "n": 1}'


def test_alpaca_rows_ask_instruction_and_input() -> None:
    row = row_of({"instruction": "Add.", "input": "1 2", "output": "3"}, shape="alpaca")
    assert (row.prompt, row.answer) == ("Add.\n\n1 2", "3")
    assert row_of({"instruction": "Add.", "output": "3"}, shape="alpaca").prompt == "Add."


def test_a_chat_asks_system_and_user_and_answers_with_the_assistant() -> None:
    row = row_of(chat(("system", "Be brief."), ("user", "Hi?"), ("assistant", "Yes.")), shape="chat")
    assert (row.prompt, row.answer) == ("Be brief.\n\nHi?", "Yes.")


def test_sharegpt_has_other_names_for_the_same() -> None:
    turns = [{"from": "system", "value": "S"}, {"from": "human", "value": "Q"}, {"from": "gpt", "value": "A"}]
    row = row_of({"conversations": turns}, shape="sharegpt", prompt="> {prompt}")
    assert (row.prompt, row.answer) == ("> S\n\nQ", "A")
    assert row_of({"system": "S", "conversations": turns[1:]}, shape="sharegpt").prompt == "S\n\nQ"


def test_earlier_turns_are_folded_only_where_the_task_says_so() -> None:
    long = chat(("user", "One?"), ("assistant", "1"), ("user", "Two?"), ("assistant", "2"))
    with pytest.raises(InputError, match=r'data.jsonl row 7 holds 2 questions, not one. Cut it .* turns = "fold"'):
        row_of(long, shape="chat")
    row = row_of(long, shape="chat", turns="fold")
    assert (row.prompt, row.answer) == ("User: One?\n\nAssistant: 1\n\nUser: Two?", "2")


def test_a_row_that_asks_nothing_has_an_empty_prompt_whatever_the_template_adds() -> None:
    assert row_of({"text": " ", "answer": "x"}, prompt="Sort this: {text}").prompt == ""
    assert row_of(chat(("system", "S"), ("user", ""), ("assistant", "A")), shape="chat").prompt == ""
    assert row_of({"instruction": "", "output": "3"}, shape="alpaca").prompt == ""


def test_the_group_comes_from_its_column() -> None:
    assert row_of({"prompt": "?", "answer": "x", "customer": 17}, group="customer").group == "17"


@pytest.mark.parametrize(
    ("values", "changes", "message"),
    [
        (
            {"question": "?", "answer": "x"},
            {"prompt": "{questoin}"},
            r"row 7 has no column 'questoin'. Did you mean 'question'",
        ),
        (
            {"question": "?", "label": "x"},
            {"prompt": "{question}"},
            r"row 7 has no column 'answer'. Its columns: question, label",
        ),
        ({"prompt": "?", "answer": "x"}, {"group": "customer"}, r"row 7 has no column 'customer'"),
        ({"instruction": "?"}, {"shape": "alpaca"}, r"row 7 has no column 'output'"),
        ({"instruction": "?", "output": "x", "history": [["a", "b"]]}, {"shape": "alpaca"}, r"row 7 has earlier turns"),
        ({"text": "?"}, {"shape": "chat"}, r"row 7 has no column 'messages'"),
        ({"messages": "Hi"}, {"shape": "chat"}, r"row 7: the column 'messages' is no list of turns. Write \[{\"role\""),
        ({"messages": []}, {"shape": "chat"}, r"'messages' is no list of turns"),
        ({"messages": ["Hi"]}, {"shape": "chat"}, r"'messages' has a turn 1 without 'role'"),
        (
            chat(("user", "a"), ("tool", "b")),
            {"shape": "chat"},
            r"has a turn 2 of 'tool'. Only system, user and assistant",
        ),
        ({"messages": [{"role": "user", "content": [1]}]}, {"shape": "chat"}, r"has a turn 1 that is not a text"),
        (chat(("user", "a")), {"shape": "chat"}, r"row 7: the turns are user. After a system turn at most"),
        (
            chat(("user", "a"), ("user", "b"), ("assistant", "c")),
            {"shape": "chat"},
            r"the turns are user, user, assistant",
        ),
        (chat(("assistant", "a"), ("user", "b")), {"shape": "chat"}, r"the turns are assistant, user"),
        (
            {"q": "?", "answer": "x"},
            {"prompt": "{q} {answer}"},
            r"names 'answer', which holds the answer. Leave",
        ),
        (
            chat(("user", "a"), ("assistant", "b")),
            {"shape": "chat", "prompt": "{messages}"},
            r"names 'messages', which",
        ),
        ({"answer": "x"}, {"prompt": "Sort {"}, r"template is malformed: .* Write a literal brace twice"),
        ({"answer": "x"}, {"prompt": "Sort this"}, r"template 'Sort this' names no column"),
        ({"answer": "x", "a": 1}, {"prompt": "{a:>9}"}, r"holds more than columns"),
        ({"answer": "x", "a": 1}, {"prompt": "{}"}, r"holds more than columns"),
    ],
)
def test_a_row_of_another_shape_is_refused_with_row_column_and_fix(
    values: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        row_of(values, **changes)
