"""The properties that ChemCoTBench asks to raise, as functions of a molecule.

Three are formulas over RDKit's descriptors. Three are classifiers of binding (DRD2, JNK3, GSK3-beta) whose weights the
Therapeutics Data Commons serves and no package ships. Without the weights such an item cannot be scored, and is
refused: the published scorer gives 0 to everybody then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from memory.errors import InputError
from tools.benchmarks import molecules

BINDING = {"drd": "DRD2", "jnk": "JNK3", "gsk": "GSK3-beta"}
"""Subtasks whose oracle is a classifier, and the protein it is for."""
ESOL = {
    "intercept": 0.26121066137801696,
    "weight": -0.0066138847738667125,
    "logp": -0.7416739523408995,
    "rotatable": 0.003451545565957996,
    "aromatic": -0.42624840441316975,
}
"""Coefficients of ESOL refitted to RDKit's descriptors (github.com/PatWalters/solubility), which the authors use."""
LONGEST_RING = 6
"""A larger ring is penalised by its excess."""


def refuse_missing(subtask: str) -> None:
    """Raise InputError where the oracle of a subtask is missing."""
    if subtask in BINDING:
        raise InputError(
            f"ChemCoTBench's {subtask} items need a classifier of {BINDING[subtask]} binding, which is not here",
            "Leave these items out: logp, qed and solubility are scored without it.",
        )


def value(subtask: str, smiles: str) -> float | None:
    """The property of a molecule; None for no molecule. Raises InputError where the oracle is missing."""
    refuse_missing(subtask)
    molecule = molecules.parsed(smiles)
    return None if molecule is None else FORMULAS[subtask](molecule)


def penalised_logp(molecule: Any) -> float:
    """logP less what makes the molecule hard to make, each standardised over ZINC.

    Source: Gomez-Bombarelli et al. 2018 (arXiv:1610.02415) in the normalisation of Kusner et al. 2017
    (arXiv:1703.01925), which is what the Commons call LogP: Crippen's logP, minus Ertl and Schuffenhauer's synthetic
    accessibility (2009, J. Cheminform. 1:8), minus the excess of the longest ring over six.
    """
    from rdkit.Chem import Crippen
    from rdkit.Contrib.SA_Score import sascorer

    longest = max((len(ring) for ring in molecule.GetRingInfo().AtomRings()), default=0)
    terms = (
        (Crippen.MolLogP(molecule), 2.4570953396190123, 1.434324401111988),
        (-sascorer.calculateScore(molecule), -3.0525811293166134, 0.8335207024513095),
        (-max(longest - LONGEST_RING, 0), -0.0485696876403053, 0.2860212110245455),
    )
    return float(sum((term - mean) / deviation for term, mean, deviation in terms))


def drug_likeness(molecule: Any) -> float:
    """QED, 0 to 1 (Bickerton et al. 2012, Nature Chemistry 4:90)."""
    from rdkit.Chem import QED

    return float(QED.qed(molecule))


def solubility(molecule: Any) -> float:
    """Logarithm of the solubility in water in mol/l after ESOL (Delaney 2004, J. Chem. Inf. Comput. Sci. 44:1000)."""
    from rdkit.Chem import Crippen, Descriptors, Lipinski

    aromatic = sum(atom.GetIsAromatic() for atom in molecule.GetAtoms())
    return float(
        ESOL["intercept"]
        + ESOL["weight"] * Descriptors.MolWt(molecule)
        + ESOL["logp"] * Crippen.MolLogP(molecule)
        + ESOL["rotatable"] * Lipinski.NumRotatableBonds(molecule)
        + ESOL["aromatic"] * aromatic / molecule.GetNumAtoms()
    )


FORMULAS: dict[str, Callable[[Any], float]] = {
    "logp": penalised_logp,
    "qed": drug_likeness,
    "solubility": solubility,
}
"""Oracles that RDKit alone has."""
