"""What this machine has to give: processors, and free memory as a training will find it."""

from __future__ import annotations

import os
from pathlib import Path

from memory.errors import TrialError
from tools import process
from tools.engines.environments import Hardware

BF16_UNITS = ("amx_bf16", "avx512_bf16")
"""What multiplies bf16 matrices, as Linux calls it; the better first."""


def processors() -> str:
    """The processors that this process may use, in words, such as `2 x AMD EPYC with avx512_bf16`."""
    return f"{len(os.sched_getaffinity(0))} x {processor(Path('/proc/cpuinfo').read_text())}"


def processor(cpuinfo: str) -> str:
    """Model of the first processor, and what it multiplies bf16 matrices with."""
    fields = dict(line.split(":", 1) for line in cpuinfo.partition("\n\n")[0].splitlines() if ":" in line)
    known = {name.strip(): value.strip() for name, value in fields.items()}
    units = known.get("flags", "").split()
    unit = next((f" with {name}" for name in BF16_UNITS if name in units), " without a unit for bf16")
    return known.get("model name", "an unnamed processor") + unit


def free_memory(device: Hardware) -> int:
    """Bytes that a training can take: of the largest GPU, or of the machine. Raises TrialError (ENV)."""
    return free_gpu_memory() if device == "cuda" else free_machine_memory(Path("/proc/meminfo").read_text())


def free_machine_memory(meminfo: str) -> int:
    """Bytes that the kernel says can be had without swapping (`MemAvailable`). Raises TrialError (ENV)."""
    for line in meminfo.splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise TrialError("ENV", "the kernel does not say how much memory is free")


def free_gpu_memory() -> int:
    """Bytes free on the GPU with most of it, by nvidia-smi. Raises TrialError (ENV)."""
    code, output = process.output_of(["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits"])
    free = [int(line) for line in output.split() if line.strip().isdigit()]
    if code != 0 or not free:
        raise TrialError("ENV", f"nvidia-smi does not say how much memory is free: {output.strip()[:200]}")
    return max(free) * 2**20
