"""PANORAMA: what is read from an output and what it is worth, by our scorer and by FT-Dojo's with its oddities."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from memory.records import Outcome
from tests.raw_data import put, real
from tools.benchmarks import get
from tools.benchmarks.benchmark import Item
from tools.benchmarks.panorama.noc4pc import code, code_ftdojo
from tools.benchmarks.panorama.par4pc import letters, letters_ftdojo
from tools.benchmarks.panorama.pi4pc import paragraph, paragraph_ftdojo
from tools.benchmarks.splits import Sizes, read_items, split_path, write_splits
from tools.raw_data.store import Store
from tools.scoring import score_of


def item(name: str, **reference: object) -> Item:
    return Item(id=name, prompt=name, answer="?", reference=json.dumps(reference))


def outcomes(benchmark: str, pairs: list[tuple[Item, str]]) -> list[Outcome]:
    return [get(benchmark).outcome(each, output) for each, output in pairs]


# --- PAR4PC -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "ours", "theirs"),
    [
        ('{"answer": "C"}', "C", "C"),
        ('```json\n{"answer": ["A", "c"]}\n```', "AC", "AC"),
        ('{"reason": "it is closest", "answer": "A, C"}', "AC", "AC"),
        ('The closest are these: {"answer": "C"}', "C", "ACE"),  # the word "answer" holds an A and an E
        ('```json\n{"answer": ["A, C"]}\n```', None, ""),
        ("It is a hinge, so C.", None, "AC"),  # the article is a letter
        ('{"answer": "C"} {"answer": "D"}', None, "ACE"),
        ('{"answer": []}', None, ""),
        ("", None, ""),
    ],
)
def test_letters_of_an_output(output: str, ours: str | None, theirs: str) -> None:
    assert letters(output) == (None if ours is None else set(ours))
    assert letters_ftdojo(output) == set(theirs)


def test_two_letters_in_one_are_no_answer_to_us_and_an_odd_one_to_ft_dojo() -> None:
    assert letters('{"answer": "AC"}') is None
    assert letters_ftdojo('{"answer": "AC"}') == {"AC"}


def test_a_silver_patent_is_neither_right_nor_wrong_but_wrong_to_ft_dojo() -> None:
    one, two = item("one", gold=["A"], silver=["G"]), item("two", gold=["A", "B"], silver=[])
    score = score_of(
        get("panorama_par4pc"),
        outcomes("panorama_par4pc", [(one, '{"answer": ["A", "G"]}'), (two, '{"answer": "A"}')]),
        "test",
        0,
    )
    others = {name: figure.value for name, figure in score.others.items()}
    assert score.value == pytest.approx(2 * 2 / (2 * 2 + 0 + 1))
    assert others["macro_f1_ftdojo"] == pytest.approx(2 * 2 / (2 * 2 + 1 + 1))
    assert others["custom score"] == pytest.approx((1 + 1 / 4) / 2)
    assert others["custom_score_ftdojo"] == pytest.approx((1 / 2 + 1 / 4) / 2)
    assert others["F1 per item, silver wrong"] == pytest.approx((2 / 3 + 2 / 3) / 2)
    assert others["exact match"] == others["exact_match_ftdojo"] == 0


# --- PI4PC ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "ours", "theirs"),
    [
        ('{"answer": 17}', 17, 17),
        ('```json\n{"answer": "17"}\n```', 17, 17),
        ('For claim 3: {"answer": 17}', 17, 17),
        ("Claim 3 rests on paragraph 17.", None, 3),  # the first number of the text
        ("answer: 17", None, 17),
        ('{"answer": true}', None, 1),
        ('{"answer": [17, 20]}', None, 17),
        ("", None, None),
    ],
)
def test_paragraph_of_an_output(output: str, ours: int | None, theirs: int | None) -> None:
    assert (paragraph(output), paragraph_ftdojo(output)) == (ours, theirs)


def test_a_silver_paragraph_is_worth_half_and_nothing_to_ft_dojo() -> None:
    asked = item("x", gold=[9], silver=[66])
    graded = get("panorama_pi4pc").grade('{"answer": 66}', asked)
    assert (graded.score, graded.answer) == (0, "66")
    assert graded.values["custom score"] == 0.5
    assert graded.values["gold or silver"] == 1
    assert graded.values["custom_score_ftdojo"] == graded.values["accuracy_ftdojo"] == 0


# --- NOC4PC -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "ours", "theirs"),
    [
        ('{"code": "103"}', "103", "103"),
        ('```json\n{"code": 102}\n```', "102", "102"),
        ('{"code": "allow"}', "ALLOW", "ALLOW"),
        ("It is not allowable: 102.", None, "ALLOW"),
        ("I would say 102.", None, "102"),
        ("code: 103", None, "103"),
        ("No idea.", None, None),
        ('{"code": "112"}', None, None),
    ],
)
def test_code_of_an_output(output: str, ours: str | None, theirs: str | None) -> None:
    assert (code(output), code_ftdojo(output)) == (ours, theirs)


def test_outputs_that_cannot_be_read_are_wrong_and_ft_dojo_leaves_them_out() -> None:
    golds = ["102", "103", "ALLOW", "103"]
    said = ['{"code": "102"}', '{"code": "103"}', '{"code": "ALLOW"}', "nothing"]
    pairs = [
        (item(str(place), gold=gold), output) for place, (gold, output) in enumerate(zip(golds, said, strict=True))
    ]
    score = score_of(get("panorama_noc4pc"), outcomes("panorama_noc4pc", pairs), "test", 0)
    others = {name: figure.value for name, figure in score.others.items()}
    assert score.value == pytest.approx((1 + 2 / 3 + 1) / 3)
    assert (others["accuracy"], score.parsed, score.n) == (0.75, 3, 4)
    assert others["macro_f1_ftdojo"] == others["accuracy_ftdojo"] == 1
    assert score.others["accuracy_ftdojo"].n == 3
    assert others["macro_f1_authors"] == pytest.approx(score.value * 3 / 4)


COUNTS = {"hits_ftdojo", "extras_ftdojo", "misses_ftdojo"}


# --- rows -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["par4pc", "pi4pc", "noc4pc"])
def test_golds_of_real_rows_score_one_by_every_scorer(task: str) -> None:
    benchmark = get(f"panorama_{task}")
    assert benchmark.items_in is not None
    for row in benchmark.items_in(real(f"panorama/{task}")):
        graded = benchmark.grade(row.answer, row)
        assert graded.score == 1
        published = {name for name in graded.values if name.endswith("_ftdojo")} - COUNTS
        assert {graded.values[name] for name in published} == {1}
        assert "prior art" in row.prompt or "patent" in row.prompt


def row(number: int, kind: str) -> dict[str, object]:
    """A row of NOC4PC; nested columns are texts, as in some of the published files."""
    text = f"{kind} device {number} with " + " ".join(f"part{number * 40 + part}" for part in range(40))
    return {
        "application_number": str(10_000 + number),
        "claim_number": 1,
        "context": json.dumps({"title": f"Thing {number}", "abstract": text, "claims": [f"1. {text}"]}),
        "prior_art_specifications": "[]",
        "answer": json.dumps({"reason": "so", "code": ["102", "103", "ALLOW"][number % 3]}),
    }


def test_validation_and_test_are_cut_from_the_shuffled_test_file_and_never_trained_on(tmp_path: Path) -> None:
    store = Store(tmp_path, tmp_path / "cache")
    benchmark = get("panorama_noc4pc", store)
    put(store, benchmark.held_out[0], [row(number, "tested") for number in range(31)])
    put(store, benchmark.training[0], [row(0, "tested"), *(row(number, "trained") for number in range(100, 120))])
    manifest = write_splits(benchmark, tmp_path / "data", tmp_path / "sealed", Sizes(), 0)
    drawn = {split: read_items(split_path(split, tmp_path / "data", tmp_path / "sealed")) for split in manifest.splits}
    assert {split: len(items) for split, items in drawn.items()} == {"test": 15, "validation": 15, "train": 20}
    assert manifest.licence == "CC-BY-NC-4.0, non-commercial"
    held_out = [each.id for split in ("test", "validation") for each in drawn[split]]
    assert held_out != sorted(held_out)
    assert "noc4pc-10000-cl1" not in [each.id for each in drawn["train"]]


@pytest.mark.slow
def test_a_whole_run_on_a_folder_of_raw_data_reports_all_measures_and_the_licence(tmp_path: Path) -> None:
    store = Store(tmp_path / "raw", tmp_path / "cache")
    benchmark = get("panorama_noc4pc", store)
    put(store, benchmark.held_out[0], [row(number, "tested") for number in range(60)])
    put(store, benchmark.training[0], [row(number, "trained") for number in range(100, 300)])
    argv = [sys.executable, "-m", "tests.fake_run", "--benchmark", benchmark.name, "--max-trials", "1"]
    argv += ["--run-dir", str(tmp_path / "runs")]
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "HF_HUB_OFFLINE": "1"}
    root = Path(__file__).parents[1]
    missing = subprocess.run(argv, cwd=root, env=env, capture_output=True, text=True, check=False)
    assert missing.returncode == 2
    assert "NOC4PC/test.parquet of PANORAMA: decisions of US patent examiners is not on this machine" in missing.stderr
    assert missing.stderr.splitlines()[-1].startswith("tunewright: NOC4PC/test.parquet")
    assert not list(tmp_path.glob("runs/*"))
    argv += ["--data-dir", str(store.given)]
    ended = subprocess.run(argv, cwd=root, env=env, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    report = (folder / "report.md").read_text()
    assert "licence CC-BY-NC-4.0, non-commercial" in report
    assert "| macro_f1_ftdojo |" in report
    card = (folder / "model" / "README.md").read_text()
    assert "licence CC-BY-NC-4.0, non-commercial" in card
    assert "## Other measures" in card
    assert json.loads((folder / "task.json").read_text())["data_dir"] == str(store.given)
