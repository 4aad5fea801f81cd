"""Scoring: scores with error bars from real outcomes; never a score from a request that failed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from memory.errors import EngineError, InputError, ServerError
from memory.layout import read_rows, write_rows
from memory.records import Outcome, Score
from tests.score_engines import fake, fake_model, fake_weights, real, real_model
from tools import benchmarks
from tools.scoring import Evaluation, evaluate
from tools.serving import Server
from tools.warm_engine import WarmEngine

SYLLOGISM = benchmarks.get("syllogism")


@pytest.fixture
def items(tmp_path: Path) -> Path:
    """60 items to score, and `train.jsonl` beside them to show examples of."""
    write_rows(tmp_path / "validation.jsonl", islice(SYLLOGISM.draw("validation", 1), 60))
    write_rows(tmp_path / "train.jsonl", islice(SYLLOGISM.draw("train", 1), 8))
    return tmp_path / "validation.jsonl"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(fake("vllm"), fake_model(tmp_path / "base"), tmp_path / "server") as server:
        yield server


@pytest.fixture(scope="module")
def scorer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmEngine]:
    """The stand-in, warm: its imports take longer than its work."""
    with WarmEngine(fake("lighteval"), tmp_path_factory.mktemp("warm")) as warm:
        yield warm


def plain(items: Path) -> Evaluation:
    return Evaluation(name="validation", split="validation", items=str(items))


def few_shot(items: Path) -> Evaluation:
    examples = str(items.with_name("train.jsonl"))
    return Evaluation(name="few", split="validation", items=str(items), shots=5, examples=examples)


def outcomes_of(score: Score) -> list[Outcome]:
    return list(read_rows(Path(score.outcomes), Outcome))


def test_better_weights_score_better_and_every_score_has_an_error_bar(
    items: Path, server: Server, scorer: WarmEngine, tmp_path: Path
) -> None:
    seen: list[tuple[int, int]] = []
    zero, few = evaluate(
        scorer,
        server,
        SYLLOGISM,
        Path(server.model.path),
        [plain(items), few_shot(items)],
        tmp_path / "base-scores",
        on_progress=lambda done, total: seen.append((done, total)),
    )
    tuned = fake_weights(tmp_path / "tuned", 0.8)
    (better,) = evaluate(scorer, server, SYLLOGISM, tuned, [plain(items)], tmp_path / "tuned-scores")
    assert zero.value < few.value < better.value
    assert (zero.shots, few.shots, better.n) == (0, 5, 60)
    for score in (zero, few, better):
        assert score.stderr > 0
        assert score.ci_low < score.value < score.ci_high
        assert score.value == sum(outcome.score for outcome in outcomes_of(score)) / 60
        assert score.parsed == sum(outcome.answer is not None for outcome in outcomes_of(score)) <= score.n
    assert sum(part.n for part in better.subsets.values()) == 60
    assert seen[-1] == (120, 120)


def test_a_finished_evaluation_is_found_again_without_a_server(
    items: Path, server: Server, scorer: WarmEngine, tmp_path: Path
) -> None:
    base = Path(server.model.path)
    first = evaluate(scorer, server, SYLLOGISM, base, [plain(items)], tmp_path / "run" / "scores")
    server.close()
    shutil.move(tmp_path / "run", tmp_path / "moved")
    again = evaluate(scorer, server, SYLLOGISM, base, [plain(items)], tmp_path / "moved" / "scores")
    assert again[0].value == first[0].value
    assert server.starts == 1
    assert Path(again[0].outcomes).is_relative_to(tmp_path / "moved")


def test_other_weights_other_items_and_lost_outcomes_are_scored_anew(
    items: Path, server: Server, scorer: WarmEngine, tmp_path: Path
) -> None:
    def score(weights: Path) -> Score:
        return evaluate(scorer, server, SYLLOGISM, weights, [plain(items)], tmp_path / "scores")[0]

    base = Path(server.model.path)
    before = score(base)
    tuned = score(fake_weights(tmp_path / "tuned", 1.0))
    assert before.value < tuned.value == 1.0
    Path(tuned.outcomes).write_text("")
    assert score(tmp_path / "tuned").value == 1.0
    write_rows(items, islice(SYLLOGISM.draw("validation", 2), 30))
    assert score(tmp_path / "tuned").n == 30


def test_a_server_that_dies_in_an_evaluation_voids_it_and_the_next_one_counts(
    items: Path, scorer: WarmEngine, tmp_path: Path
) -> None:
    faults = {"FAKE_VLLM_DIE_AT": "20", "FAKE_VLLM_ONCE": str(tmp_path / "died")}
    with Server(fake("vllm", faults), fake_model(tmp_path / "base"), tmp_path / "server") as server:
        arguments = (scorer, server, SYLLOGISM, Path(server.model.path), [plain(items)], tmp_path / "scores")
        with pytest.raises(ServerError, match="died during an evaluation"):
            evaluate(*arguments)
        assert not (tmp_path / "scores" / "result.json").exists()
        assert evaluate(*arguments)[0].n == 60
        assert server.starts == 2


def test_a_failed_request_fails_the_evaluation_although_the_server_lives(
    items: Path, scorer: WarmEngine, tmp_path: Path
) -> None:
    faults = {"FAKE_VLLM_FAIL_AT": "60"}
    with Server(fake("vllm", faults), fake_model(tmp_path / "base"), tmp_path / "server") as server:
        base = Path(server.model.path)
        with pytest.raises(EngineError, match="refused /v1/chat/completions with 500: no room"):
            evaluate(scorer, server, SYLLOGISM, base, [plain(items)], tmp_path / "scores")
        assert server.alive()
    assert not (tmp_path / "scores" / "result.json").exists()


def test_what_the_listener_raises_ends_the_engine(items: Path, tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    slow = fake("vllm", {"FAKE_VLLM_DELAY_S": "0.2"})
    with (
        Server(slow, fake_model(tmp_path / "base"), tmp_path / "server") as server,
        WarmEngine(fake("lighteval"), tmp_path / "warm") as warm,
    ):
        for engine in (fake("lighteval"), warm):
            base, scores = Path(server.model.path), tmp_path / "scores"
            with pytest.raises(KeyboardInterrupt):
                evaluate(engine, server, SYLLOGISM, base, [plain(items)], scores, on_progress=stop)
            assert not (scores / "result.json").exists()


def test_a_warm_engine_answers_again_and_again_and_survives_a_failure(
    items: Path, server: Server, tmp_path: Path
) -> None:
    base = Path(server.model.path)
    with WarmEngine(fake("lighteval"), tmp_path / "warm") as warm:
        one = evaluate(warm, server, SYLLOGISM, base, [plain(items)], tmp_path / "one")
        two = evaluate(warm, server, SYLLOGISM, base, [plain(items)], tmp_path / "two")
        with pytest.raises(EngineError, match="no-such-benchmark"):
            evaluate(warm, server, replace(SYLLOGISM, name="no-such-benchmark"), base, [plain(items)], tmp_path / "bad")
        three = evaluate(warm, server, SYLLOGISM, base, [few_shot(items)], tmp_path / "three")
    assert one[0].value == two[0].value <= three[0].value
    assert (tmp_path / "one" / "run.log").exists()


def test_a_warm_engine_that_hangs_is_ended_at_the_limit(items: Path, tmp_path: Path) -> None:
    slow = fake("vllm", {"FAKE_VLLM_DELAY_S": "1"})
    with (
        Server(slow, fake_model(tmp_path / "base"), tmp_path / "server") as server,
        WarmEngine(fake("lighteval"), tmp_path / "warm") as warm,
    ):
        base = Path(server.model.path)
        with pytest.raises(EngineError, match="did not finish within 2 s") as raised:
            evaluate(warm, server, SYLLOGISM, base, [plain(items)], tmp_path / "scores", timeout_s=2.0)
    assert raised.value.kind == "BUDGET"


def test_samples_of_an_item_count_as_one_item(items: Path, server: Server, scorer: WarmEngine, tmp_path: Path) -> None:
    sampled = replace(SYLLOGISM, samples=4, temperature=0.7)
    half = fake_weights(tmp_path / "half", 0.5)
    (score,) = evaluate(scorer, server, sampled, half, [plain(items)], tmp_path / "scores")
    outcomes = outcomes_of(score)
    assert (score.n, score.samples, len(outcomes)) == (60, 4, 240)
    assert {outcome.sample for outcome in outcomes} == {0, 1, 2, 3}
    assert score.value == pytest.approx(sum(outcome.score for outcome in outcomes) / 240)


def test_evaluations_that_make_no_sense_are_refused(
    items: Path, server: Server, scorer: WarmEngine, tmp_path: Path
) -> None:
    base = Path(server.model.path)
    with pytest.raises(InputError, match="share a name"):
        evaluate(scorer, server, SYLLOGISM, base, [plain(items), plain(items)], tmp_path / "scores")
    shown = Evaluation(name="few", split="validation", items=str(items), shots=3)
    with pytest.raises(InputError, match="without a file of examples"):
        evaluate(scorer, server, SYLLOGISM, base, [shown], tmp_path / "scores")
    assert not server.alive(), "nothing was started for it"


# --- the real engines ---------------------------------------------------------------------------------------------


@pytest.mark.engine
def test_the_real_engines_score_zero_shot_few_shot_and_sampled(items: Path, tmp_path: Path) -> None:
    """One server and one lighteval process for all of it; small, since it is about plumbing."""
    model = real_model()
    base = Path(model.path)
    with (
        Server(real("vllm"), model, tmp_path / "server") as server,
        WarmEngine(real("lighteval"), tmp_path / "warm") as warm,
    ):
        short = [evaluation.model_copy(update={"limit": 24}) for evaluation in (plain(items), few_shot(items))]
        seen: list[tuple[int, int]] = []
        zero, few = evaluate(
            warm, server, SYLLOGISM, base, short, tmp_path / "a", on_progress=lambda *count: seen.append(count)
        )
        again = evaluate(warm, server, SYLLOGISM, base, short, tmp_path / "b")
        assert [score.value for score in again] == [zero.value, few.value], "greedy answers repeat"
        assert few.parsed > zero.parsed, "shown examples, the base model answers in form"
        assert zero.truncated > 0
        assert seen[-1] == (48, 48)
        check_prompt(tmp_path / "a" / "few", few)
        sampled = replace(SYLLOGISM, samples=3, temperature=1.0)
        (score,) = evaluate(warm, server, sampled, base, short[:1], tmp_path / "c")
        outcomes = outcomes_of(score)
        assert (score.n, len(outcomes)) == (24, 72)
        assert len({outcome.output for outcome in outcomes if outcome.id == outcomes[0].id}) > 1
        with pytest.raises(
            EngineError, match=r"refused /v1/chat/completions with 400: max_tokens=5000 cannot be greater"
        ):
            evaluate(warm, server, replace(SYLLOGISM, max_new_tokens=5000), base, short[:1], tmp_path / "d")


def check_prompt(folder: Path, score: Score) -> None:
    """lighteval's own details hold what was asked: five worked examples, then the question, as turns of a chat."""
    import duckdb

    (details,) = folder.rglob("details_*.parquet")
    rows = duckdb.sql(f"select to_json(model_response.input), to_json(model_response.text) from '{details}'").fetchall()
    assert len(rows) == score.n
    examples = [json.loads(line) for line in (folder.parents[1] / "train.jsonl").read_text().splitlines()[:5]]
    questions = {outcome.prompt for outcome in outcomes_of(score)}
    for asked, _ in rows:
        messages = json.loads(asked)
        assert [message["role"] for message in messages] == ["user", "assistant"] * 5 + ["user"]
        assert [message["content"] for message in messages[:-1:2]] == [example["prompt"] for example in examples]
        assert [message["content"] for message in messages[1::2]] == [example["answer"] for example in examples]
        assert messages[-1]["content"] in questions
