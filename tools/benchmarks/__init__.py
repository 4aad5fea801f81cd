"""The benchmarks, in one table. A new one is a file in this folder and a line here."""

from difflib import get_close_matches

from memory.errors import InputError
from tools.benchmarks.aiw import AIW
from tools.benchmarks.benchmark import Benchmark
from tools.benchmarks.calendar_arithmetic import CALENDAR_ARITHMETIC
from tools.benchmarks.family_relationships import FAMILY_RELATIONSHIPS
from tools.benchmarks.isomorphic_strings import ISOMORPHIC_STRINGS
from tools.benchmarks.needle_haystack import NEEDLE_HAYSTACK
from tools.benchmarks.spell_backward import SPELL_BACKWARD
from tools.benchmarks.syllogism import SYLLOGISM
from tools.benchmarks.word_sequence_reversal import WORD_SEQUENCE_REVERSAL

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
    )
}


def get(name: str) -> Benchmark:
    """The benchmark of that name. Raises InputError that names the nearest ones."""
    if name in BENCHMARKS:
        return BENCHMARKS[name]
    near = get_close_matches(name, BENCHMARKS, n=3, cutoff=0.4)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(BENCHMARKS)}."
    raise InputError(f"there is no benchmark {name!r}", hint)
