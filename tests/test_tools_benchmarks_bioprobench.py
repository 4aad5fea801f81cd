"""BioProBench: each quirk of the published scorers on both sides, and the real test rows."""

import json
from pathlib import Path

import pytest

from memory.errors import InputError
from tests import raw_data
from tools.benchmarks.benchmark import Benchmark, Item
from tools.benchmarks.bioprobench import err, gen, ordering, pqa
from tools.benchmarks.bioprobench.err import ERR
from tools.benchmarks.bioprobench.gen import GEN
from tools.benchmarks.bioprobench.ordering import ORD
from tools.benchmarks.bioprobench.pqa import PQA
from tools.benchmarks.bioprobench.task import answered
from tools.benchmarks.measures import value_of
from tools.raw_data.store import Store
from tools.scoring import score_of

TASKS: dict[str, Benchmark] = {"PQA": PQA, "ORD": ORD, "ERR": ERR, "GEN": GEN}


def figure(benchmark: Benchmark, name: str, pairs: list[tuple[Item, str]]) -> float | None:
    (measure,) = [each for each in (benchmark.measure, *benchmark.others) if each.name == name]
    return value_of(measure, [benchmark.outcome(item, output) for item, output in pairs])


# --- real rows --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "rows"),
    [("PQA", 1200), ("ORD", 1161), ("ERR", 1200), pytest.param("GEN", 772, marks=pytest.mark.slow)],
)
def test_golds_of_the_real_rows_score_1(task: str, rows: int) -> None:
    benchmark = TASKS[task]
    assert benchmark.items_in is not None
    items = benchmark.items_in(raw_data.real(f"bioprobench/{task}_test.json"))
    assert len({item.id for item in items}) == rows
    few = items if task != "GEN" else items[:10]
    assert all(benchmark.grade(item.answer, item).score == pytest.approx(1) for item in few)
    assert benchmark.grade("I do not know.", items[0]).score < 0.2


def test_validation_and_test_are_the_first_and_last_hundred_of_the_shuffled_rows(tmp_path: Path) -> None:
    store = Store(raw_data.real("bioprobench").parent, tmp_path)
    drawn = {split: list(PQA.located(store).draw(split, 0)) for split in ("validation", "test")}
    assert {split: len(items) for split, items in drawn.items()} == {"validation": 100, "test": 100}
    assert not {item.id for item in drawn["test"]} & {item.id for item in drawn["validation"]}


def test_a_right_order_of_identical_steps_is_left_out_by_the_published_scorer() -> None:
    assert ORD.items_in is not None
    items = ORD.items_in(raw_data.real("bioprobench/ORD_test.json"))
    unsolvable = [item for item in items if "exact_ftdojo" not in ORD.grade(item.answer, item).values]
    assert len(unsolvable) == 16
    assert all(ORD.grade(item.answer, item).values["exact"] == 1 for item in unsolvable)


def test_always_false_on_the_real_rows_earns_a_half_here_and_two_thirds_there() -> None:
    assert ERR.items_in is not None
    pairs = [(item, answered("False")) for item in ERR.items_in(raw_data.real("bioprobench/ERR_test.json"))]
    assert figure(ERR, "accuracy", pairs) == pytest.approx(598 / 1200)
    assert figure(ERR, "F1_ftdojo", pairs) == pytest.approx(0.665, abs=5e-4)


# --- knowing ----------------------------------------------------------------------------------------------------------


def choice(gold: str = "0.3", *choices: str) -> Item:
    row: dict[str, object] = {"id": gold, "question": "Add ____ ml.", "answer": gold, "type": "parameter"}
    return pqa.item_of({**row, "choices": choices or ("0.2", gold, "0.5", "0.1", "0.4")})


@pytest.mark.parametrize(
    ("content", "read", "published"),
    [
        ("0.3 & 85%", ("0.3", 0.85), ("0.3", 85)),
        ("0.3 & 0.9", ("0.3", 0.9), ("0.3", 0)),  # 0.9 is read as 0 %
        ("0.3 85%", (None, 1.0), ("0.3", 85)),
        ("0.3", ("0.3", 1.0), ("", 0)),  # the answer is taken for the confidence
        ("0.3 & 250", ("0.3", 1.0), None),
        ("0.3 & 85 & 90", (None, 1.0), None),
        ('"0.3" & 85%', ("0.3", 0.85), ('"0.3"', 85)),
        ("0.7 & 85%", (None, 1.0), ("0.7", 85)),
    ],
)
def test_choices_and_confidences(
    content: str, read: tuple[str | None, float], published: tuple[str, int] | None
) -> None:
    assert pqa.read(answered(content), ("0.2", "0.3")) == read
    assert pqa.fork(answered(content)) == published


