"""The check of an export: loaded from its own files, it has to give ten recorded answers again.

The rule: each comes out equal, character for character, or the export would nearly have said it: no token of the
recorded answer, its end included, is further behind the export's first choice than rounding explains.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, ValidationError

from memory.errors import InputError, NotReproducedError, StorageError
from memory.layout import read_rows, write_text
from memory.records import Outcome, Record
from tools.engines import contract

Form = Literal["adapter", "merged", "gguf"]

CHECKED = 10
TIE_NATS = 0.5
"""Log-probabilities that are nearer than this are a tie: the recorded answers come from batches and fused kernels,
where bf16 (eight significant bits, through 30 layers and more) adds up in another order."""
RULE = f"each equal, or no recorded token more than {TIE_NATS} nats behind the first choice"
CHECK_SECONDS = 3600.0
"""A limit for what hangs; ten short answers take seconds."""


class Recorded(Record):
    """A question and the answer to it that was recorded."""

    prompt: str
    output: str
    stopped: bool
    """The answer came to its end; False where the token limit cut it."""


class CheckRequest(Record):
    """Request to the worker; paths are absolute."""

    action: Literal["check"] = "check"
    form: Form
    folder: str
    file: str | None
    """Name of the GGUF file in the folder."""
    base: str | None
    """Folder of the base model, where the export is an adapter."""
    tokenizer: str
    """Folder with the tokenizer that the run used: the export has to make the same tokens."""
    asked: tuple[Recorded, ...]
    max_new_tokens: int


class Answer(Record):
    """One answer of the export."""

    output: str
    margin: float | None
    """The most nats by which the export prefers another token to one of the recorded answer; None where the output is
    equal."""


class Answers(Record):
    """What the worker answers."""

    answers: tuple[Answer, ...]
    seconds: float


class Compared(Record):
    """A recorded answer and what the export says."""

    item: str
    recorded: str
    output: str
    margin: float | None
    """As in `Answer`."""

    @property
    def equal(self) -> bool:
        """Character for character."""
        return self.output == self.recorded


class Asked(Record):
    """How recorded answers were asked for: of the request to the scorer, what decides an answer."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    max_new_tokens: int
    temperature: float


def recorded(outcomes: Path) -> tuple[Asked, list[Outcome]]:
    """Ten answers of an evaluation, spread over its items, and how they were asked for.

    Raises InputError where they were sampled, since nothing gives them again; StorageError.
    """
    request = outcomes.parents[1] / "request.json"
    try:
        asked = Asked.model_validate(json.loads(request.read_text(encoding="utf-8"))["request"])
    except (OSError, ValueError, KeyError, ValidationError) as error:
        raise StorageError(f"{request} does not say how the recorded answers were asked for ({error})") from error
    if asked.temperature > 0:
        raise InputError(
            "the answers of this benchmark are sampled, so an export cannot be checked against them",
            "The tuned weights lie in the run's folder, under model/.",
        )
    rows = [outcome for outcome in read_rows(outcomes, Outcome) if outcome.sample == 0]
    return asked, [rows[number * len(rows) // CHECKED] for number in range(CHECKED)] if len(rows) > CHECKED else rows


def ask_again(
    worker: contract.Engine,
    form: Form,
    folder: Path,
    file: str,
    base: Path,
    tokenizer: Path,
    outcomes: Path,
    work: Path,
) -> tuple[Compared, ...]:
    """Load the export in `folder` and ask it what the run asked; `file` stands for a GGUF, `base` for an adapter.

    `tokenizer` is the folder of the run's own; `work` takes request and log. Raises NotReproducedError, EngineError
    (TEMPLATE where the export renders a question otherwise), and what `recorded` raises.
    """
    asked, rows = recorded(outcomes)
    request = CheckRequest(
        form=form,
        folder=str(folder.resolve()),
        file=file if form == "gguf" else None,
        base=str(base) if form == "adapter" else None,
        tokenizer=str(tokenizer.resolve()),
        asked=tuple(Recorded(prompt=row.prompt, output=row.output, stopped=row.finish == "stop") for row in rows),
        max_new_tokens=asked.max_new_tokens,
    )
    answers = worker.call(request, Answers, work, timeout_s=CHECK_SECONDS).answers
    compared = tuple(
        Compared(item=row.id, recorded=row.output, output=answer.output, margin=answer.margin)
        for row, answer in zip(rows, answers, strict=True)
    )
    write_text(work / "compared.json", json.dumps([each.model_dump() for each in compared], indent=1))
    refuse_other_answers(compared, work / "compared.json")
    return compared


def refuse_other_answers(compared: Sequence[Compared], where: Path) -> None:
    """Raises NotReproducedError where the rule is broken; `where` holds all answers."""
    other = [each for each in compared if not each.equal and (each.margin is None or not each.margin <= TIE_NATS)]
    if other:
        raise NotReproducedError(
            f"the export was not kept: {len(other)} of {len(compared)} recorded answers came out otherwise, "
            f"{other[0].item} for one ({other[0].recorded!r}, now {other[0].output!r})",
            f"The rule is: {RULE}. All answers are in {where}.",
        )
