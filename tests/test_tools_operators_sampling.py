"""Pass rates and self-distillation: only what the scorer accepts is trained, and what is lost is counted by reason."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from memory.errors import TrialError
from memory.records import Augment, Filter, Mix, Operator, Order, Outcome, PassRate, Preferences, Select, SelfDistil
from tools.benchmarks.benchmark import Item
from tools.operators import carry_out
from tools.operators.rows import Kept, Row, item_id

OTHER = {"Yes": "No", "No": "Yes"}


def lucky(n: int) -> Row:
    """A question with its item."""
    prompt, answer = f"Is {n} a lucky number?", "No" if n % 3 else "Yes"
    item = Item(id=f"train-{n}", prompt=prompt, answer=answer, reference="{}")
    return Row(item.id, prompt, answer, "lucky", {"n": n}, item)


ROWS = [lucky(n) for n in range(12)]
PLACE = {row.id: place for place, row in enumerate(ROWS)}


def grade(output: str, item: Item) -> float:
    """The last word counts."""
    return float(output.split()[-1:] == [item.answer])


class Model:
    """Answers the items as it is told to; remembers what it was asked."""

    def __init__(self, answer: Callable[[Item, int], str], finish: str = "stop") -> None:
        self.answer, self.finish = answer, finish
        self.asked: list[tuple[int | None, list[str], int, float]] = []
        self.prompts: list[str] = []

    def __call__(self, trial: int | None, items: Sequence[Item], samples: int, temperature: float) -> list[Outcome]:
        self.asked.append((trial, [item.id for item in items], samples, temperature))
        self.prompts += [item.prompt for item in items]
        return [self.outcome(item, sample) for sample in reversed(range(samples)) for item in items]

    def outcome(self, item: Item, sample: int) -> Outcome:
        output = self.answer(item, sample)
        return Outcome(
            id=item.id,
            sample=sample,
            prompt=item.prompt,
            output=output,
            answer=output,
            gold=item.answer,
            score=grade(output, item),
            finish=self.finish,
            output_tokens=1,
        )


def sometimes(item: Item, sample: int) -> str:
    """The n-th question is solved in n modulo 5 of its first 4 samples."""
    right = sample < PLACE[item_id(item.id)] % 5
    return item.answer if right else OTHER[item.answer]


def run(model: Model | None, *operators: Operator, rows: Sequence[Row] = ROWS) -> Kept:
    chat = [Row(f"chat:{n}", f"Say {n}.", f"{n}!", "chat", {}) for n in range(9)]
    return carry_out(operators, list(rows), {"chat": chat}, model)


def test_a_pass_rate_is_a_column_for_filters_balance_and_order() -> None:
    model = Model(sometimes)
    kept = run(model, PassRate(rows=100))
    assert [row.pass_rate for row in kept.rows] == [(n % 5) / 4 for n in range(12)]
    assert kept.dropped == ()
    assert model.asked[0][0] is None
    assert model.asked[0][2:] == (4, 0.7)
    hard = run(model, PassRate(rows=100), Filter(where="pass_rate < 1"), Order(by="difficulty"))
    assert [row.pass_rate for row in hard.rows] == [0.75, 0.75, 0.5, 0.5, 0.25, 0.25, 0.25, 0, 0, 0]
    spread = run(model, PassRate(rows=100), Select(rows=6, balance="difficulty"))
    assert Counter(min(2, int(3 * (row.pass_rate or 0))) for row in spread.rows) == {0: 2, 1: 2, 2: 2}
    (note,) = kept.notes
    assert note == "the base model scores 43.8% on 12 rows, each asked 4 times: 2 always right, 7 sometimes, 3 never"


def test_the_rows_that_are_asked_are_those_that_a_selection_takes_first() -> None:
    model = Model(sometimes)
    kept = run(model, PassRate(rows=5, seed=3, trial=2, samples=2, temperature=1.0))
    measured = {row.id for row in kept.rows if row.pass_rate is not None}
    assert measured == {row.id for row in run(None, Select(rows=5, seed=3)).rows}
    assert model.asked == [(2, [row.id for row in run(None, Select(rows=5, seed=3)).rows], 2, 1.0)]
    shuffled = run(model, PassRate(rows=5, seed=3), rows=ROWS[::-1])
    assert {row.id for row in shuffled.rows if row.pass_rate is not None} == measured


def test_self_distillation_trains_accepted_outputs_and_counts_the_rest_by_reason() -> None:
    def talks(item: Item, sample: int) -> str:
        right = sometimes(item, sample) == item.answer
        return f"  {'So ' * sample}{item.answer if right else OTHER[item.answer]}\n"

    kept = run(Model(talks), SelfDistil(rows=10, keep=2))
    asked = {row.id for row in run(None, Select(rows=10)).rows}
    solved = {row.id for n, row in enumerate(ROWS) if row.id in asked and n % 5}
    by_item: dict[str, list[Row]] = {}
    for row in kept.rows:
        by_item.setdefault(item_id(row.id), []).append(row)
    assert by_item.keys() == solved
    for item, made in by_item.items():
        source = ROWS[PLACE[item]]
        assert len(made) == min(2, PLACE[item] % 5)
        assert made[0].answer == source.answer
        for row in made:
            assert source.item is not None
            assert grade(row.answer, source.item) == 1
            assert row.answered_by == "model"
            assert row.prompt == source.prompt
            assert row.pass_rate == (PLACE[item] % 5) / 4
            assert row.steps == ("self-distil 2 of the base model, 4 samples at temperature 0.7, 10 rows, seed 0",)
    assert {dropped.reason: dropped.rows for dropped in kept.dropped} == {
        "not asked: the base model was asked 10 rows": 2,
        "the scorer accepts none of 4 outputs of the base model": len(asked) - len(solved),
    }
    assert len(solved) + sum(dropped.rows for dropped in kept.dropped) == len(ROWS)


def test_outputs_are_distinct_short_first_and_never_cut() -> None:
    def wordy(item: Item, sample: int) -> str:
        return (f"It follows: {item.answer}", item.answer, f"{item.answer} ", f"Therefore {item.answer}")[sample]

    kept = run(Model(wordy), SelfDistil(rows=12, keep=4))
    first = [row for row in kept.rows if item_id(row.id) == ROWS[0].id]
    answer = ROWS[0].answer
    assert [row.answer for row in first] == [answer, f"Therefore {answer}", f"It follows: {answer}"]
    assert [row.id for row in first] == [f"{ROWS[0].id}~s{sample}" for sample in (1, 3, 0)]
    with pytest.raises(TrialError, match=r"no row is left after: self-distil .* scores 100\.0% on 12 rows"):
        run(Model(wordy, finish="length"), SelfDistil(rows=12))
    with_gold = run(Model(wordy, finish="length"), SelfDistil(rows=12, unsolved="gold"))
    assert {row.answered_by for row in with_gold.rows} == {"source"}


def test_cut_outputs_are_a_reason_of_their_own() -> None:
    model = Model(sometimes)

    def cut(item: Item, sample: int) -> str:
        model.finish = "length" if PLACE[item.id] % 2 else "stop"
        return sometimes(item, sample)

    model.answer = cut
    reasons = {dropped.reason: dropped.rows for dropped in run(model, SelfDistil(rows=12)).dropped}
    assert reasons["accepted outputs were cut by the token limit"] == 5


def test_unsolved_questions_may_keep_the_benchmarks_answer() -> None:
    kept = run(Model(sometimes), SelfDistil(rows=10, unsolved="gold"))
    assert kept.dropped == ()
    assert len(kept.rows) == len(ROWS)
    assert len({row.id for row in kept.rows}) == len(ROWS)
    for row in kept.rows:
        assert row.answer == ROWS[PLACE[item_id(row.id)]].answer
    assert Counter(row.answered_by for row in kept.rows)["source"] >= 3


def test_variants_are_asked_in_their_own_words_and_other_sources_stay_as_they_are() -> None:
    model = Model(sometimes)
    operators = Augment(prompts=("{prompt} Yes or no?",)), Mix(source="chat", share=0.2), SelfDistil(rows=100)
    kept = run(model, *operators)
    assert len(model.asked[0][1]) == len(set(model.asked[0][1])) == 24
    assert sum(prompt.endswith("Yes or no?") for prompt in model.prompts) == 12
    assert Counter(row.source for row in kept.rows)["chat"] == 6
    assert all(row.pass_rate is None for row in kept.rows if row.source == "chat")
    variants = [row for row in kept.rows if "~1~s" in row.id]
    assert variants and all(row.prompt.endswith("Yes or no?") for row in variants)
    assert len({row.id for row in kept.rows}) == len(kept.rows)


def test_no_model_too_few_rows_and_missing_samples_are_failures() -> None:
    def caught(model: Model | Callable[..., list[Outcome]] | None, *operators: Operator) -> TrialError:
        with pytest.raises(TrialError) as error:
            carry_out(operators, list(ROWS), {}, model)
        return error.value

    assert caught(None, PassRate(rows=5)).kind == "CONFIG"
    assert caught(Model(sometimes), Select(rows=1), PassRate(rows=5)).kind == "DATA"
    full = Model(sometimes)
    error = caught(lambda *asked: full(*asked)[1:], PassRate(rows=5))
    assert error.kind == "ENV"
    assert "3 of 4 samples came back" in error.message


def test_a_column_of_the_same_name_makes_way() -> None:
    rows = [replace(row, columns={**row.columns, "Pass_Rate": "high"}) for row in ROWS]
    kept = run(Model(sometimes), PassRate(rows=12), Filter(where="pass_rate >= 0.5"), rows=rows)
    assert len(kept.rows) == 6


def test_pairs_hold_a_right_answer_against_the_mistake_that_comes_most_often() -> None:
    def talks(item: Item, sample: int) -> str:
        return item.answer if sometimes(item, sample) == item.answer else f"Perhaps {OTHER[item.answer]} {sample // 2}"

    kept = run(Model(talks), Preferences(rows=10, trial=1))
    asked = {row.id for row in run(None, Select(rows=10)).rows}
    paired = {item_id(row.id): row for row in kept.rows}
    assert paired.keys() == {row.id for n, row in enumerate(ROWS) if row.id in asked and n % 5 < 4}
    for name, row in paired.items():
        right = PLACE[name] % 5
        assert row.item is not None and row.rejected is not None
        assert row.answer == ROWS[PLACE[name]].answer
        assert grade(row.rejected, row.item) == 0
        assert row.rejected.endswith("1" if right else "0"), "the more frequent, else the earlier one"
        assert (row.answered_by, row.id) == (("model", f"{name}~s0") if right else ("source", name))
        assert row.steps[0].endswith("gold preferred") == (right == 0)
        assert row.pass_rate == right / 4
    lost = {note.reason: note.rows for note in kept.dropped}
    assert lost == {
        "not asked: trial 1 was asked 10 rows": 2,
        "the scorer accepts all 4 outputs of trial 1: nothing to reject": len(asked) - len(paired),
    }


def test_rows_that_no_scorer_can_judge_and_outputs_that_were_cut_make_no_pairs() -> None:
    mixed = run(Model(sometimes), Preferences(rows=100), rows=[*ROWS, Row("chat:9", "Say 9.", "9!", "chat", {})])
    assert all(row.item is not None for row in mixed.rows)
    assert any(note.reason.startswith("of another source") for note in mixed.dropped)
    with pytest.raises(TrialError, match="no row is left after: pair right and wrong outputs of the base model"):
        run(Model(sometimes, finish="length"), Preferences(rows=100))
