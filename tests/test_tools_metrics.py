"""Metrics: the gold scores 1, what is wrong scores 0, and what holds no answer says so."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest
from pydantic import TypeAdapter, ValidationError

from memory.errors import InputError
from memory.records import Record
from memory.records.metric import (
    ExactMatch,
    JsonFields,
    Metric,
    MultipleChoice,
    Numeric,
    PythonFunction,
    Regex,
    RougeL,
    TokenF1,
)
from tools import metrics
from tools.benchmarks.benchmark import Graded, Item
from tools.metrics import json_fields, rouge_l

LABELS = MultipleChoice(choices=("positive", "negative", "not sure"))
CITIES = MultipleChoice(choices=("A", "B"), text_columns=("a", "b"))
COMMA = Numeric(decimal=",")
PERSON = JsonFields(fields=("name", "age"))


def grade(metric: Metric, output: str, gold: str, columns: Mapping[str, str] | None = None) -> Graded:
    item = Item(id="test-17", prompt="?", answer=gold, columns=dict(columns or {}), reference="{}")
    return metrics.grader(metric, None)(output, item)


@pytest.mark.parametrize(
    ("metric", "gold"),
    [
        (ExactMatch(), "Zürich"),
        (ExactMatch(ignore_case=False, ignore_punctuation=False), "  C++ (17). "),
        (ExactMatch(), "?"),
        (Numeric(), "-1,234.5"),
        (Numeric(), "so it is 3/4 #### 42"),
        (COMMA, "1.234,5 €"),
        (MultipleChoice(), "C"),
        (LABELS, "Not sure"),
        (CITIES, "London"),
        (Regex(pattern=r"####\s*(\S+)"), "6 * 7 = 42 #### 42"),
        (TokenF1(), "The Eiffel Tower, in Paris"),
        (RougeL(), "Die Größe der Stadt wächst."),
        (RougeL(), "北京是中国的首都"),
        (JsonFields(), '{"name": "Zoë", "tags": ["a", {"b": 1}], "none": null}'),
        (PythonFunction(code="def score(output, gold, row): return output == gold"), "x"),
    ],
)
def test_a_gold_scores_1_against_itself(metric: Metric, gold: str) -> None:
    assert metrics.valid_gold(metric, gold) is None
    graded = grade(metric, gold, gold, {"a": "Paris", "b": "London"})
    assert graded.score == 1.0
    assert graded.answer


@pytest.mark.parametrize(
    "metric", [ExactMatch(), Numeric(), MultipleChoice(), Regex(pattern="(x)"), TokenF1(), RougeL(), JsonFields()]
)
@pytest.mark.parametrize("output", ["", " \n\t "])
def test_an_empty_output_holds_no_answer(metric: Metric, output: str) -> None:
    assert grade(metric, output, '{"x": 1}') == Graded(score=0.0, answer=None)


def test_metrics_are_told_apart_by_kind() -> None:
    adapter: TypeAdapter[Record] = TypeAdapter(Metric)
    made = [adapter.validate_python(metric.model_dump()) for metric in (ExactMatch(), COMMA, LABELS, RougeL())]
    assert made == [ExactMatch(), COMMA, LABELS, RougeL()]
    assert {str(kind["properties"]["kind"]["const"]) for kind in adapter.json_schema()["$defs"].values()} == set(
        metrics.KINDS
    )


# --- exact match ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "gold", "score"),
    [
        ("paris", "Paris", 1),
        (" **Paris.**\n", "Paris", 1),
        ("New  York", "New York", 1),
        ("cafe\u0301", "caf\u00e9", 1),
        ("cafe", "café", 0),
        ("5", "-5", 0),
        ("5", ".5", 0),
        ("Paris, France", "Paris", 0),
        ("The answer is Paris", "Paris", 0),
    ],
)
def test_exact_match_ignores_what_no_reader_would_mark(output: str, gold: str, score: float) -> None:
    assert grade(ExactMatch(), output, gold).score == score


def test_exact_match_to_the_letter() -> None:
    strict = ExactMatch(ignore_case=False, ignore_punctuation=False)
    assert [grade(strict, output, "Paris").score for output in ("Paris", "paris", "Paris.")] == [1, 0, 0]


def test_closed_answers_know_what_is_no_answer() -> None:
    golds = ["yes", "no", "Yes", "yes", "no", "no.", "yes"]
    closed = metrics.closed_answers(ExactMatch(), golds)
    assert closed == ("no", "yes")
    item = Item(id="1", prompt="?", answer="yes", reference="{}")
    grader = metrics.grader(ExactMatch(), closed)
    assert grader("YES.", item) == Graded(score=1, answer="yes")
    assert grader("No", item) == Graded(score=0, answer="no")
    assert grader("I think yes", item) == Graded(score=0, answer=None)
    rare = Item(id="2", prompt="?", answer="maybe", reference="{}")
    assert grader("maybe", rare).score == 1, "a gold that the others did not show is a gold nevertheless"


def test_many_or_rare_answers_are_open() -> None:
    assert metrics.closed_answers(ExactMatch(), [str(number % 20) for number in range(60)]) is not None
    assert metrics.closed_answers(ExactMatch(), [str(number % 21) for number in range(630)]) is None
    assert metrics.closed_answers(ExactMatch(), ["Ann", "Bob", "Cid", "Ann"]) is None
    assert metrics.closed_answers(Numeric(), ["1"] * 50) is None
    assert metrics.closed_answers(MultipleChoice(), ["A", "c"]) == ("A", "B", "C", "D")
    assert metrics.closed_answers(CITIES, ["London", "A"]) is None


# --- numbers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "gold"),
    [
        ("1,234.5", "1234.5"),
        ("$1,234.50.", "1234.5"),
        ("1'234", "1234"),
        ("12,34,567", "1234567"),
        ("1\u202f234 km", "1234"),
        ("-7", "-7"),
        ("It is \u22127 °C.", "-7"),
        ("-$5", "-5"),
        ("12 %", "12"),
        ("12", "12%"),
        ("3/4", "0.75"),
        ("1 1/2 cups", "1.5"),
        (r"\boxed{\frac{3}{4}}", "0.75"),
        (r"$1{,}000$", "1000"),
        ("1.5e3", "1500"),
        (".5", "0.5"),
        ("5.", "5"),
        ("6 * 7 = 42.", "42"),
        ("10-5", "5"),
        ("pages 5\u20137", "7"),
        ("007", "7"),
        ("2 of CO2", "2"),
    ],
)
def test_numbers_as_people_write_them(output: str, gold: str) -> None:
    assert grade(Numeric(), output, gold).score == 1


@pytest.mark.parametrize(
    "output", ["none", "1,23", "1.2.3", "1/2/2024", "1,234,56", "3/0", "CO2", "forty-two", "1e9999", "9" * 400, "½"]
)
def test_what_is_not_written_as_a_number_is_not_guessed_at(output: str) -> None:
    assert grade(Numeric(absolute=1e300), output, "1") == Graded(score=0.0, answer=None)


def test_one_number_is_one_guess() -> None:
    assert grade(Numeric(), "41 or 42", "41").score == 0
    assert grade(Numeric(take="first"), "41 or 42", "41").score == 1
    assert grade(Numeric(), "-5", "5") == Graded(score=0.0, answer="-5")


def test_tolerances_are_exact() -> None:
    assert grade(Numeric(absolute=0.01), "0.31", "0.30").score == 1
    assert grade(Numeric(absolute=0.01), "0.3101", "0.30").score == 0
    assert grade(Numeric(relative=0.1), "-110", "-100").score == 1
    assert grade(Numeric(relative=0.1), "-111", "-100").score == 0
    assert grade(Numeric(absolute=0.3), "0.6", "0.3").score == 1, "0.3 as a float is a little less"
    assert grade(Numeric(), "0.1", "1/10").score == 1


def test_decimal_comma_and_hundredths_are_asked_for() -> None:
    assert grade(COMMA, "1.234,5", "1234,5").score == 1
    assert grade(COMMA, "1.234", "1234").score == 1
    assert grade(COMMA, "1.5", "1,5") == Graded(score=0.0, answer=None)
    assert grade(Numeric(percent="hundredths"), "12 %", "0.12").score == 1
    assert grade(Numeric(percent="hundredths"), "12", "12%").score == 0


# --- multiple choice ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "output",
    [
        "B",
        "b",
        "(B)",
        "**B**",
        "B.",
        "B) London",
        "B: London",
        "B\n\nLondon is the capital.",
        "The answer is B.",
        "The answer is (B).",
        "**Answer:** B",
        "ANSWER: B",
        "The correct answer is option B, since A is wrong.",
        "It is not A. The answer is B",
        "B. It contains vitamin C.",
        "B - London",
    ],
)
def test_a_choice_that_is_named(output: str) -> None:
    assert grade(MultipleChoice(), output, "B") == Graded(score=1.0, answer="B")
    assert grade(MultipleChoice(), output, "A") == Graded(score=0.0, answer="B")


@pytest.mark.parametrize(
    "output",
    [
        "B or C",
        "A, B",
        "A. B.",
        "The answer is B or C.",
        "The answer is B and C.",
        "The answer is A. No, the answer is B.",
        "A) Paris\nB) London\nC) Rome\nD) Bern",
        "A) Paris B) London",
        "A dog is an animal.",
        "the answer is a dog",
        "I think Bern.",
        "The answer is not B.",
        "E",
        "Both.",
    ],
)
def test_chatter_names_no_choice(output: str) -> None:
    assert [grade(MultipleChoice(), output, gold) for gold in "ABCD"] == [Graded(score=0.0, answer=None)] * 4


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        ("Positive.", "positive"),
        ("NEGATIVE: the reviewer was bored", "negative"),
        ("Answer: not sure", "not sure"),
        ("The answer is not positive", None),
        ("positive, negative", None),
        ("Positive: 0.2, negative: 0.8", None),
        ("It was a positive surprise", None),
        ("positively", None),
    ],
)
def test_labels(output: str, answer: str | None) -> None:
    assert grade(LABELS, output, "negative").answer == answer


def test_the_text_of_a_choice_is_the_choice() -> None:
    columns = {"a": "Paris", "b": "London"}
    assert grade(CITIES, "london.", "B", columns).score == 1
    assert grade(CITIES, "B", "London", columns).score == 1
    assert grade(CITIES, "Rome", "B", columns).answer is None


# --- patterns, words, fields ----------------------------------------------------------------------------------------


def test_regex_compares_what_it_finds() -> None:
    metric = Regex(pattern=r"<b>(.*?)</b>")
    assert grade(metric, "so <b>x  y</b>", "<b>x y</b>") == Graded(score=1.0, answer="x y")
    assert grade(metric, "<b>z</b> or <b>x</b>", "<b>x</b>") == Graded(score=0.0, answer="z")
    assert grade(metric, "x", "<b>x</b>") == Graded(score=0.0, answer=None)
    assert grade(metric, "<b></b>", "<b>x</b>").answer is None
    assert grade(Regex(pattern=r"\d+", take="last"), "1 2", "2").score == 1
    assert grade(Regex(pattern="[a-z]+", ignore_case=True), "ABC", "abc").score == 1


def test_a_pattern_that_hangs_is_named() -> None:
    began = time.monotonic()
    with pytest.raises(InputError, match=r"still searching row test-17 after"):
        grade(Regex(pattern=r"(?:a|aa)+\d\b$"), "a" * 60 + "!", "a1")
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("output", "gold", "score"),
    [
        ("the Eiffel Tower!", "Eiffel tower", 1.0),
        ("Eiffel", "Eiffel Tower", 2 / 3),
        ("a b b", "b b b", 2 * 2 / 5),
        ("London", "Paris", 0.0),
    ],
)
def test_token_f1_is_squads(output: str, gold: str, score: float) -> None:
    assert grade(TokenF1(), output, gold).score == pytest.approx(score)


def test_rouge_l_is_the_librarys_for_english() -> None:
    from rouge_score.rouge_scorer import RougeScorer

    gold, output = "The quick brown fox jumps over the lazy dog.", "A quick fox -- it jumped over lazy dogs, twice"
    assert grade(RougeL(), output, gold).score == RougeScorer(["rougeL"]).score(gold, output)["rougeL"].fmeasure
    assert 0 < grade(RougeL(), "Größe", "Die Größe").score < 1
    assert rouge_l.Words().tokenize("x_1 北京 naïve") == ["x", "1", "北", "京", "naïve"]


@pytest.mark.parametrize(
    ("output", "score"),
    [
        ('{"name": "Ann", "age": 7}', 1.0),
        ('{"age": 7.0, "name": " Ann", "extra": []}', 1.0),
        ('```json\n{"name": "Ann", "age": 7}\n```', 1.0),
        ('Here it is: {"name": "Ann", "age": 7} I hope it helps.', 1.0),
        ('{"name": "ann", "age": 7}', 0.5),
        ('{"name": "Ann", "age": "7"}', 0.5),
        ('{"name": "Ann"}', 0.5),
        ('{"name": "Ann", "age": true}', 0.5),
        ("{}", 0.0),
    ],
)
def test_json_fields(output: str, score: float) -> None:
    graded = grade(PERSON, output, '{"name": "Ann", "age": 7, "id": 1}')
    assert graded.score == score
    assert graded.answer is not None


@pytest.mark.parametrize(
    "output",
    [
        "Ann, 7",
        '{"name": "Ann", "age": 7',
        '{"a": {"name": "Ann", "age": 7}',
        '{"name": "Ann", "age": 7} {"name": "Bob", "age": 7}',
        '{"name": "Ann", "name": "Bob", "age": 7}',
        '{"name": "Ann", "age": NaN}',
        "{name: Ann}",
        '{"a":' * 100_000,
    ],
)
def test_broken_json_holds_no_answer(output: str) -> None:
    assert grade(PERSON, output, '{"name": "Ann", "age": 7}') == Graded(score=0.0, answer=None)


def test_json_scores_by_field() -> None:
    gold, said = {"a": 1, "b": "x"}, {"a": 1, "b": "y"}
    assert json_fields.field_scores(JsonFields(), dict(said), dict(gold)) == {"a": 1.0, "b": 0.0}
    assert grade(JsonFields(ignore_case=True), '{"a": ["X"]}', '{"a": ["x"]}').score == 1


# --- golds and settings ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "gold", "why"),
    [
        (ExactMatch(), "  ", "empty"),
        (Numeric(), "many", "no number"),
        (Numeric(), "3,14", "'3,14' is not written as a number with '.'"),
        (MultipleChoice(), "E", "none of the choices A, B, C, D"),
        (Regex(pattern="####"), "42", "finds nothing"),
        (TokenF1(), "the ...", "no words"),
        (RougeL(), "!!", "no words"),
        (PERSON, '{"name": "Ann"}', "no field 'age'"),
        (JsonFields(), "Ann", "no JSON object"),
        (JsonFields(), "{}", "no fields"),
    ],
)
def test_a_gold_that_nothing_can_reach_is_refused(metric: Metric, gold: str, why: str) -> None:
    assert why in (metrics.valid_gold(metric, gold) or "")
    assert metric.kind == "exact_match" or grade(metric, gold, gold).score < 1


def test_settings_that_make_no_sense_are_refused() -> None:
    for kind, fields in (
        (Regex, {"pattern": "(a"}),
        (Regex, {"pattern": "(a)(b)"}),
        (MultipleChoice, {"choices": ("A", "a")}),
        (MultipleChoice, {"text_columns": ("a",)}),
        (Numeric, {"absolute": float("nan")}),
        (Numeric, {"tolerance": 1}),
    ):
        with pytest.raises(ValidationError):
            kind(**fields)
