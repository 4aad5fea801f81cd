"""Molecules written as SMILES, through RDKit: whether one is a molecule at all, what it is made of, how alike two are.

RDKit is imported where it is first needed: it takes a second, and most benchmarks do without it. Its complaints about
what a model wrote are kept off the screen; here "no molecule" is None.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import ModuleType
from typing import Any, Literal

from memory.errors import SetupError

EXTRA = "rdkit==2026.9.1"
"""The release with which golds are made and the published figures were compared."""
LONGEST = 1000
"""Characters of a SMILES; what is longer is a runaway output, and no molecule of any benchmark."""
CACHED = 4096
"""Molecules and patterns that are kept parsed."""

Fingerprint = Literal["morgan_1024", "morgan_2048", "morgan_counts", "maccs", "rdkit"]
"""Morgan fingerprints have radius 2, folded to so many bits, or unfolded counts; `rdkit` are paths of 1 to 7 bonds."""


def parsed(smiles: str) -> Any | None:
    """RDKit's molecule; None where the text is empty or no molecule that RDKit accepts.

    RDKit reads up to the first blank and takes the rest for a name: "I do not know" is iodine to it. Here a text with
    blanks is no molecule; `up_to_blank` is for the published scorers, which hand RDKit whatever they found.
    """
    text = smiles.strip()
    return _parsed(text) if 0 < len(text) <= LONGEST and len(text.split()) == 1 else None


def up_to_blank(text: str) -> str:
    """What RDKit reads of a text."""
    return (text.split(maxsplit=1) or [""])[0]


def canonical(smiles: str, *, stereo: bool = True) -> str | None:
    """The one SMILES that RDKit writes for this molecule; None for no molecule."""
    molecule = parsed(smiles)
    if molecule is None:
        return None
    written: str = rdkit().Chem.MolToSmiles(molecule, isomericSmiles=stereo)
    return written


def parts(smiles: str) -> tuple[str, ...] | None:
    """The molecules of a mixture (`A.B`), canonical and sorted, each as often as it occurs; None for no molecule."""
    whole = canonical(smiles)
    return None if whole is None else tuple(sorted(whole.split(".")))


def scaffold(smiles: str) -> str | None:
    """The Murcko scaffold (Bemis and Murcko 1996, J. Med. Chem. 39:2887): rings and what links them; empty for a
    molecule without rings, None for no molecule."""
    molecule = parsed(smiles)
    if molecule is None:
        return None
    from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

    with _quiet():
        found: str = MurckoScaffoldSmiles(mol=molecule)
    return found


def inchi(smiles: str) -> str | None:
    """The molecule's InChI; None for no molecule."""
    molecule = parsed(smiles)
    if molecule is None:
        return None
    with _quiet():
        written: str = rdkit().Chem.MolToInchi(molecule)
    return written


def tanimoto(one: str, other: str, fingerprint: Fingerprint) -> float:
    """Tanimoto similarity of two fingerprints, 0 to 1; 0 where one is no molecule."""
    mine, theirs = _fingerprint(one, fingerprint), _fingerprint(other, fingerprint)
    if mine is None or theirs is None:
        return 0.0
    similarity: float = rdkit().DataStructs.TanimotoSimilarity(mine, theirs)
    return similarity


def matches(smiles: str, smarts: str) -> int | None:
    """How often a SMARTS pattern occurs in the molecule; None for no molecule."""
    molecule = parsed(smiles)
    return None if molecule is None else len(molecule.GetSubstructMatches(_pattern(smarts)))


def rings(smiles: str) -> int | None:
    """Rings of the smallest set of smallest rings; None for no molecule."""
    molecule = parsed(smiles)
    return None if molecule is None else int(molecule.GetRingInfo().NumRings())


def rdkit() -> ModuleType:
    """The package. Raises SetupError where it is not installed."""
    try:
        import rdkit
        from rdkit import Chem, DataStructs  # noqa: F401  attributes of the package from here on
    except ImportError as error:
        raise SetupError(
            f"a benchmark about molecules cannot be graded without {EXTRA}",
            "Install it: python -m tools.benchmarks prepare NAME",
        ) from error
    package: ModuleType = rdkit
    return package


@lru_cache(maxsize=CACHED)
def _parsed(smiles: str) -> Any | None:
    with _quiet():
        return rdkit().Chem.MolFromSmiles(smiles)


@lru_cache(maxsize=CACHED)
def _pattern(smarts: str) -> Any:
    pattern = rdkit().Chem.MolFromSmarts(smarts)
    if pattern is None:
        raise ValueError(f"{smarts!r} is no SMARTS pattern")
    return pattern


@lru_cache(maxsize=CACHED)
def _fingerprint(smiles: str, kind: Fingerprint) -> Any | None:
    molecule = parsed(smiles)
    if molecule is None:
        return None
    with _quiet():
        if kind == "maccs":
            from rdkit.Chem import MACCSkeys

            return MACCSkeys.GenMACCSKeys(molecule)
        generator = _generator(kind)
        return (
            generator.GetSparseCountFingerprint(molecule)
            if kind == "morgan_counts"
            else (generator.GetFingerprint(molecule))
        )


@lru_cache(maxsize=8)
def _generator(kind: Fingerprint) -> Any:
    rdkit()
    from rdkit.Chem import rdFingerprintGenerator

    if kind == "rdkit":
        return rdFingerprintGenerator.GetRDKitFPGenerator()
    bits = {"morgan_1024": 1024, "morgan_2048": 2048, "morgan_counts": 2048}[kind]
    return rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=bits)


@contextmanager
def _quiet() -> Iterator[None]:
    """RDKit says nothing meanwhile."""
    rdkit()
    from rdkit import rdBase

    with rdBase.BlockLogs():
        yield
