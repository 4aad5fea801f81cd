"""Operators in words, as they stand in the provenance of a row and beside what they dropped."""

from __future__ import annotations

import hashlib

from memory.records import (
    TRANSFORM,
    Augment,
    Deduplicate,
    Filter,
    Judge,
    MapTemplate,
    Mix,
    NearDeduplicate,
    Operator,
    Order,
    PassRate,
    Preferences,
    Rewrite,
    Sampling,
    Select,
    SelfDistil,
    Synthesise,
    Transform,
)

SHORT = 60
"""Characters of an instruction that are quoted."""


def describe(operator: Operator) -> str:
    """An operator in words."""
    match operator:
        case Filter():
            return f"filter {operator.where}"
        case MapTemplate():
            return f"map prompt to {operator.prompt!r}, answer to {operator.answer!r}"
        case Deduplicate():
            return "deduplicate"
        case NearDeduplicate():
            return f"near-deduplicate at {operator.threshold:g}"
        case Mix():
            return f"mix {operator.share:.0%} of {operator.source}"
        case Select():
            balance = "" if operator.balance == "none" else f" balanced by {operator.balance}"
            skipped = f" after the first {operator.skip}" if operator.skip else ""
            return f"select {operator.rows}{skipped}{balance}, seed {operator.seed}"
        case Order():
            return f"order by {operator.by}{', descending' if operator.descending else ''}, seed {operator.seed}"
        case Augment():
            return f"augment by {operator.copies} of {len(operator.prompts)} templates"
        case PassRate():
            return f"pass rate of {whose(operator)}, {_asked(operator)}"
        case SelfDistil():
            rest = ", gold for the others" if operator.unsolved == "gold" else ""
            return f"self-distil {operator.keep} of {whose(operator)}, {_asked(operator)}{rest}"
        case Preferences():
            return f"pair right and wrong outputs of {whose(operator)}, {_asked(operator)}"
        case Synthesise():
            shown = f"each {operator.shots} shown"
            return f"synthesise {operator.rows} rows by the {operator.model} model, {shown}, seed {operator.seed}"
        case Rewrite():
            return f"rewrite the {operator.field} by the {operator.model} model: {short(operator.prompt)}"
        case Judge():
            return f"judge by the {operator.model} model, at least {operator.least} of 5: {short(operator.rubric)}"
        case Transform():
            return f"{TRANSFORM}() {digest_of(operator)}"


def short(text: str) -> str:
    """The start of an instruction, on one line."""
    words = " ".join(text.split())
    return words if len(words) <= SHORT else f"{words[:SHORT]}..."


def digest_of(operator: Transform) -> str:
    """A short name for a function: the hash of its source text."""
    return hashlib.sha256(operator.code.encode()).hexdigest()[:12]


def whose(operator: Sampling) -> str:
    """The model that is asked."""
    return "the base model" if operator.trial is None else f"trial {operator.trial}"


def _asked(operator: Sampling) -> str:
    samples = "1 sample" if operator.samples == 1 else f"{operator.samples} samples"
    return f"{samples} at temperature {operator.temperature:g}, {operator.rows} rows, seed {operator.seed}"
