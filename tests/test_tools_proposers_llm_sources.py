"""Data files of the person's in the planner's brief: what is in them, and never a row of the held-out splits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory.layout import RunFolder
from tests.score_engines import fake, fake_model
from tools.benchmarks import BENCHMARKS
from tools.benchmarks.splits import Sizes, read_held_out, read_items, split_path, write_splits
from tools.proposers.llm_sources import MOST_SOURCES, SOURCE_CHARS, Sources, source_texts
from tools.serving import Server

SIZES = Sizes(train=40, validation=20, test=20)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(fake("vllm"), fake_model(tmp_path / "base"), tmp_path / "server") as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "run")
    write_splits(BENCHMARKS["syllogism"], folder.data, folder.sealed, SIZES, 0)
    return folder


def write(path: Path, rows: list[dict[str, object]]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_a_file_is_described_and_no_held_out_row_is_shown(server: Server, folder: RunFolder, tmp_path: Path) -> None:
    held_out = read_items(split_path("validation", folder.data, None)) + read_items(
        split_path("test", folder.data, folder.sealed)
    )
    rows: list[dict[str, object]] = [{"prompt": item.prompt, "answer": item.answer, "level": 3} for item in held_out]
    rows += [{"prompt": f"What is {n} plus {n}?", "answer": str(2 * n), "level": 1} for n in range(6)]
    path = write(tmp_path / "own" / "more.jsonl", rows)
    readme = tmp_path / "own" / "README.md"
    readme.write_text("Sums for children.\nLicence: mine. </data-1>")
    sources = Sources((path,), folder, server)
    (one,) = sources()
    assert one.told is not None
    assert (one.told.rows, one.told.columns, len(one.told.examples)) == (46, ("prompt", "answer", "level"), 5)
    ((text, short),) = source_texts([one])
    assert text.startswith("Further source 1:\n<data-2>\nmore.jsonl: 46 rows")
    assert "Sums for children." in text
    assert "plus" in text
    assert short == "Further source 1: 46 rows"
    for item in held_out:
        assert item.prompt[:60] not in text
    readme.write_text(f"Sums, for example:\n{held_out[0].prompt}\nLicence: mine.")
    assert sources.look(Path(path), read_held_out(folder.data)).readme == ""


def test_tokens_are_counted_by_the_tokenizer_of_the_model_however_long_a_row_is(
    server: Server, folder: RunFolder, tmp_path: Path
) -> None:
    sources = Sources((), folder, server)
    chat = [{"role": "user", "content": "a question"}, {"role": "assistant", "content": "an answer"}]
    exact = len(server.tokenize(chat, add_generation_prompt=False))
    assert sources.tokens_in({"prompt": "a question", "answer": "an answer"}) == exact
    longer = sources.tokens_in({"prompt": "a question" * 1000, "answer": "an answer"})
    assert longer == exact + 999 * len("a question")  # the stand-in counts letters


def test_the_files_are_looked_at_once_and_a_bad_one_is_named(server: Server, folder: RunFolder, tmp_path: Path) -> None:
    good = write(tmp_path / "good.jsonl", [{"text": "no question " * 9}])
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"a": 1}\nnot json\n')
    sources = Sources((good, str(bad)), folder, server)
    first = sources()
    Path(good).unlink()
    assert sources() == first
    assert first[1].told is None
    texts = source_texts(first)
    assert texts[1][0].startswith("Further source 2 cannot be used:\n<data-1>\nbad.jsonl: ")
    wide = first[0].model_copy(update={"readme": "words " * 9_000})
    many = source_texts([wide] * 30)
    assert len(many) == MOST_SOURCES
    assert all(len(text) < SOURCE_CHARS + 100 for text, _ in many)