def test_what_cannot_be_read_is_wrong_here_and_left_out_there() -> None:
    pairs = [(choice(), answered("0.3 & 100%")), (choice("0.2"), "It is 0.2.")]
    assert figure(PQA, "accuracy", pairs) == 0.5
    assert figure(PQA, "accuracy_ftdojo", pairs) == 1
    assert figure(PQA, "Brier", pairs) == 0.5, "1, the worst, for the unreadable one"
    assert figure(PQA, "Brier_ftdojo", pairs) == 0


def test_case_and_quotes_make_no_other_choice() -> None:
    item, output = choice("PBS", "PBS", "DMEM"), answered("'pbs' & 60%")
    assert PQA.grade(output, item).score == 1
    assert PQA.grade(output, item).values["accuracy_ftdojo"] == 0
    assert PQA.grade(output, item).values["brier"] == pytest.approx(0.16)


# --- checking ---------------------------------------------------------------------------------------------------------


def step(right: bool) -> Item:
    context = {"purpose": "p", "prior_step": "a", "next_step": "b"}
    row: dict[str, object] = {"id": str(right), "context": context, "is_correct": right, "type": "reagent"}
    return err.item_of({**row, "corrected_text": "Add water.", "corrupted_text": None if right else "Add acid."})


@pytest.mark.parametrize(
    ("output", "read", "published"),
    [
        (answered("True"), "True", "True"),
        (answered("Untrue"), None, "True"),
        (answered("TRUE"), "True", None),
        (answered("True is what I doubt: False"), None, "True"),
        ("It reads well.\nSo it is false.", None, "False"),
        ("False", "False", "False"),
        (answered("True") + answered("False"), "False", "True"),
        ("I cannot say", None, None),
    ],
)
def test_judgements_in_outputs(output: str, read: str | None, published: str | None) -> None:
    assert err.read(output) == read
    assert err.fork(output) == published


def test_an_unreadable_judgement_counts_as_the_wrong_one() -> None:
    pairs = [(step(False), answered("False")), (step(False), "?"), (step(True), "?"), (step(True), answered("True"))]
    assert figure(ERR, "accuracy", pairs) == 0.5
    assert figure(ERR, "F1", pairs) == 0.5, "one hit, one miss, one false alarm"
    assert figure(ERR, "accuracy_ftdojo", pairs) == 1
    assert figure(ERR, "F1_ftdojo", pairs) == 1


def test_always_false_earns_a_half_and_not_two_thirds() -> None:
    pairs = [(step(right), answered("False")) for right in (True, False)]
    assert figure(ERR, "accuracy", pairs) == 0.5
    assert figure(ERR, "F1", pairs) == pytest.approx(2 / 3)


# --- ordering ---------------------------------------------------------------------------------------------------------


def steps(shuffled: str, correct: str) -> Item:
    row: dict[str, object] = {"id": shuffled, "question": "Sort.", "type": "child"}
    return ordering.item_of({**row, "wrong_steps": list(shuffled), "correct_steps": list(correct)})


def test_the_score_is_the_share_of_pairs_in_order() -> None:
    item = steps("cab", "abc")
    for answer, score in (("[1, 2, 0]", 1.0), ("[0, 2, 1]", 0.0), ("[2, 1, 0]", 2 / 3), ("?", 0.0)):
        graded = ORD.grade(answered(answer), item)
        assert graded.score == pytest.approx(score)
        assert graded.values["tau"] == pytest.approx(2 * score - 1)


def test_identical_steps_can_be_exchanged() -> None:
    item = steps("xbx", "xxb")
    for order in ("[0, 2, 1]", "[2, 0, 1]"):
        graded = ORD.grade(answered(order), item)
        assert graded.score == graded.values["exact"] == 1
        assert "exact_ftdojo" not in graded.values, "left out there"
    assert ORD.grade(answered("[2, 2, 1]"), item).values["exact_ftdojo"] == 1, "the same step twice passes there"


