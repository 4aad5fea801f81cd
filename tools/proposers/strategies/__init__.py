"""How the trial to grow from is chosen: one table, where a further strategy is a file in this folder and a line here.

What a change is, what it is worth and how it is sized is the same for all of them (`tools/proposers/moves.py`), and so
are the rule that accepts a trial and the one that hands it over (`memory/lineage.py`).
"""

from collections.abc import Mapping

from memory.records import Strategy
from tools.proposers.strategies import best_first, greedy, mcts
from tools.proposers.strategies.tree import Choose

STRATEGIES: Mapping[Strategy, Choose] = {
    "greedy": greedy.choose,
    "best-first": best_first.choose,
    "mcts": mcts.choose,
}
