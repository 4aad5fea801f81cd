"""TableBench: answers and charts by three scorers, each with its oddities; the authors' published figures come out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.raw_data import put, real
from tools.benchmarks import get
from tools.benchmarks.__main__ import main
from tools.benchmarks.splits import Sizes, read_items, split_path, write_splits
from tools.benchmarks.tablebench import answers, charts
from tools.raw_data.store import Store
from tools.sandbox.isolation import isolation

O3_MINI = "tablebench/inference_results/o3-mini-2025-01-31=TableBench_DP=Example.jsonl"


# --- answers in text --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "gold", "ours", "authors", "ftdojo"),
    [
        ("1,062", "1062", 1, 1, 0),
        ("314", "3.14", 0, 1, 0),
        ("3 14", "3.14", 0, 0, 1),
        ("0.5", "-0.5", 0, 1, 1),
        ("5", "-5", 0, 1, 1),
        ("5.0", "5", 1, 0, 0),
        ("0.10", "0.1", 1, 0, 0),
        ("125", "12.5%", 0, 1, 0),
        ("12.5", "12.5%", 1, 1, 1),
        ("0.125", "12.5%", 1, 1, 0),
        ("211.193", "211.19", 1, 0, 0),
        ("10.4", "10", 0, 0, 0),
        ("the A", "A", 0, 1, 0),
        ("Australia.", "australia", 1, 1, 1),
        ("1994-95", "1994\u201395", 1, 0, 1),
        ("spain, italy", "spain, france", 0.5, 0, 0),
        ("979,000, 3", "979000, 3", 1, 1, 0),
        ("3, 979000", "979000, 3", 0, 0, 0),
    ],
)
def test_exact_answers(said: str, gold: str, ours: float, authors: float, ftdojo: float) -> None:
    assert answers.matching(said, gold) == ours
    assert answers.exact_authors(said, gold) == authors
    assert answers.exact_ftdojo(said, gold) == ftdojo


@pytest.mark.parametrize(
    ("said", "gold", "ours", "authors", "ftdojo"),
    [
        ("9.33, 1.11", "9.34, 1.18", 1, 0, 1),
        ("9.33, 5", "9.34, 1.18", 0.5, 0, 1),  # FT-Dojo looks at the first number alone
        ("109", "100", 1, 1, 1),
        ("111", "100", 0, 0, 0),
        ("-109", "-100", 1, 1, 1),
        ("No correlation, 0.15", "No correlation, -0.15", 0.5, 1, 0),
        ("No clear trend, No clear trend", "No clear trend", 0.5, 0, 0),
        ("0", "0", 1, 1, 1),
    ],
)
def test_estimates_within_ten_per_cent(said: str, gold: str, ours: float, authors: float, ftdojo: float) -> None:
    assert answers.matching_within(said, gold) == ours
    assert answers.within_authors(said, gold) == authors
    assert answers.within_ftdojo(said, gold) == ftdojo


@pytest.mark.parametrize(
    ("said", "gold", "ours", "authors", "ftdojo"),
    [
        ("two rows are odd", "two rows are odd", 1, 1, 1),
        ("The cat.", "cat", 2 / 3, 1, 2 / 3),  # the authors drop articles
        ("3.14", "314", 0, 1, 0),
        ("die Größe", "die Größe", 1, 1, 1),
        ("...", "cat", 0, 0, 0),
    ],
)
def test_overlap_of_texts(said: str, gold: str, ours: float, authors: float, ftdojo: float) -> None:
    assert answers.overlap(said, gold) == pytest.approx(ours)
    assert answers.overlap_authors(said, gold) == pytest.approx(authors)
    assert answers.overlap_ftdojo(said, gold) == pytest.approx(ftdojo, abs=1e-6)


@pytest.mark.parametrize(
    ("output", "ours", "authors", "ftdojo"),
    [
        ("I add.\nFinal Answer: 5", "5", "5", "5"),
        ("Final Answer: 4\nNo.\nFinal Answer: 5", "5", "4", "4"),
        ("**Final Answer:** 5", "5", "", "** 5"),
        ("final answer: 5", "5", "", "5"),
        ("It is 5.", None, "", "It is 5."),
        ("<think>Final Answer: 4</think>Final Answer: 5", "5", "4</think>Final Answer: 5", "4</think>Final Answer: 5"),
    ],
)
def test_where_the_answer_stands(output: str, ours: str | None, authors: str, ftdojo: str) -> None:
    assert answers.final(output) == ours
    assert answers.final_authors(output) == authors
    assert answers.final_ftdojo(output) == ftdojo


def test_an_output_without_an_answer_is_wrong_and_counts() -> None:
    benchmark = get("tablebench_numerical_reasoning")
    assert benchmark.items_in is not None
    (item,) = benchmark.items_in(real(O3_MINI))[:1]
    graded = benchmark.grade(item.answer.removeprefix("Final Answer: "), item)
    assert (graded.answer, graded.score) == (None, 0)
    assert graded.values == {"authors": 0, "numbers_ftdojo": 1}  # FT-Dojo takes the whole text


def predictions(kind: str, path: Path) -> Path:
    rows = [json.loads(line) for line in real(O3_MINI).read_text().splitlines()]
    lines = [json.dumps({"id": row["id"], "output": row["prediction"]}) for row in rows if row["qtype"] == kind]
    path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize(
    ("name", "kind", "measure", "published", "within"),
    [
        ("fact_checking", "FactChecking", "EM_authors", 0.8333, 0.00005),
        ("numerical_reasoning", "NumericalReasoning", "EM_authors", 0.875, 0.00005),
        # The authors' ROUGE-L is the middle of an unseeded bootstrap: their own figures differ by as much.
        ("data_analysis", "DataAnalysis", "Mix_Metric_authors", 0.2617, 0.001),
        pytest.param("visualization", "Visualization", "Pass@1_authors", 0.3333, 0.00005, marks=[pytest.mark.slow]),
    ],
)
def test_the_published_outputs_get_the_published_figures(
    name: str,
    kind: str,
    measure: str,
    published: float,
    within: float,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if kind == "Visualization":
        strict()
    outputs = predictions(kind, tmp_path / "outputs.jsonl")
    assert main(["score", f"tablebench_{name}", str(outputs), "--rows", str(real(O3_MINI)), "--json"]) == 0
    score = json.loads(capsys.readouterr().out)
    assert score["others"][measure]["value"] == pytest.approx(published, abs=within)


def test_ids_that_do_not_fit_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outputs = predictions("FactChecking", tmp_path / "outputs.jsonl")
    lines = outputs.read_text().splitlines()
    asked = ["score", "tablebench_fact_checking", str(outputs), "--rows", str(real(O3_MINI))]
    for text, says in (
        ("\n".join(lines[1:]), "1 ids have no output"),
        ("\n".join([*lines, '{"id": "x", "output": ""}']), "1 ids are no items of the benchmark: x"),
        ("\n".join([*lines, lines[0]]), "5 ids have fewer outputs than others, which have 2"),
        ('{"id": "x"}', "line 1 is no Prediction"),
    ):
        outputs.write_text(text)
        assert main(asked) != 0
        assert says in capsys.readouterr().err


# --- charts -----------------------------------------------------------------------------------------------------------

TABLE = json.dumps({"columns": ["city", "people"], "data": [["A", 3], ["B", 5]]})
GOLD: charts.Series = [[3.0, 5.0]]
HEAD = "import pandas as pd\nimport matplotlib.pyplot as plt\ndf = pd.read_csv('table.csv')\n"


def strict() -> None:
    if isolation().level != "strict":
        pytest.skip(f"a model's code is not run: {isolation().reason}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "kind", "passes"),
    [
        ("plt.bar(df['city'], df['people'])\nplt.show()", "bar", (True, False, True)),  # the authors draw it twice
        ("plt.figure()\nplt.bar(df['city'], df['people'])", "bar", (True, True, True)),
        ("fig, ax = plt.subplots()\nax.barh(df['city'], df['people'])", "hbar", (True, True, False)),
        ("df.plot(x='city', y='people', kind='bar')", "bar", (True, True, False)),
        ("plt.figure()\nplt.pie(df['people'])", "pie", (True, True, False)),
        ("plt.figure()\nplt.plot(df['people'])\nprint('done')", "line", (True, False, False)),
        ("plt.figure()\nplt.plot(df['city'], df['people'])", "bar", (False, False, True)),  # a line is no bar
        ("plt.figure()\nplt.scatter([1, 2], [5, 3])", "scatter", (True, True, False)),  # FT-Dojo keeps the order
        ("plt.figure()\nplt.fill_between([0, 1], [3, 5])", "area", (True, True, False)),
        ("plt.figure()\nplt.stackplot([0, 1], [3, 5])", "area", (True, False, False)),  # they count an edge twice
        ("import socket\nsocket.create_connection(('127.0.0.1', 80))", "bar", (False, False, False)),
        ("while True: pass", "bar", (False, False, False)),
    ],
)
def test_charts_by_three_scorers(code: str, kind: str, passes: tuple[bool, bool, bool]) -> None:
    strict()
    seen = charts.drawn(HEAD + code, TABLE)
    says = (charts.right(seen, kind, GOLD), charts.right_authors(seen, kind, GOLD), charts.right_ftdojo(seen, GOLD))
    assert says == passes


@pytest.mark.slow
def test_the_gold_of_every_type_of_chart_passes() -> None:
    strict()
    for kind in charts.KINDS:
        code = charts.code_of(charts.program(kind, GOLD))
        assert code is not None
        assert charts.right(charts.drawn(code, TABLE), kind, GOLD), kind


def test_where_the_code_stands() -> None:
    fenced = "Here:\n```python\na = 1\n```\nor\n```python\nb = 2\n```"
    assert charts.code_of(fenced) == charts.code_authors(fenced) == "b = 2\n"
    assert charts.code_of("```Python\nb = 2\n```") == "b = 2\n"
    assert charts.code_authors("```Python\nb = 2\n```") is None
    assert charts.code_of("import numpy") is charts.code_authors("import numpy") is None
    assert charts.code_ftdojo("import numpy") == "import numpy"
    assert charts.references("y_references = [[1, nan], [2.5, 3]]") == [[1.0, None], [2.5, 3.0]]


def test_training_charts_have_no_gold_numbers_and_are_python(tmp_path: Path) -> None:
    store = Store(tmp_path, tmp_path / "cache")
    benchmark = get("tablebench_visualization", store)
    row = analysis(1) | {"qtype": "Visualization", "qsubtype": "ChartGeneration", "table": TABLE}
    codes = ["plt.bar(df['city'], df['people'])", "plt.bar(", ""]
    rows = [row | {"id": str(place), "response": f"```python\n{HEAD}{code}\n```"} for place, code in enumerate(codes)]
    put(store, benchmark.training[0], [*rows, row | {"response": "I cannot draw."}])
    items = sorted(benchmark.draw("train", 0), key=lambda item: item.id)
    assert [item.id for item in items] == ["0", "2"]
    assert benchmark.grade(items[0].answer, items[0]).score == 1
    assert benchmark.grade("no code", items[0]).score == 0


# --- splits -----------------------------------------------------------------------------------------------------------


def analysis(number: int) -> dict[str, object]:
    kinds = ["CorrelationAnalysis", "ImpactAnalysis", "CausalAnalysis"]
    return {
        "id": f"r{number:03}",
        "qtype": "DataAnalysis",
        "qsubtype": kinds[number % 3],
        "table": {"columns": ["x", "y"], "data": [[1, "a"], [number, "b"]]},
        "question": f"What follows from {number}?",
        "answer": f"Something, {number}",
        "instruction_type": "TCoT",
        "instruction": f"Look at table {number} and say what follows from it.",
    }


def test_rows_in_two_published_views_are_one_item_and_the_test_keeps_them(tmp_path: Path) -> None:
    store = Store(tmp_path, tmp_path / "cache")
    benchmark = get("tablebench_data_analysis", store)
    put(store, benchmark.held_out[0], map(analysis, range(60)))
    training = [analysis(number) | {"response": f"Thinking.\nFinal Answer: {number}"} for number in range(100, 110)]
    training += [analysis(1) | {"response": "Final Answer: 1"}, analysis(200) | {"response": "I do not know."}]
    put(store, benchmark.training[0], training)
    manifest = write_splits(benchmark, tmp_path / "data", tmp_path / "sealed", Sizes(), 0)
    drawn = {split: read_items(split_path(split, tmp_path / "data", tmp_path / "sealed")) for split in manifest.splits}
    ids = {split: {item.id for item in items} for split, items in drawn.items()}
    assert not ids["test"] & ids["validation"]
    assert manifest.splits["validation"].overlap == {"test": manifest.splits["validation"].duplicates}
    assert manifest.splits["validation"].duplicates > 0
    assert len(drawn["train"]) == 10
    views = [json.loads(item.reference)["views"] for item in drawn["test"]]
    assert sum("other" in each for each in views) == 30
    assert sum("CorrelationAnalysis" in each for each in views) == 10
    assert any(len(each) == 2 for each in views)
    assert all(benchmark.grade(item.answer, item).score == 1 for items in drawn.values() for item in items)
