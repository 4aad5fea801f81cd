"""Grow from the trial that may be the best: the one with the highest validation score plus its standard error that has
an untried change worth a trial."""

from __future__ import annotations

from tools.proposers.brief import Brief
from tools.proposers.moves import MINOR, repairs, worth_most
from tools.proposers.strategies.tree import Choice, Node, nodes, passed_over
from tools.proposers.worth import gain_of


def choose(brief: Brief) -> Choice | None:
    """The change that is worth most of the most promising trial. Small changes wait until no trial has a better one,
    dead ends until nothing else is left."""
    if not brief.scored:
        chosen = worth_most(brief, repairs(brief, brief.trials[-1]))
        return None if chosen is None else Choice(*chosen)
    ranked = sorted(nodes(brief), key=lambda node: (node.value + node.error, node.trial.number), reverse=True)
    living = [node for node in ranked if node.dead is None]
    for group in (filter(_worthwhile, living), living, ranked):
        node = next((node for node in group if node.move), None)
        if node is not None and node.move is not None:
            return Choice(*node.move, why=_why(node) + passed_over(ranked, node))
    return None


def _worthwhile(node: Node) -> bool:
    return node.move is not None and gain_of(node.brief, node.move[1]) >= MINOR


def _why(node: Node) -> str:
    return (
        f"Best-first: of the trials with an untried change, {node.trial.number} has the highest score plus standard "
        f"error, {abs(node.value + node.error):.3f}."
    )
