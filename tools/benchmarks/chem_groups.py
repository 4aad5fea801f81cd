"""Functional groups: how often does one occur in a molecule? Seven answers; always "1" is right on about 40 %.

The question of ChemCoTBench's `fg_count`, with the groups that its authors edit (as SMARTS patterns), asked of
molecules that RDKit ships. Two questions in three are about a group that the molecule has: of all groups together nine
in ten are absent, and "0" would be hard to beat.
"""

import random

from tools.benchmarks.chemcotbench.groups import occurrences
from tools.benchmarks.nci_molecules import Question, make

NAMES = {
    "benzene_ring": "benzene rings",
    "hydroxyl": "hydroxyl groups (OH, but not of an acid)",
    "carboxyl": "carboxyl groups (COOH)",
    "ketone": "ketone groups",
    "ester": "ester groups",
    "amine": "primary or secondary amines",
    "amide": "amide groups",
    "nitro": "nitro groups",
    "halo": "halogen atoms",
    "nitrile": "nitrile groups",
    "sulfone": "sulfone groups",
    "sulfide": "sulfide groups",
}
"""Groups that at least one molecule in fifty has."""
PRESENT = 2 / 3
"""Share of questions about a group that is there, where the molecule has any."""


def ask(smiles: str, order: random.Random) -> list[Question]:
    """A question for each group in an order by chance, of which groups that are there come first more often."""
    counts = {group: occurrences(smiles, group) or 0 for group in NAMES}
    groups = order.sample(list(NAMES), len(NAMES))
    wanted = order.random() < PRESENT
    groups.sort(key=lambda group: (counts[group] > 0) != wanted)
    return [
        (group, f"How many {NAMES[group]} has this molecule?\n{smiles}\nAnswer with a number.", counts[group])
        for group in groups
    ]


CHEM_GROUPS = make("chem_groups", "How often does a functional group occur in a molecule? (a number, offline)", ask)
