"""Monte-Carlo tree search over the trials: from the root down, at each trial either one of its untried changes or the
branch below one of its children, whichever has the higher upper confidence bound (UCT: Kocsis and Szepesvári 2006).

A trial is dear and there are few, so that four things differ from the textbook. An untried change counts as a visit
that scored what its parent did (first-play urgency: Gelly and Wang 2006), else every child of the first trial would be
tried before any grandchild. A branch is worth the best score in it, as the best trial is handed over and not the mean;
of k scores it is taken down by what the best of k equal ones looks too good (Blom 1958). The bound counts in standard
errors of the validation score, the only noise that is known. And where no further trial can follow there is nothing
to explore for: then the choice is greedy.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import log, sqrt
from statistics import NormalDist
from typing import NamedTuple

from tools.proposers.brief import Brief
from tools.proposers.moves import repairs, worth_most
from tools.proposers.strategies import greedy
from tools.proposers.strategies.tree import Choice, Node, nodes, passed_over, roots

EXPLORATION = sqrt(2)
"""Standard errors by which the bound lies above the value at `ln(visits of the parent) = visits`: the constant of UCB
for a mean whose noise has a known standard error (Lattimore and Szepesvári 2020, section 7.1)."""


class Arm(NamedTuple):
    """One way on from a trial."""

    node: Node
    """The trial itself, for an untried change of it, or a child, for the branch below."""
    bound: float
    """Upper confidence bound of what comes of it, turned so that more is better."""


def choose(brief: Brief) -> Choice | None:
    """The untried change that the tree policy reaches; dead ends are left out while there is anything else."""
    if not brief.scored:
        chosen = worth_most(brief, repairs(brief, brief.trials[-1]))
        return None if chosen is None else Choice(*chosen)
    if not another_may_follow(brief) and (choice := greedy.choose(brief)) is not None:
        return choice
    tree = nodes(brief)
    living = [node for node in tree if node.dead is None]
    path = descent(brief, [node for node in living if node.move] or [node for node in tree if node.move])
    if not path or path[-1].node.move is None:
        return None
    return Choice(*path[-1].node.move, why=_why(path) + passed_over(tree, path[-1].node))


def another_may_follow(brief: Brief) -> bool:
    """Whether time and trials are left for a further trial after the next one, each as long as the shortest so far."""
    shortest = min(trial.seconds for trial in brief.scored)
    return (brief.trials_left is None or brief.trials_left > 1) and brief.spendable >= 2 * shortest


def descent(brief: Brief, goals: Collection[Node]) -> list[Arm]:
    """The arms that the tree policy takes, the last of them an untried change of one of `goals`; empty without any."""
    wanted = {node.trial.number for node in goals}
    top = roots(brief)
    arms = list(_branches(top, sum(node.visits for node in top), wanted))
    path: list[Arm] = []
    while arms:
        path.append(max(arms, key=lambda arm: arm.bound))
        here = path[-1].node
        if len(path) > 1 and path[-2].node is here:
            return path
        arms = list(_branches(here.children, here.visits, wanted))
        if here.trial.number in wanted:
            arms.append(Arm(here, bound(here.value, here.error, here.visits, 1)))
    return path


def _branches(children: Collection[Node], visits: int, wanted: Collection[int]) -> Iterator[Arm]:
    """The children below which there is something to reach."""
    for child in children:
        below = list(child.below())
        if any(node.trial.number in wanted for node in below):
            best = max(below, key=lambda node: node.value)
            yield Arm(child, bound(best.value - best.error * luck(len(below)), best.error, visits, child.visits))


def bound(value: float, error: float, visits: int, tries: int) -> float:
    """Upper confidence bound of an arm that was tried `tries` times out of `visits` of its parent."""
    return value + EXPLORATION * error * sqrt(log(max(1, visits)) / tries)


def luck(count: int) -> float:
    """Standard errors by which the best of `count` equal scores is expected to lie above them (Blom 1958)."""
    return NormalDist().inv_cdf((count - 0.375) / (count + 0.25))


def _why(path: list[Arm]) -> str:
    way = ", ".join(f"{arm.node.trial.number} ({abs(arm.bound):.3f})" for arm in path[:-1])
    return (
        f"Tree search: the highest upper confidence bounds lead over trial {way} to an untried change of it "
        f"({abs(path[-1].bound):.3f})."
    )
