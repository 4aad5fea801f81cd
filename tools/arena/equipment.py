"""What a session works with: engines, the base model, the machine."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from memory.records import BaseModelCard
from tools.arena.answers import SystemInfo
from tools.benchmarks.splits import Sizes
from tools.engines import environments
from tools.engines.contract import Engine
from tools.machine import free_memory, processors, total_memory
from tools.raw_data.store import Store
from tools.sandbox.isolation import isolation
from tools.training.config import Device

LIBRARIES = re.compile(r"(axolotl|torch|transformers|vllm(?:-cpu)?|lighteval)==(.+)")


@dataclass(frozen=True)
class Equipment:
    """Engines and model, ready for use."""

    axolotl: Engine
    vllm: Engine
    lighteval: Engine
    model: BaseModelCard
    device: Device
    sizes: Sizes = field(default_factory=Sizes)
    """Items in the splits of a session whose benchmark leaves that open."""
    store: Store | None = None
    """Where raw data lies; None where no benchmark has any."""


def system_info(device: Device, place: Path) -> SystemInfo:
    """This machine, the disk of `place`, and what the engines' lock files pin. Raises TrialError (ENV)."""
    specs = environments.specs(device).values()
    pins = [LIBRARIES.fullmatch(line) for spec in specs for line in environments.pinned(spec.lock)]
    return SystemInfo(
        processors=processors(),
        memory_bytes=total_memory(device),
        memory_free_bytes=free_memory(device),
        device=device,
        disk_free_bytes=shutil.disk_usage(place).free,
        engines={pin[1]: pin[2] for pin in pins if pin},
        sandbox=isolation().says,
    )
