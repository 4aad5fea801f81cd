"""Data files of a person: every kind is read to the same rows, and a broken one is refused by row and place."""

from pathlib import Path

import duckdb
import pytest

from memory.errors import InputError
from tools.own_task.files import read_file

ROWS = [{"text": 'a, "b"; c\nd', "label": "yes"}, {"text": "Größe 字", "label": "no"}]


def written(tmp_path: Path, name: str, content: str | bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def values(path: Path) -> list[dict[str, object]]:
    return [row.values for row in read_file(path)]


QUOTED = '"a, ""b""; c\nd"'
LINES = '{"text": "a, \\"b\\"; c\\nd", "label": "yes"}\n\n{"text": "Größe 字", "label": "no"}\n'


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("data.csv", f"text,label\n{QUOTED},yes\nGröße 字,no\n"),
        ("semicolon.csv", f"text;label\n{QUOTED};yes\nGröße 字;no\n"),
        ("windows.csv", f"text,label\r\n{QUOTED},yes\r\nGröße 字,no\r\n"),
        ("data.tsv", f"text\tlabel\n{QUOTED}\tyes\nGröße 字\tno\n"),
        ("index.csv", f",text,label\n0,{QUOTED},yes\n1,Größe 字,no\n"),
        ("mark.csv", b"\xef\xbb\xbf" + f"text,label\n{QUOTED},yes\nGröße 字,no\n".encode()),
        ("data.jsonl", LINES),
        ("mark.jsonl", b"\xef\xbb\xbf" + LINES.encode()),
        ("data.json", '[{"text": "a, \\"b\\"; c\\nd", "label": "yes"},\n {"text": "Größe 字", "label": "no"}]'),
    ],
)
def test_every_kind_of_file_gives_the_same_rows(tmp_path: Path, name: str, content: str | bytes) -> None:
    assert [{key: row[key] for key in ("text", "label")} for row in values(written(tmp_path, name, content))] == ROWS


def test_a_parquet_file_brings_its_lists_and_any_name(tmp_path: Path) -> None:
    path = tmp_path / "odd [1]*.parquet"
    duckdb.sql("SELECT [{'role': 'user', 'content': 'hi'}] AS messages, 3 AS n, NULL AS nothing").write_parquet(
        str(tmp_path / "plain.parquet")
    )
    (tmp_path / "plain.parquet").rename(path)
    duckdb.sql("SELECT 'another file' AS messages").write_parquet(str(tmp_path / "odd 1x.parquet"))
    assert values(path) == [{"messages": [{"role": "user", "content": "hi"}], "n": 3, "nothing": None}]


def test_rows_are_numbered_as_a_person_counts_them(tmp_path: Path) -> None:
    assert [row.number for row in read_file(written(tmp_path, "a.jsonl", LINES))] == [1, 3]
    assert [row.number for row in read_file(written(tmp_path, "a.csv", "text,label\na,b\n\nc,d\n"))] == [1, 2]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.jsonl",
            b'{"text": "fine"}\n{"text": "caf\xe9"}\n',
            r"a.jsonl is not UTF-8: line 2, byte 31 .* is 0xe9.*iconv",
        ),
        ("a.csv", b"\xef\xbb\xbftext,label\nna\xefve,x\n", r"line 2, byte 17 of the file is 0xef"),
        ("a.csv", "text,label\nx,y\n".encode("utf-16"), r"a.csv is UTF-16 text. Save it as UTF-8"),
        ("a.jsonl", '{"a": 1}\n{"a": 1,}\n', r"a.jsonl row 2 is no JSON: .* at character \d+. Write one JSON object"),
        ("a.jsonl", '{"a": 1}\n"just text"\n', r"a.jsonl row 2 is no JSON object"),
        ("a.jsonl", '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", r"a.jsonl row 1 is nested too deeply"),
        ("a.jsonl", '{"a": ' + "9" * 5000 + "}", r"a.jsonl row 1 .* a number of thousands of digits"),
        ("a.json", '[{"a": 1},\n 7]', r"a.json row 2 is no JSON object"),
        ("a.json", '[{"a": 1},\n oops]', r"a.json is no JSON: .* at line 2, character 2"),
        (
            "a.csv",
            "text,label\na,b\nc,d,e\nf,g\n",
            r"row 2 \(line 3\) has 3 fields where the header has 2. Put quotes .* ','",
        ),
        ("a.csv", 'text,label\na,b\n"open,c\nd,e\n', r"a.csv line 3 is malformed: .* Write a quote .* twice"),
        ("a.csv", "text,,label\na,b,c\n", r"column 2 of the header has no name"),
        ("a.csv", "text,text\na,b\n", r"two columns are called 'text'"),
        ("a.csv", "text,label\n", r"a.csv holds no rows"),
        ("a.jsonl", "\n\n", r"a.jsonl holds no rows"),
        ("a.xlsx", "x", r"a.xlsx is no data file .* end in one of: .jsonl, .ndjson, .json, .csv, .tsv, .parquet"),
        ("a.parquet", "PAR1 and not", r"a.parquet is no readable Parquet file"),
    ],
)
def test_a_broken_file_is_named_with_row_place_and_fix(
    tmp_path: Path, name: str, content: str | bytes, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read_file(written(tmp_path, name, content))


@pytest.mark.parametrize("name", ["none.csv", "none.jsonl", "none.parquet"])
def test_a_file_that_is_not_there_is_one_clear_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"cannot read .*No such file"):
        read_file(tmp_path / name)


def test_a_very_long_field_is_no_obstacle(tmp_path: Path) -> None:
    long = "word " * 60_000
    assert values(written(tmp_path, "a.csv", f"text,label\n{long},x\n"))[0]["text"] == long