def test_a_number_twice_is_no_order_but_for_the_authors() -> None:
    graded = ORD.grade(answered("[0, 0, 1, 2]"), steps("abc", "abc"))
    assert graded.answer is None
    assert graded.score == 0
    assert graded.values["right_official"] == graded.values["pairs_official"] == 3
    assert "right_ftdojo" not in graded.values


def test_the_published_tau_is_pooled_over_pairs_and_ours_is_a_mean_over_items() -> None:
    long, short = steps("abcdefgh", "abcdefgh"), steps("abc", "abc")
    pairs = [(long, answered("[0, 1, 2, 3, 4, 5, 6, 7]")), (short, answered("[2, 1, 0]"))]
    assert figure(ORD, "Kendall's tau", pairs) == 0
    assert figure(ORD, "kendall_tau_ftdojo", pairs) == pytest.approx((28 - 3) / 31)
    assert figure(ORD, "tau over all pairs", pairs) == pytest.approx((28 - 3) / 31)
    unread = [pairs[0], (short, "no")]
    assert figure(ORD, "Kendall's tau", unread) == 0
    assert figure(ORD, "kendall_tau_ftdojo", unread) == 1, "left out there"


def test_texts_of_numbers_are_numbers_to_the_fork_alone() -> None:
    graded = ORD.grade(answered("['0', '1', '2']"), steps("abc", "abc"))
    assert graded.answer is None
    assert graded.values["exact_ftdojo"] == 1
    assert "exact_official" not in graded.values


# --- writing ----------------------------------------------------------------------------------------------------------


def protocol() -> Item:
    row: dict[str, object] = {"system_prompt": "s", "instruction": "i", "input": "How?", "type": "easy", "id": "g"}
    return gen.item_of({**row, "output": ["1. Wash the cells with PBS.", "2. Spin them down."]})


@pytest.mark.slow
def test_an_answer_without_tags_is_left_out_there_and_counts_here() -> None:
    item = protocol()
    plain = "1. Wash the cells with PBS.\n2. Spin them down."
    assert GEN.grade(plain, item).score == GEN.grade(answered(plain), item).score == 1
    assert "rougeL_ftdojo" not in GEN.grade(plain, item).values
    assert GEN.grade(answered(plain), item).values["rougeL_ftdojo"] == 1
    assert GEN.grade("...", item).answer is None


@pytest.mark.slow
def test_two_kinds_of_bleu() -> None:
    item = protocol()
    graded = GEN.grade(answered("1. Wash the cells with water."), item)
    assert 0 < graded.values["bleu"] < graded.values["bleu_ftdojo"] < 1


@pytest.mark.slow
def test_figures_that_need_a_model_say_that_they_were_not_measured() -> None:
    items = [protocol(), protocol().model_copy(update={"id": "h"})]
    score = score_of(GEN, [GEN.outcome(item, item.answer) for item in items], "test", 0)
    assert score.value == pytest.approx(1)
    assert "sentence embeddings" in score.unmeasured["step recall"]
    assert "keyword F1" not in score.others


@pytest.mark.slow
def test_meteor_is_that_of_nltks_own_documentation() -> None:
    if not gen.has_wordnet():
        pytest.skip(f"{gen.WORDNET} is not installed, which only METEOR needs")
    # The first example of nltk.translate.meteor_score: 0.6944 for the best of three references, which is this one.
    reference = "It is a guide to action that ensures that the military will forever heed Party commands"
    output = "It is a guide to action which ensures that the military always obeys the commands of the party"
    assert gen.meteor(reference, output)["meteor"] == pytest.approx(0.6944, abs=5e-5)


def test_a_row_of_something_else_is_named(tmp_path: Path) -> None:
    file = tmp_path / "PQA_test.json"
    file.write_text(json.dumps([{"question": "?"}]))
    assert PQA.items_in is not None
    with pytest.raises(InputError, match=r"row 1 of .*PQA_test\.json is no row of BioProBench \(KeyError"):
        PQA.items_in(file)
