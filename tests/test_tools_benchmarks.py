"""Every benchmark that makes its own items: its golds score 1, everything else 0, and the same seed gives the same
questions in every process."""

import hashlib
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from memory.errors import InputError
from tests.raw_data import put
from tests.test_tools_benchmarks_tablebench import analysis
from tools.benchmarks import BENCHMARKS, get
from tools.benchmarks.__main__ import main
from tools.benchmarks.benchmark import Benchmark, Item, Split
from tools.benchmarks.preparation import install
from tools.raw_data.store import Store

GENERATED = {name: benchmark for name, benchmark in BENCHMARKS.items() if not benchmark.fixed}
EVERY = pytest.mark.parametrize("benchmark", GENERATED.values(), ids=GENERATED.keys())


def some(benchmark: Benchmark, count: int, split: Split = "train", seed: int = 3) -> list[Item]:
    return list(islice(benchmark.draw(split, seed), count))


@EVERY
def test_golds_score_one(benchmark: Benchmark) -> None:
    for item in some(benchmark, 200):
        for output in (item.answer, f" {item.answer}\n"):
            graded = benchmark.grade(output, item)
            assert graded.score == 1
            assert graded.answer == item.answer


@EVERY
def test_wrong_answers_score_zero_and_are_parsed(benchmark: Benchmark) -> None:
    items = some(benchmark, 60)
    for item in items:
        wrong = {other.answer for other in items if other.answer.lower() != item.answer.lower()}
        for answer in wrong:
            graded = benchmark.grade(answer, item)
            assert graded.score == 0
            assert graded.answer == answer


@EVERY
def test_chatter_around_the_gold_earns_nothing(benchmark: Benchmark) -> None:
    for item in some(benchmark, 30):
        for output in (f"The answer is {item.answer}.", f"{item.answer}. Because it follows.", f"{item.answer}."):
            assert benchmark.grade(output, item).score == 0


@EVERY
def test_an_empty_output_holds_no_answer(benchmark: Benchmark) -> None:
    item = some(benchmark, 1)[0]
    for output in ("", " \n\t"):
        graded = benchmark.grade(output, item)
        assert graded.answer is None
        assert graded.score == 0


@EVERY
def test_closed_answers_are_all_the_golds_there_are(benchmark: Benchmark) -> None:
    golds = {item.answer for item in some(benchmark, 1000)}
    if benchmark.closed_answers is None:
        assert len(golds) > 100, "so few answers should be declared closed"
    else:
        assert golds <= set(benchmark.closed_answers)
        assert benchmark.grade("perhaps", some(benchmark, 1)[0]).answer is None


@EVERY
def test_splits_and_seeds_draw_different_questions(benchmark: Benchmark) -> None:
    drawn = [some(benchmark, 50, split, seed) for split in ("train", "validation", "test") for seed in (0, 1)]
    first = [tuple(item.prompt for item in items[:20]) for items in drawn]
    shifted = [tuple(item.prompt for item in items[1:21]) for items in drawn]
    assert len(set(first)) == len(drawn)
    assert not set(first) & set(shifted), "neighbouring seeds of the library give the same questions, shifted by one"


def test_the_same_seed_gives_the_same_items_whatever_the_hash_seed_of_python() -> None:
    program = (
        "import hashlib, itertools; from tools.benchmarks import BENCHMARKS\n"
        "items = (i for b in BENCHMARKS.values() if not b.fixed for i in itertools.islice(b.draw('train', 5), 40))\n"
        "print(hashlib.sha256(''.join(i.model_dump_json() for i in items).encode()).hexdigest())"
    )
    here = hashlib.sha256(
        "".join(i.model_dump_json() for b in GENERATED.values() for i in some(b, 40, seed=5)).encode()
    ).hexdigest()
    done = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONHASHSEED": "1"}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == here


def test_a_misspelt_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(InputError, match="Did you mean syllogism"):
        get("sylogism")
    with pytest.raises(InputError, match="There are: syllogism, family_relationships"):
        get("qqq")


def test_the_command_shows_what_the_scorer_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "syllogism"]) == 0
    shown = capsys.readouterr().out
    assert "the gold        'Yes': score 1, read as 'Yes'" in shown
    assert "chatter         'The answer is Yes.': score 0, unparsable" in shown
    assert main(["list"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert len(listed) == 1 + len(BENCHMARKS) + 1 and "more are lighteval's own" in listed[-1]
    assert main(["show", "nope"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def command(*words: str, home: Path) -> tuple[int, str, str]:
    """`python -m tools.benchmarks` as a process of its own, without a network."""
    env = {"HOME": str(home), "PATH": "/usr/bin:/bin", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tools.benchmarks", *words],
        cwd=Path(__file__).parents[1],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_packages_of_a_benchmark_that_are_there_are_not_installed_again(tmp_path: Path) -> None:
    said: list[str] = []
    for benchmark in BENCHMARKS.values():
        install(benchmark, Path(sys.executable), tmp_path / "log", said.append)
    assert said == [], "the packages of all benchmarks belong to the development environment"


def test_raw_data_is_made_ready_from_a_folder_and_missed_in_one_line(tmp_path: Path) -> None:
    store = Store(tmp_path / "raw", tmp_path / "cache")
    benchmark = get("tablebench_data_analysis", store)
    put(store, benchmark.held_out[0], map(analysis, range(40)))
    put(store, benchmark.training[0], [analysis(number) | {"response": "Final Answer: 1"} for number in range(50, 60)])
    code, out, err = command("prepare", "tablebench_data_analysis", "--data-dir", str(store.given), home=tmp_path)
    assert code == 0, err
    assert "TableBench, TableBench_TCoT.jsonl: 40 rows of about" in err
    assert [line.split()[:2] for line in out.splitlines()[2:5]][2] == ["train", "10"]
    code, out, err = command("show", "tablebench_data_analysis", home=tmp_path)
    assert (code, err.count("\n")) == (2, 1)
    assert "TableBench_TCoT.jsonl of TableBench is not on this machine" in err
    _, out, _ = command("list", "--data-dir", str(store.given), home=tmp_path)
    (line,) = (line for line in out.splitlines() if line.startswith("tablebench_data_analysis"))
    assert line.endswith("yes")
    assert "TableInstruct" in line
