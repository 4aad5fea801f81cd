"""What this machine has to give: processors and memory, all of it and as a training will find it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from memory.errors import TrialError
from tools import process
from tools.engines.environments import Hardware, detect_hardware

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
    return gpu_memory("free") if device == "cuda" else machine_memory(Path("/proc/meminfo").read_text())


def total_memory(device: Hardware) -> int:
    """Bytes of the largest GPU, or of the machine, whatever is in use. Raises TrialError (ENV)."""
    return gpu_memory("total") if device == "cuda" else machine_memory(Path("/proc/meminfo").read_text(), "MemTotal")


def machine_memory(meminfo: str, what: str = "MemAvailable") -> int:
    """Bytes that the kernel names: those that can be had without swapping, or all. Raises TrialError (ENV)."""
    for line in meminfo.splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) * 1024
    raise TrialError("ENV", f"the kernel does not say how much memory there is ({what})")


def gpu_memory(what: Literal["free", "total"]) -> int:
    """Bytes, free or all, of that GPU of ours with most of them, by nvidia-smi. Raises TrialError (ENV)."""
    ours = process.child_environment().get("CUDA_VISIBLE_DEVICES")
    argv = ["nvidia-smi", f"--query-gpu=memory.{what}", "--format=csv,noheader,nounits"]
    code, output = process.output_of([*argv, "-i", ours] if ours else argv)
    found = [int(line) for line in output.split() if line.strip().isdigit()]
    if code != 0 or not found:
        raise TrialError("ENV", f"nvidia-smi does not say how much memory is {what}: {output.strip()[:200]}")
    return max(found) * 2**20


def gpus() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them; none without an NVIDIA driver."""
    if detect_hardware() == "cpu":
        return []
    ours = process.child_environment().get("CUDA_VISIBLE_DEVICES")
    if ours is not None:
        return [each.strip() for each in ours.split(",") if each.strip()]
    code, output = process.output_of(["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"])
    return output.split() if code == 0 else []
