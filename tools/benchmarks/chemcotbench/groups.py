"""The functional groups that ChemCoTBench adds, removes and exchanges, as SMARTS patterns of the benchmark's authors.

Source: github.com/IDEA-XL/ChemCoTBench, baseline_and_eval/eval/eval_moledit.py.
"""

from __future__ import annotations

from tools.benchmarks import molecules

GROUPS: dict[str, str] = {
    "benzene": "[cR1]1[cR1][cR1][cR1][cR1][cR1]1",
    "benzene_ring": "[cR1]1[cR1][cR1][cR1][cR1][cR1]1",
    "hydroxyl": "[OX2H]",
    "aldehyde": "[CX3H1](=O)[#6]",
    "ketone": "[#6][CX3](=O)[#6]",
    "carboxyl": "[CX3](=O)[OX2H1]",
    "ester": "[#6][CX3](=O)[OX2H0][#6]",
    "anhydride": "[CX3](=[OX1])[OX2][CX3](=[OX1])",
    "amine": "[NX3;H2,H1;!$(NC=O)]",
    "amide": "[NX3][CX3](=[OX1])[#6]",
    "nitro": "[$([NX3](=O)=O),$([NX3+](=O)[O-])][!#8]",
    "halo": "[F,Cl,Br,I]",
    "thiol": "[#16X2H]",
    "thioether": "[SX2][CX4]",
    "disulfide": "[#16X2H0][#16X2H0]",
    "sulfoxide": "[$([#16X3]=[OX1]),$([#16X3+][OX1-])]",
    "sulfone": "[$([#16X4](=[OX1])=[OX1]),$([#16X4+2]([OX1-])[OX1-])]",
    "sulfide": "[#16X2H0]",
    "nitrile": "[NX1]#[CX2]",
    "borane": "[BX3]",
}
FREE_HYDROXYL = "[OX2H;!$([OX2H][CX3]=[OX1])]"
"""A hydroxyl that is no part of a carboxyl: else no hydroxyl could ever be exchanged for a carboxyl."""


def published(smiles: str, group: str) -> int | None:
    """How often the group occurs as the authors count it; None for no molecule. A disulfide is no sulfide."""
    found = molecules.matches(smiles, GROUPS[group])
    if found is None or group != "sulfide":
        return found
    return found - (molecules.matches(smiles, GROUPS["disulfide"]) or 0)


def occurrences(smiles: str, group: str) -> int | None:
    """How often the group occurs, the hydroxyl of a carboxyl not counted as one; None for no molecule."""
    return molecules.matches(smiles, FREE_HYDROXYL) if group == "hydroxyl" else published(smiles, group)
