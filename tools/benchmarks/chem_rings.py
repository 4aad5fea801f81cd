"""Rings: how many has a molecule? Seven answers; always "1" is right on a third.

The question of ChemCoTBench's `ring_count`, asked of molecules that RDKit ships. A ring is opened and closed by a
number in a SMILES, so that the answer can be read off: it is learnt by looking at the right signs. The gold is RDKit's
count of smallest rings.
"""

import random

from tools.benchmarks import molecules
from tools.benchmarks.nci_molecules import Question, make


def ask(smiles: str, order: random.Random) -> list[Question]:
    """One question a molecule."""
    rings = molecules.rings(smiles)
    assert rings is not None, "it was written by RDKit"
    return [("", f"How many rings has this molecule?\n{smiles}\nAnswer with a number.", rings)]


CHEM_RINGS = make("chem_rings", "How many rings has a molecule? (a number, offline)", ask)
