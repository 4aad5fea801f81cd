"""The benchmarks: ours in one table, where a new one is a file in this folder and a line here; and a person's own."""

from difflib import get_close_matches

from memory.errors import InputError
from memory.records import OwnTask, Task
from tools.benchmarks import lighteval_tasks
from tools.benchmarks.aime import AIME24, AIME25
from tools.benchmarks.aiw import AIW
from tools.benchmarks.benchmark import Benchmark
from tools.benchmarks.bioprobench.err import ERR
from tools.benchmarks.bioprobench.gen import GEN
from tools.benchmarks.bioprobench.ordering import ORD
from tools.benchmarks.bioprobench.pqa import PQA
from tools.benchmarks.calendar_arithmetic import CALENDAR_ARITHMETIC
from tools.benchmarks.chem_groups import CHEM_GROUPS
from tools.benchmarks.chem_rings import CHEM_RINGS
from tools.benchmarks.chemcotbench.mol_edit import MOL_EDIT
from tools.benchmarks.chemcotbench.mol_opt import MOL_OPT
from tools.benchmarks.chemcotbench.mol_und import MOL_UND
from tools.benchmarks.chemcotbench.reaction import REACTION
from tools.benchmarks.family_relationships import FAMILY_RELATIONSHIPS
from tools.benchmarks.finance_iq import FINANCE_IQ
from tools.benchmarks.isomorphic_strings import ISOMORPHIC_STRINGS
from tools.benchmarks.needle_haystack import NEEDLE_HAYSTACK
from tools.benchmarks.panorama.noc4pc import NOC4PC
from tools.benchmarks.panorama.par4pc import PAR4PC
from tools.benchmarks.panorama.pi4pc import PI4PC
from tools.benchmarks.spell_backward import SPELL_BACKWARD
from tools.benchmarks.syllogism import SYLLOGISM
from tools.benchmarks.tablebench.texts import DATA_ANALYSIS, FACT_CHECKING, NUMERICAL_REASONING
from tools.benchmarks.tablebench.visualization import VISUALIZATION
from tools.benchmarks.word_sequence_reversal import WORD_SEQUENCE_REVERSAL
from tools.raw_data.store import Store

BENCHMARKS: dict[str, Benchmark] = {
    benchmark.name: benchmark
    for benchmark in (
        SYLLOGISM,
        FAMILY_RELATIONSHIPS,
        AIW,
        ISOMORPHIC_STRINGS,
        CALENDAR_ARITHMETIC,
        SPELL_BACKWARD,
        NEEDLE_HAYSTACK,
        WORD_SEQUENCE_REVERSAL,
        CHEM_RINGS,
        CHEM_GROUPS,
        AIME24,
        AIME25,
        MOL_UND,
        MOL_EDIT,
        MOL_OPT,
        REACTION,
        FINANCE_IQ,
        GEN,
        ORD,
        ERR,
        PQA,
        PAR4PC,
        PI4PC,
        NOC4PC,
        DATA_ANALYSIS,
        FACT_CHECKING,
        NUMERICAL_REASONING,
        VISUALIZATION,
    )
}


def of(task: Task, store: Store | None = None) -> Benchmark:
    """The benchmark of a task, with the places where raw data lies. Raises InputError for an unknown name."""
    return named(task.benchmark, task.own, store)


def named(name: str, own: OwnTask | None, store: Store | None = None) -> Benchmark:
    """The person's own task, where there is one, else the benchmark of that name. Raises InputError for an unknown
    name."""
    if own is None:
        return get(name, store)
    # Own tasks and their metrics are built on this package, so that it cannot import them while it is imported itself.
    from tools.own_task.benchmark import benchmark_of

    return benchmark_of(own)


def get(name: str, store: Store | None = None) -> Benchmark:
    """The benchmark of ours of that name, or one of lighteval's (`lighteval:NAME`). One that is made of raw data, or
    graded elsewhere, can draw and grade once it has a store. Raises InputError that names the nearest ones."""
    if name in BENCHMARKS or name.startswith(lighteval_tasks.PREFIX):
        benchmark = BENCHMARKS.get(name) or lighteval_tasks.benchmark(name)
        return benchmark.located(store) if store else benchmark
    near = get_close_matches(name, BENCHMARKS, n=3, cutoff=0.4)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(BENCHMARKS)}."
    raise InputError(f"there is no benchmark {name!r}", hint)
