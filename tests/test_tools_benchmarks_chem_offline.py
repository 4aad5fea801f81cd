"""Questions about molecules that RDKit ships: the golds, the balance of answers, and splits by molecule."""

from collections import Counter
from itertools import islice

import pytest

from tools.benchmarks.benchmark import Benchmark, Item
from tools.benchmarks.chem_groups import CHEM_GROUPS
from tools.benchmarks.chem_rings import CHEM_RINGS
from tools.benchmarks.nci_molecules import molecules_of
from tools.benchmarks.splits import Sizes

BOTH = pytest.mark.parametrize("benchmark", [CHEM_RINGS, CHEM_GROUPS], ids=["rings", "groups"])


def smiles_of(item: Item) -> str:
    return item.prompt.split("\n")[1]


@BOTH
def test_a_molecule_is_in_one_split_whatever_the_seed(benchmark: Benchmark) -> None:
    held_out = {smiles_of(item) for seed in (0, 1) for item in islice(benchmark.draw("test", seed), 200)}
    trained = {smiles_of(item) for item in islice(benchmark.draw("train", 2), 500)}
    assert not held_out & trained


def test_there_are_enough_molecules_for_the_usual_splits() -> None:
    sizes = Sizes()
    for split in ("train", "validation", "test"):
        assert len(molecules_of(split)) >= getattr(sizes, split)


def test_golds_are_what_a_chemist_counts() -> None:
    rings = {smiles_of(item): item.answer for item in CHEM_RINGS.draw("train", 0)}
    # Ferrocene and cages aside, what is in the set: phenoxathiin, allyl ether of a xylenol, benzoquinones.
    assert rings["c1ccc2c(c1)Oc1ccccc1S2"] == "3"
    assert rings["C=CCOc1cc(C)ccc1C"] == "1"
    groups = {(smiles_of(item), item.subset): item.answer for item in CHEM_GROUPS.draw("train", 0)}
    assert groups["C=CCOc1cc(C)ccc1C", "benzene_ring"] == "1"
    assert groups["C=CCOc1cc(C)ccc1C", "hydroxyl"] == "0"


@BOTH
def test_no_count_is_the_answer_to_half_of_the_questions(benchmark: Benchmark) -> None:
    answers = Counter(item.answer for item in islice(benchmark.draw("train", 0), 2000))
    assert max(answers.values()) < 1000


def test_an_unreadable_count_is_off_by_one_at_least() -> None:
    item = Item(id="x", prompt="?", answer="0", reference="{}")
    assert CHEM_RINGS.grade("none", item).values["error"] == 1
    assert CHEM_RINGS.grade("3", item).values["error"] == 3
    assert CHEM_RINGS.grade("3 rings", item).answer is None
