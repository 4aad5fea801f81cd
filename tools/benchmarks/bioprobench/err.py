"""BioProBench, checking a protocol: is a step right in its context, or does it hold an error?

The score is the accuracy: half of the steps are right, so that no constant answer earns more than a half. The published
figure, the F1 of finding errors, stands beside it; "False", always answered, has 0.665 there. An output that is neither
True nor False counts as the wrong one of the two.

The published scorers leave such outputs out, take the last line where there are no tags, and look for "True" before
"False" in whatever they found: "Untrue" and "True is what I doubt: False" are True to them, "TRUE" is nothing.

Of the 1,200 test rows 66 cannot be answered but by luck: their corrupted step is the correct one, and is called wrong.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from memory.records import Outcome
from tools.benchmarks.benchmark import Graded, Item
from tools.benchmarks.bioprobench.task import answered, asked, first_tagged, make, tagged
from tools.benchmarks.measures import Aggregate, Mean, f1
from tools.metrics.texts import bare, without_reasoning
from tools.raw_data.rows import Row

WORDS = ("True", "False")


def read(output: str) -> str | None:
    """True or False; None where the output, or what stands between its tags, is neither."""
    content = tagged(output)
    said = bare(without_reasoning(output) if content is None else content).capitalize()
    return said if said in WORDS else None


def fork(output: str) -> str | None:
    """What the published scorers read; None for what they leave out."""
    text = without_reasoning(output).rpartition("[/INST]")[2]
    content = first_tagged(text)
    said = text.strip().rpartition("\n")[2] if content is None else content
    return next((word for word in WORDS if word in said or word.lower() in said), None)


def found_errors(figure: str | None) -> Aggregate:
    """F1 of finding errors: a hit is an error that was called False. With a figure, of what another scorer read."""

    def of(outcomes: Sequence[Outcome]) -> float:
        pairs = [(_gold(outcome), outcome.labels[figure] if figure else _answer(outcome)) for outcome in outcomes]
        hits = sum(gold == said == "False" for gold, said in pairs)
        extras = sum(gold == "True" and said == "False" for gold, said in pairs)
        misses = sum(gold == "False" and said == "True" for gold, said in pairs)
        return f1(hits, extras, misses)

    return Aggregate("F1_ftdojo", of, figure) if figure else Aggregate("F1", of)


def _gold(outcome: Outcome) -> str:
    return tagged(outcome.gold) or ""


def _answer(outcome: Outcome) -> str:
    """What was read; for an unreadable output the wrong one of the two."""
    return outcome.answer or next(word for word in WORDS if word != _gold(outcome))


def grade(output: str, item: Item) -> Graded:
    """1 where the step was judged as the gold says."""
    said, gold, published = read(output), json.loads(item.reference)["gold"], fork(output)
    read_too = {} if published is None else {"ftdojo": published}
    right = {} if published is None else {"accuracy_ftdojo": float(published == gold)}
    return Graded(score=float(said == gold), answer=said, values=right, labels=read_too)


def item_of(row: Row) -> Item:
    """A step with what it is for, and the steps before and behind it."""
    gold = str(bool(row["is_correct"]))
    step = row["corrected_text"] if row["is_correct"] else row["corrupted_text"]
    context = {name: row["context"][name] for name in ("purpose", "prior_step", "next_step")}  # type: ignore[index]
    question = (
        f"Is this step of a protocol right? It is False if anything in it is wrong, be it an amount, a reagent, a "
        f"condition or an operation.\n\nStep: {step}\nPurpose: {context['purpose']}\n"
        f"Step before: {context['prior_step']}\nStep behind: {context['next_step']}"
    )
    return Item(
        id=str(row["id"]),
        prompt=asked(question, "True or False"),
        answer=answered(gold),
        columns={"kind": str(row["type"])},
        reference=json.dumps({"gold": gold}),
    )


ERR = make(
    "ERR",
    "Is a step of a protocol right, or does it hold an error? (True or False)",
    item_of,
    grade,
    Mean("accuracy"),
    (found_errors(None), Mean("accuracy_ftdojo", "accuracy_ftdojo"), found_errors("ftdojo")),
    max_new_tokens=64,
)
