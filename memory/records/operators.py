"""The operators of a data recipe, each one step from rows to rows."""

from __future__ import annotations

import ast
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from memory.records.record import Record

Pool = Literal["strong", "weak"]
"""Which of the run's language models: the strong one, or the weak one. A run that names only one has it for both."""
TRANSFORM = "transform"
"""The function that generated code must define."""


class Filter(Record):
    """Keep the rows for which a SQL condition over the row's columns holds."""

    kind: Literal["filter"] = "filter"
    where: str
    """A DuckDB expression over `prompt, answer, source, prompt_chars, answer_chars`, the benchmark's own columns, and
    `pass_rate` and `judged` where those were measured before. It runs in an empty database that can reach nothing."""


class MapTemplate(Record):
    """Rewrite prompt and answer by templates with `{prompt}`, `{answer}` and the benchmark's own columns."""

    kind: Literal["map"] = "map"
    prompt: str = "{prompt}"
    answer: str = "{answer}"


class Deduplicate(Record):
    """Drop rows whose prompt and answer are the same after folding case and white space."""

    kind: Literal["deduplicate"] = "deduplicate"


class NearDeduplicate(Record):
    """Drop rows whose prompt and answer both nearly repeat those of an earlier row that stays.

    For collected text. Not for questions made from a template: two syllogisms differ in a word or two and are two
    questions, and of each pattern only the first would stay.
    """

    kind: Literal["near_deduplicate"] = "near_deduplicate"
    threshold: float = Field(default=0.8, ge=0.5, le=1)
    """Jaccard similarity of the 5-grams from which on two texts count as one. Data-Juicer and FineWeb take 0.7 and
    0.75 for web pages; the prompts of training rows share more wording, so less of it means a copy."""


class Mix(Record):
    """Blend in rows of another source until they make up `share` of the result.

    The mixes of a recipe know of each other: two of 0.2 give 0.2 and 0.2, and the benchmark's rows keep 0.6. A `select`
    after them keeps the shares.
    """

    kind: Literal["mix"] = "mix"
    source: str
    """A JSONL file among the task's raw data."""
    share: float = Field(gt=0, lt=1)


class Select(Record):
    """Take at most `rows` rows."""

    kind: Literal["select"] = "select"
    rows: int = Field(ge=1)
    skip: int = Field(default=0, ge=0)
    """Leaves out so many rows before: those that a training saw which this one goes on from."""
    balance: Literal["none", "answer", "length", "difficulty"] = "none"
    """Takes equally many rows of each kind, as far as they last. `answer`: of each answer, for closed answers.
    `length`: of short, middle and long prompts, which are thirds of the range between the shortest and the longest.
    `difficulty`: of pass rates below 1/3, up to 2/3, and above; rows without a pass rate are dropped. Rows that were
    mixed in keep their share and are not balanced."""
    seed: int = 0


class Order(Record):
    """Put the rows in an order, for a training with `order = "file"`: a curriculum. No `select` may follow."""

    kind: Literal["order"] = "order"
    by: Literal["length", "difficulty", "random"] = "length"
    """`length`: characters of prompt and answer, short rows first. `difficulty`: pass rate, easy rows first; rows
    without one come last in either direction."""
    descending: bool = False
    """Long, or hard, rows first."""
    seed: int = 0
    """Decides `random`, and between equals."""


class Augment(Record):
    """Add variants of each benchmark row: the same answer to the question in other words.

    A variant of row `ID` is called `ID~1`, `ID~2` and so on and stands behind it. Only training rows are varied: the
    prompts of validation and test stay what they are, so variants pay where the prompts met later will vary.
    """

    kind: Literal["augment"] = "augment"
    prompts: tuple[str, ...] = Field(min_length=1)
    """Templates of the variants, with `{prompt}` and the row's columns."""
    copies: int = Field(default=1, ge=1)
    """Variants of each row, each from another template."""

    @model_validator(mode="after")
    def _enough_templates(self) -> Self:
        if self.copies > len(self.prompts):
            raise ValueError(f"{self.copies} copies need as many prompts, not {len(self.prompts)}")
        return self


class PassRate(Record):
    """Measure how often a model solves each row; its mean score becomes the column `pass_rate`, 0 to 1."""

    kind: Literal["pass_rate"] = "pass_rate"
    samples: int = Field(default=4, ge=1, le=64)
    """Outputs for each row."""
    temperature: float = Field(default=0.7, ge=0, le=2)
    trial: int | None = None
    """The trial whose weights are asked; None asks the base model."""
    rows: int = Field(ge=2)
    """So many rows of the benchmark are asked, the first in the order in which a `select` with the same seed takes
    them; the others get no pass rate."""
    seed: int = 0


