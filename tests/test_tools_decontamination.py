"""Held-out text in training data is found by hashes alone, and a template that all questions share is no leak."""

import random
from functools import cache
from itertools import islice

import pytest

from tools.benchmarks import BENCHMARKS, get
from tools.benchmarks.benchmark import Benchmark, Item, Split
from tools.decontamination import Fingerprints, Text, check, fingerprints, normalised


@cache
def splits(name: str) -> dict[Split, list[Item]]:
    """Disjoint items of a benchmark: 200 for the test, 1,500 to train on."""
    seen: set[str] = set()
    drawn: dict[Split, list[Item]] = {}
    for split, size in (("test", 200), ("train", 1500)):
        fresh = (item for item in get(name).draw(split, 0) if normalised(item.prompt) not in seen)
        drawn[split] = list(islice((seen.add(normalised(item.prompt)) or item for item in fresh), size))
    return drawn


def held_out(name: str) -> list[Fingerprints]:
    items = splits(name)
    return [fingerprints("test", ((i.id, i.prompt) for i in items["test"]), (i.prompt for i in items["train"]))]


def texts(items: list[Item]) -> list[Text]:
    return [Text(item.id, item.prompt, item.answer) for item in items]


@pytest.mark.parametrize("name", [name for name, benchmark in BENCHMARKS.items() if not benchmark.fixed])
@pytest.mark.parametrize("rows", [40, 1500])
def test_disjoint_splits_of_a_benchmark_are_clean(name: str, rows: int) -> None:
    report = check(texts(splits(name)["train"][:rows]), held_out(name))
    assert report.rows == rows
    assert report.hits == ()


@pytest.mark.parametrize("name", [name for name, benchmark in BENCHMARKS.items() if not benchmark.fixed])
def test_an_exact_copy_is_found_whatever_its_case_and_white_space(name: str) -> None:
    leaked = splits(name)["test"][17]
    copy = Text("copy", f"  {leaked.prompt.upper()}\n", "x")
    report = check([*texts(splits(name)["train"][:400]), copy], held_out(name))
    (hit,) = report.hits
    assert (hit.row, hit.split, hit.item, hit.kind) == ("copy", "test", leaked.id, "exact")


@pytest.mark.parametrize("name", ["syllogism", "family_relationships", "needle_haystack"])
def test_a_copy_with_one_word_changed_is_found(name: str) -> None:
    chance = random.Random(0)
    planted = []
    for item in splits(name)["test"][:50]:
        words = item.prompt.split(" ")
        words[chance.randrange(len(words))] = "zebra"
        planted.append(Text(f"planted-{item.id}", " ".join(words), item.answer))
    report = check([*texts(splits(name)["train"][:400]), *planted], held_out(name))
    assert sum(hit.row == f"planted-{hit.item}" for hit in report.hits) >= 45
    assert all(hit.row.startswith("planted") for hit in report.hits)


def test_a_question_buried_in_a_long_text_is_found() -> None:
    leaked = splits("family_relationships")["test"][3]
    filler = " ".join(f"word{n}" for n in range(400))
    report = check([Text("long", f"{filler} {leaked.prompt} {filler}")], held_out("family_relationships"))
    assert report.hits[0].item == leaked.id


def test_a_question_that_leaked_into_an_answer_is_found() -> None:
    leaked = splits("needle_haystack")["test"][3]
    report = check([Text("row", "Write a riddle.", leaked.prompt)], held_out("needle_haystack"))
    assert report.hits[0].item == leaked.id


def test_a_leak_repeated_many_times_is_not_taken_for_a_template() -> None:
    leaked = splits("syllogism")["test"][8]
    copies = [Text(f"{n}", leaked.prompt + " Think.", "Yes") for n in range(30)]
    assert len(check(copies, held_out("syllogism")).hits) == 30


def test_a_benchmark_of_which_only_exact_copies_can_be_found_says_so() -> None:
    rows = texts(splits("spell_backward")["train"][:50])
    report = check(rows, held_out("spell_backward"))
    assert (report.held_out, report.exact_only) == (200, 200)
    assert check(rows, held_out("needle_haystack")).exact_only == 0


def test_outside_a_generator_near_copies_within_the_benchmark_are_leaks() -> None:
    question = "A farmer keeps {} hens and four ducks behind the old red barn near the river; how many birds has he?"
    test = [("test-0", question.format("nine"))]
    row = Text("train-0", question.format("eleven"), "15")
    assert check([row], [fingerprints("test", test)]).hits[0].item == "test-0"
    assert check([row], [fingerprints("test", test, [row.prompt])]).hits == ()


def test_symbols_that_carry_meaning_are_kept() -> None:
    prints = [fingerprints("test", [("test-0", "What is 5 + 3?")])]
    rows = [Text("sum", "what is 5 + 3"), Text("difference", "What is 5 - 3?")]
    assert [hit.row for hit in check(rows, prints).hits] == ["sum"]


def test_scripts_without_spaces_are_compared_by_characters() -> None:
    question = "下列哪项属于企业的流动资产并且可以在一年之内变现"
    prints = [fingerprints("test", [("test-0", question)])]
    report = check([Text("row", "请回答" + question.replace("一年", "两年"))], prints)
    assert report.hits[0].item == "test-0"


def test_the_report_says_what_was_found_and_where() -> None:
    benchmark: Benchmark = get("syllogism")
    leaked = splits(benchmark.name)["test"]
    rows = [Text("a", leaked[0].prompt), Text("b", leaked[1].prompt), Text("c", "Consider the lilies.")]
    report = check(rows, held_out(benchmark.name))
    assert report.share == pytest.approx(2 / 3)
    (dropped,) = report.dropped()
    assert (dropped.reason, dropped.rows) == ("an exact copy of a test item", 2)
    assert dropped.examples == (f"a = {leaked[0].id} (100%)", f"b = {leaked[1].id} (100%)")


def test_fingerprints_do_not_give_the_text_away() -> None:
    (prints,) = held_out("syllogism")
    stored = prints.model_dump_json()
    assert not any(word in stored for word in ("ants", "Some", "some", "follow"))
