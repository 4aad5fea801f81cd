"""Outputs of two models to the same questions, side by side: read once, then filtered, searched and shown by the page.

Only validation is compared here. The sealed test stands in the report, as figures: whoever reads its questions and then
plans another trial has opened it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from html import escape
from typing import Literal, NamedTuple, get_args

from graph.page.paging import Page, Stamped, page_of, stamped
from graph.page.safe_text import block, html_table, paragraph
from memory.errors import InputError
from memory.layout import RunFolder, read_rows
from memory.records import Outcome, Score
from memory.state import State
from tools import benchmarks
from tools.judgement import ErrorName, error_class

Turn = Literal["all", "right to wrong", "wrong to right", "both wrong"]
"""How the second model did against the first. Where scores lie between 0 and 1, `right to wrong` holds every item that
lost, and `wrong to right` every one that gained; wrong is what falls short of the full mark."""
TURNS: tuple[Turn, ...] = get_args(Turn)
ANY = "any"
KINDS: tuple[str, ...] = (ANY, *get_args(ErrorName))
SIDES = "display:grid;gap:0.75rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,260px),1fr))"
CARD = "border:1px solid var(--border-color-primary);border-radius:6px;padding:0.75rem;margin:0.5rem 0"


class Pair(NamedTuple):
    """Two outputs to one question."""

    first: Outcome
    second: Outcome


@dataclass(frozen=True)
class SideBySide:
    """All questions that both models were asked."""

    pairs: tuple[Pair, ...]
    closed_answers: tuple[str, ...] | None

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """What is searched, of each pair."""
        return tuple(
            "\n".join((first.id, first.prompt, first.gold, first.output, second.output)).casefold()
            for first, second in self.pairs
        )

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """The class of the second model's error in each pair; empty where it is right."""
        return tuple(self.kind_of(pair.second) for pair in self.pairs)

    def kind_of(self, outcome: Outcome) -> str:
        """The class of an output's error; empty for a right one."""
        return "" if outcome.score >= 1 else error_class(outcome, self.closed_answers)

    def find(self, turn: Turn = "all", kind: str = ANY, words: str = "", page: int = 1) -> Page[Pair]:
        """The pairs that fit all of it, in the order of the benchmark; a page that is not there is the nearest one."""
        needle = words.strip().casefold()
        places: Sequence[int] = range(len(self.pairs))
        if turn != "all":
            places = [place for place in places if _turned(self.pairs[place], turn)]
        if kind != ANY:
            places = [place for place in places if self.kinds[place] == kind]
        if needle:
            places = [place for place in places if needle in self.texts[place]]
        shown = page_of(places, page)
        return Page(tuple(self.pairs[place] for place in shown.items), shown.total, shown.number)

    @cached_property
    def counts(self) -> dict[Turn, int]:
        """Pairs of each turn."""
        return {turn: sum(turn == "all" or _turned(pair, turn) for pair in self.pairs) for turn in TURNS}

    @cached_property
    def errors(self) -> list[list[str]]:
        """The classes of errors with their counts, first and second model."""
        before, after = Counter(map(self.kind_of, (pair.first for pair in self.pairs))), Counter(self.kinds)
        return [[kind, f"{before[kind]:,}", f"{after[kind]:,}"] for kind in sorted({*before, *after} - {""})]


def models(state: State) -> dict[str, Score]:
    """What can be compared: the untouched model with both prompts, and every trial that was scored."""
    found: dict[str, Score] = {}
    if baseline := state.get("baseline"):
        found["base, zero-shot"] = baseline.zero_shot
        found[f"base, {baseline.few_shot.shots}-shot"] = baseline.few_shot
    return found | {f"trial {trial.number}": trial.score for trial in state.get("trials", []) if trial.score}


def usual(names: Sequence[str]) -> tuple[str, str] | None:
    """What is compared at first: the untouched model with the newest trial; None where there is nothing to compare."""
    return (names[0], names[-1]) if len(names) > 1 else None


def turn_of(word: str) -> Turn:
    """One of TURNS, as it came from the page. Raises InputError."""
    for turn in TURNS:
        if turn == word:
            return turn
    raise InputError(f"outputs cannot be filtered by {word}", f"Choose one of: {', '.join(TURNS)}.")


def side_by_side(folder: RunFolder, state: State, first: str, second: str) -> SideBySide:
    """The outputs of two of `models`. Raises InputError for another name, StorageError."""
    scores = models(state)
    for name in (first, second):
        if name not in scores:
            raise InputError(f"{name or 'nothing'} has no outputs to compare", f"Choose one of: {', '.join(scores)}.")
    places = (stamped(folder.resolve(scores[name].outcomes)) for name in (first, second))
    return _paired(*places, benchmarks.of(state["task"]).closed_answers)


def html(found: Page[Pair], compared: SideBySide, first: str, second: str) -> str:
    """A page of pairs as cards, which stand below each other on a narrow screen."""
    if not found.items:
        return paragraph("Nothing fits.")
    return "".join(_card(pair, compared, (first, second)) for pair in found.items)


def errors_html(compared: SideBySide, first: str, second: str) -> str:
    """The classes of errors with their counts, as HTML."""
    return html_table(("kind", first, second), compared.errors)


def _card(pair: Pair, compared: SideBySide, names: tuple[str, str]) -> str:
    asked = pair.first
    head = f"{escape(asked.id)}{f', sample {asked.sample}' if asked.sample else ''} · {_words(pair)}"
    sides = "".join(
        f"<section><strong>{escape(name)}: {_mark(outcome, compared)}</strong>{block(outcome.output)}</section>"
        for name, outcome in zip(names, pair, strict=True)
    )
    gold = f"<strong>gold</strong>{block(asked.gold)}"
    return f'<article style="{CARD}">{head}{block(asked.prompt)}{gold}<div style="{SIDES}">{sides}</div></article>'


def _mark(outcome: Outcome, compared: SideBySide) -> str:
    """Right, or what is wrong; with what was read from the output where that is not the output itself."""
    kind = compared.kind_of(outcome)
    what = "right" if not kind else f"{kind}, scores {outcome.score:g}" if outcome.score else kind
    read = outcome.answer is not None and outcome.answer != outcome.output.strip()
    return escape(what + (f" (read as {outcome.answer!r})" if read else ""))


def _words(pair: Pair) -> str:
    """The turn in words."""
    for turn in TURNS[1:]:
        if _turned(pair, turn):
            return turn
    return "both right"


def _turned(pair: Pair, turn: Turn) -> bool:
    before, after = pair.first.score, pair.second.score
    if turn == "right to wrong":
        return after < before
    if turn == "wrong to right":
        return after > before
    return turn == "both wrong" and before == after < 1


@lru_cache(maxsize=4)
def _paired(first: Stamped, second: Stamped, closed_answers: tuple[str, ...] | None) -> SideBySide:
    after = {(outcome.id, outcome.sample): outcome for outcome in _outcomes(second)}
    pairs = (
        Pair(outcome, after[outcome.id, outcome.sample])
        for outcome in _outcomes(first)
        if (outcome.id, outcome.sample) in after
    )
    return SideBySide(tuple(pairs), closed_answers)


@lru_cache(maxsize=4)
def _outcomes(file: Stamped) -> tuple[Outcome, ...]:
    return tuple(read_rows(file.path, Outcome))