class SelfDistil(Record):
    """Rejection sampling: ask a model for several outputs to each question, and train those that the scorer accepts.

    An output is accepted if the benchmark's scorer gives it the full mark and no token limit cut it. `pass_rate` is
    set as well. Rows of other sources stay as they are.
    """

    kind: Literal["self_distil"] = "self_distil"
    samples: int = Field(default=4, ge=1, le=64)
    """Outputs for each question."""
    temperature: float = Field(default=0.7, ge=0, le=2)
    """0.7 as in rejection-sampling fine-tuning (RFT, arXiv 2308.01825)."""
    keep: int = Field(default=1, ge=1)
    """At most so many distinct outputs a question, the shortest first: small models learn short answers better than
    long ones (arXiv 2502.12143), and a cap keeps solved questions from crowding out the others (ReST-EM, arXiv
    2312.06585). The k-th sample of row `ID` is called `ID~sK`."""
    unsolved: Literal["drop", "gold"] = "drop"
    """Questions without an accepted output: drop them, or keep the benchmark's answer, so that hard questions are not
    lost (DART-Math, arXiv 2407.13690)."""
    trial: int | None = None
    """The trial whose weights are asked; None asks the base model."""
    rows: int = Field(ge=2)
    """So many questions of the benchmark are asked, the first in the order in which a `select` with the same seed takes
    them."""
    seed: int = 0


class Preferences(Record):
    """Pairs for DPO: to each question an answer to prefer and one that the model gives now and should not give.

    Preferred is the shortest distinct output that the scorer accepts, or the benchmark's answer where it accepts none.
    Rejected is the wrong output that came most often, scored 0 and ended by the model itself. Questions without a wrong
    output are dropped, and so are rows of other sources, which no scorer can judge. `pass_rate` is set as well.
    """

    kind: Literal["preferences"] = "preferences"
    samples: int = Field(default=4, ge=1, le=64)
    """Outputs for each question."""
    temperature: float = Field(default=1.0, ge=0, le=2)
    """1 asks for what the model would say: a mistake that it hardly ever makes is not worth unlearning."""
    trial: int | None = None
    """The trial whose weights are asked; None asks the base model. The weights that the training begins with."""
    rows: int = Field(ge=2)
    """So many questions of the benchmark are asked, the first in the order in which a `select` with the same seed takes
    them."""
    seed: int = 0


class Synthesise(Record):
    """Add rows that a language model writes, shown rows of the training split as examples.

    Nobody has scored them: they are told apart by their source `synthesised`, and a `judge` behind this step is wise.
    Rows that repeat a question which is there, or held-out text, are dropped.
    """

    kind: Literal["synthesise"] = "synthesise"
    prompt: str = Field(min_length=1)
    """What kind of rows is wanted, in words."""
    rows: int = Field(ge=1, le=100_000)
    """New rows that are asked for; fewer stay where some repeat each other."""
    shots: int = Field(default=4, ge=1, le=20)
    """Rows of the training split that each call is shown; fewer where they do not fit the model's window."""
    model: Pool = "strong"
    seed: int = 0
    """Decides which rows are shown."""


class Rewrite(Record):
    """Let a language model rewrite the answer or the question of each row of the benchmark; rows of other sources stay.

    A row is kept only where the benchmark's own scorer gives the full mark: to the new answer, or to the answer that
    the model gives to its new question without having seen the gold.
    """

    kind: Literal["rewrite"] = "rewrite"
    prompt: str = Field(min_length=1)
    """How it shall be rewritten, for example with the reasoning before the answer."""
    field: Literal["answer", "prompt"] = "answer"
    model: Pool = "strong"


class Judge(Record):
    """Drop rows to which a language model gives a low score; the score becomes the column `judged`, 1 to 5."""

    kind: Literal["judge"] = "judge"
    rubric: str = Field(min_length=1)
    """What makes a row good, in words."""
    least: int = Field(default=4, ge=2, le=5)
    """Lowest score that stays."""
    model: Pool = "weak"


class Transform(Record):
    """Generated code, for what no other operator can say: each row goes through a function in the sandbox.

    `transform(row)` takes a dict with `id, prompt, answer, source` and the row's columns, and returns such a dict, a
    list of them, or None, which drops the row. It has the standard library and nothing else.
    """

    kind: Literal["transform"] = "transform"
    code: str = Field(min_length=1, max_length=20_000)
    """Source text of the whole file."""

    @field_validator("code")
    @classmethod
    def _defines_it(cls, code: str) -> str:
        try:
            tree = ast.parse(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ValueError(f"the code is no Python: {error}") from error
        if not any(isinstance(node, ast.FunctionDef) and node.name == TRANSFORM for node in tree.body):
            raise ValueError(f"the code defines no function {TRANSFORM}(row)")
        return code


Sampling = PassRate | SelfDistil | Preferences
"""Operators that ask the model that is tuned."""
Written = Synthesise | Rewrite | Judge
"""Operators that ask a language model of the run's planner."""

Operator = Annotated[
    Filter
    | MapTemplate
    | Deduplicate
    | NearDeduplicate
    | Mix
    | Select
    | Order
    | Augment
    | PassRate
    | SelfDistil
    | Preferences
    | Synthesise
    | Rewrite
    | Judge
    | Transform,
    Field(discriminator="kind"),
]
