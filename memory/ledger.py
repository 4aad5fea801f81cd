"""The ledger: what a run did, as tables in its own DuckDB file, to be asked in plain SQL.

Nodes may run twice after a crash, so every record replaces what it said before. The state decides; the ledger only
tells, and `rebuild` makes it anew from the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from duckdb import DuckDBPyConnection

from memory.database import Database, Schema
from memory.layout import RunFolder, read_rows
from memory.records import Baseline, BaseModelCard, Lesson, ModelCall, Outcome, Score, SealedTest, Task, Trial
from memory.state import State

LEDGER_SCHEMA = Schema(
    "ledger",
    (
        """
        CREATE TABLE runs (
            run_id VARCHAR PRIMARY KEY,
            benchmark VARCHAR, description VARCHAR, metric VARCHAR, higher_is_better BOOLEAN,
            base_model VARCHAR, model_parameters BIGINT, model_sha256 VARCHAR,
            budget_seconds DOUBLE, spent_seconds DOUBLE, max_trials INTEGER, sample_cap INTEGER, seed BIGINT
        );
        CREATE TABLE trials (
            trial INTEGER PRIMARY KEY, parent_trial INTEGER, decision VARCHAR, arithmetic VARCHAR,
            changed VARCHAR, changed_from VARCHAR, changed_to VARCHAR,
            diagnosis VARCHAR, hypothesis VARCHAR, expected_gain DOUBLE, expectation_met BOOLEAN, proposer VARCHAR,
            compared_with VARCHAR, difference DOUBLE, difference_low DOUBLE, difference_high DOUBLE,
            wins INTEGER, losses INTEGER, p_value DOUBLE, p_method VARCHAR,
            failure_kind VARCHAR, failure_node VARCHAR, failure_message VARCHAR,
            method VARCHAR, learning_rate DOUBLE, epochs DOUBLE, batch_size INTEGER, lora_rank INTEGER,
            lora_alpha INTEGER, lora_dropout DOUBLE, warmup_ratio DOUBLE, schedule VARCHAR, weight_decay DOUBLE,
            sequence_len INTEGER, training_seed BIGINT, training_rows INTEGER,
            steps INTEGER, step_seconds DOUBLE, tokens BIGINT, peak_memory_bytes BIGINT,
            trial_seconds DOUBLE, train_seconds DOUBLE, predicted_seconds DOUBLE,
            dataset_sha256 VARCHAR, config_sha256 VARCHAR, weights_sha256 VARCHAR
        );
        CREATE TABLE scores (
            model VARCHAR, split VARCHAR, shots INTEGER, trial INTEGER,
            metric VARCHAR, value DOUBLE, stderr DOUBLE, ci_low DOUBLE, ci_high DOUBLE,
            n INTEGER, samples INTEGER, parsed INTEGER, truncated INTEGER,
            score_seconds DOUBLE, generation_seconds DOUBLE,
            PRIMARY KEY (model, split, shots)
        );
        CREATE TABLE outcomes (
            model VARCHAR, split VARCHAR, shots INTEGER, item VARCHAR, sample INTEGER,
            score DOUBLE, answer VARCHAR, gold VARCHAR, output VARCHAR, prompt VARCHAR,
            subset VARCHAR, finish VARCHAR, output_tokens INTEGER,
            PRIMARY KEY (model, split, shots, item, sample)
        );
        CREATE TABLE lessons (
            trial INTEGER, lesson VARCHAR, evidence VARCHAR, trials INTEGER[],
            PRIMARY KEY (trial, lesson)
        );
        CREATE TABLE costs (stage VARCHAR, phase VARCHAR, seconds DOUBLE, PRIMARY KEY (stage, phase));
        CREATE TABLE losses (
            trial INTEGER, step INTEGER, epoch DOUBLE, loss DOUBLE, learning_rate DOUBLE, grad_norm DOUBLE,
            train_seconds DOUBLE,
            PRIMARY KEY (trial, step)
        );
        CREATE VIEW scoreboard AS
            SELECT s.model, s.split, s.shots, s.value, s.stderr, s.ci_low, s.ci_high, s.n, s.parsed,
                   t.decision, t.changed, t.changed_from, t.changed_to, t.difference, t.p_value, t.trial_seconds
            FROM scores s LEFT JOIN trials t USING (trial)
            ORDER BY s.split, s.trial NULLS FIRST, s.shots;
        """,
        """
        CREATE TABLE model_calls (
            call VARCHAR PRIMARY KEY, purpose VARCHAR, language_model VARCHAR, call_state VARCHAR,
            prompt_tokens INTEGER, answer_tokens INTEGER, dollars DOUBLE, call_seconds DOUBLE
        );
        """,
    ),
)
"""Units stand in the names. `model` is `base` or `trial N`; `stage` is `baseline`, `trial N`, `test` or `elsewhere`;
`phase` is `training`, `generating` or `overhead`."""

Row = Sequence[object]
ROWS_AT_ONCE = 100
"""One statement with many rows costs about as much as one with a single row."""


class Ledger:
    """Writes the tables of LEDGER_SCHEMA into an open database. Every method may be called again: the last call holds.

    Methods raise StorageError where the disk refuses or a file of outcomes cannot be read.
    """

    def __init__(self, database: Database, folder: RunFolder) -> None:
        self.database = database
        self.folder = folder

    def record_run(self, task: Task, model: BaseModelCard | None = None, spent_seconds: float = 0.0) -> None:
        """What was asked for, of which model, and the wall clock spent so far, in seconds."""
        with self.database.transaction() as connection:
            self._run(connection, task, model, spent_seconds)

    def record_baseline(self, baseline: Baseline) -> None:
        """The untouched model on validation, with its outcomes."""
        with self.database.transaction() as connection:
            self._baseline(connection, baseline)

    def record_trial(self, trial: Trial) -> None:
        """An ended trial: its row, scores, outcomes, losses and costs."""
        with self.database.transaction() as connection:
            self._trial(connection, trial)

    def record_lesson(self, lesson: Lesson) -> None:
        """What a trial taught; filed under the last of its trials."""
        with self.database.transaction() as connection:
            self._lesson(connection, lesson)

    def record_test(self, test: SealedTest) -> None:
        """The sealed test, with its outcomes."""
        with self.database.transaction() as connection:
            self._test(connection, test)

    def record_call(self, call: ModelCall) -> None:
        """A call of a language model. The state knows none of them: a forked run starts without."""
        row = (
            call.id, call.purpose, call.model, call.state, call.prompt_tokens, call.answer_tokens, call.dollars,
            call.seconds,
        )  # fmt: skip
        with self.database.transaction() as connection:
            put(connection, "model_calls", {"call": call.id}, [row])

    def rebuild(self, state: State) -> None:
        """Forget everything and tell the state anew, in one transaction: what a forked run starts from."""
        baseline, test = state.get("baseline"), state.get("test")
        with self.database.transaction() as connection:
            for table in ("runs", "trials", "scores", "outcomes", "lessons", "costs", "losses"):
                connection.execute(f"DELETE FROM {table}")
            if baseline is not None:
                self._baseline(connection, baseline)
            for trial in state.get("trials", []):
                self._trial(connection, trial)
            for lesson in state.get("lessons", []):
                self._lesson(connection, lesson)
            if test is not None:
                self._test(connection, test)
            model = baseline.model if baseline else None
            self._run(connection, state["task"], model, state.get("spent_seconds", 0.0))

    # --- one record each, inside a transaction --------------------------------------------------------------------

    def _run(self, connection: DuckDBPyConnection, task: Task, model: BaseModelCard | None, spent: float) -> None:
        put(connection, "runs", {"run_id": self.folder.id}, [(
            self.folder.id, task.benchmark, task.description, task.metric, task.higher_is_better,
            task.base_model, model.parameters if model else None, model.sha256 if model else None,
            task.budget.seconds, spent, task.budget.max_trials, task.sample_cap, task.seed,
        )])  # fmt: skip
        # What no stage accounts for: server start, planning, report. It makes the phases add up to the wall clock.
        (known,) = connection.execute(
            "SELECT coalesce(sum(seconds), 0) FROM costs WHERE stage <> 'elsewhere'"
        ).fetchall()[0]
        put(connection, "costs", {"stage": "elsewhere"}, [("elsewhere", "overhead", max(0.0, spent - known))])

    def _baseline(self, connection: DuckDBPyConnection, baseline: Baseline) -> None:
        scores = (baseline.zero_shot, baseline.few_shot)
        for score in scores:
            self._score(connection, score, None)
        self._costs(connection, "baseline", training=0.0, scores=scores)

    def _trial(self, connection: DuckDBPyConnection, trial: Trial) -> None:
        put(connection, "trials", {"trial": trial.number}, [trial_row(trial)])
        scores = [score for score in (trial.score, trial.train_score) if score is not None]
        for score in scores:
            self._score(connection, score, trial.number)
        losses = trial.training.losses if trial.training else ()
        points = {
            p.step: (trial.number, p.step, p.epoch, p.loss, p.learning_rate, p.grad_norm, p.seconds) for p in losses
        }
        put(connection, "losses", {"trial": trial.number}, list(points.values()))
        trained = trial.training.train_seconds if trial.training else 0.0
        self._costs(connection, f"trial {trial.number}", training=trained, scores=scores, total=trial.seconds)

    def _lesson(self, connection: DuckDBPyConnection, lesson: Lesson) -> None:
        trial = max(lesson.trials, default=0)
        row = (trial, lesson.text, lesson.evidence, list(lesson.trials))
        put(connection, "lessons", {"trial": trial, "lesson": lesson.text}, [row])

    def _test(self, connection: DuckDBPyConnection, test: SealedTest) -> None:
        self._score(connection, test.zero_shot, None)
        self._score(connection, test.few_shot, None)
        if test.tuned is not None:
            self._score(connection, test.tuned, test.winner)
        scores = [score for score in (test.zero_shot, test.few_shot, test.tuned) if score is not None]
        self._costs(connection, "test", training=0.0, scores=scores)

    def _score(self, connection: DuckDBPyConnection, score: Score, trial: int | None) -> None:
        model = "base" if trial is None else f"trial {trial}"
        key = {"model": model, "split": score.split, "shots": score.shots}
        put(connection, "scores", key, [(
            model, score.split, score.shots, trial, score.metric, score.value, score.stderr, score.ci_low,
            score.ci_high, score.n, score.samples, score.parsed, score.truncated, score.seconds,
            score.generation_seconds,
        )])  # fmt: skip
        outcomes = read_rows(self.folder.resolve(score.outcomes), Outcome)
        put(connection, "outcomes", key, [outcome_row(key.values(), outcome) for outcome in outcomes])

    def _costs(
        self,
        connection: DuckDBPyConnection,
        stage: str,
        *,
        training: float,
        scores: Iterable[Score],
        total: float | None = None,
    ) -> None:
        scores = list(scores)
        generating = sum(score.generation_seconds for score in scores)
        total = sum(score.seconds for score in scores) if total is None else total
        phases = {"training": training, "generating": generating, "overhead": max(0.0, total - training - generating)}
        put(connection, "costs", {"stage": stage}, [(stage, phase, seconds) for phase, seconds in phases.items()])


def put(connection: DuckDBPyConnection, table: str, key: dict[str, object], rows: Sequence[Row]) -> None:
    """Replace the rows of `table` under `key` by `rows`. Table and column names are ours; values are bound."""
    where = " AND ".join(f"{column} = ?" for column in key)
    connection.execute(f"DELETE FROM {table} WHERE {where}", list(key.values()))
    for first in range(0, len(rows), ROWS_AT_ONCE):
        chunk = rows[first : first + ROWS_AT_ONCE]
        places = ", ".join("(" + ", ".join("?" for _ in row) + ")" for row in chunk)
        connection.execute(f"INSERT INTO {table} VALUES {places}", [value for row in chunk for value in row])


def trial_row(trial: Trial) -> Row:
    """The columns of `trials`, in order."""
    plan, recipe, run = trial.plan, trial.plan.training, trial.training
    change, compared, failure, data = plan.change, trial.comparison, trial.failure, trial.dataset
    return (
        trial.number, plan.parent, trial.decision, trial.arithmetic,
        *((change.factor, change.before, change.after) if change else (None, None, None)),
        plan.diagnosis, plan.hypothesis, plan.expected_gain, trial.expectation_met, plan.proposer,
        *(
            (compared.against, compared.difference, compared.ci_low, compared.ci_high, compared.wins, compared.losses,
             compared.p_value, compared.method) if compared else (None,) * 8
        ),
        *((failure.kind, failure.node, failure.message) if failure else (None, None, None)),
        recipe.method, recipe.learning_rate, recipe.epochs, recipe.batch_size, recipe.lora_rank,
        recipe.lora_alpha, recipe.lora_dropout, recipe.warmup_ratio, recipe.schedule, recipe.weight_decay,
        recipe.sequence_len, recipe.seed, data.rows if data else None,
        *((run.steps, run.step_seconds, run.tokens, run.peak_memory_bytes) if run else (None,) * 4),
        trial.seconds, run.train_seconds if run else None, plan.predicted_seconds,
        data.sha256 if data else None, run.config_sha256 if run else None, run.weights_sha256 if run else None,
    )  # fmt: skip


def outcome_row(key: Iterable[object], outcome: Outcome) -> Row:
    """The columns of `outcomes`, in order."""
    return (
        *key, outcome.id, outcome.sample, outcome.score, outcome.answer, outcome.gold, outcome.output, outcome.prompt,
        outcome.subset, outcome.finish, outcome.output_tokens,
    )  # fmt: skip
