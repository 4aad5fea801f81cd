"""What the machine says of itself."""

from __future__ import annotations

import pytest

from memory.errors import TrialError
from tools.machine import machine_memory, processor, processors

CPUINFO = """processor\t: 0
model name\t: AMD EPYC
flags\t\t: fpu avx512f avx512_bf16

processor\t: 1
model name\t: another
flags\t\t: fpu
"""


def test_a_processor_is_named_with_what_multiplies_bf16() -> None:
    assert processor(CPUINFO) == "AMD EPYC with avx512_bf16"
    assert processor(CPUINFO.replace("avx512f", "amx_bf16")) == "AMD EPYC with amx_bf16"
    assert processor(CPUINFO.replace(" avx512_bf16", "")) == "AMD EPYC without a unit for bf16"
    assert processor("") == "an unnamed processor without a unit for bf16"
    assert " x " in processors()


def test_memory_that_the_kernel_does_not_tell_is_an_error() -> None:
    assert machine_memory("MemTotal: 9 kB\nMemAvailable:  3 kB\n") == 3072
    assert machine_memory("MemTotal: 9 kB\nMemAvailable:  3 kB\n", "MemTotal") == 9216
    with pytest.raises(TrialError, match=r"does not say how much memory there is \(MemAvailable\)"):
        machine_memory("MemTotal: 9 kB\n")
