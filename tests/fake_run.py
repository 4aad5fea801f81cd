"""`python -m graph.run` with quick engines: the same front door, graph, database and files; only engines are stand-ins.

They are real processes under the real contracts. Faults are asked for by variables named FAKE_..., which are handed to
the engines (see fake_axolotl.py and fake_vllm.py); FAKE_SCRIPT names plans of scripted_plans.py.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from graph.run import main
from graph.workshop import Workshop, asked
from memory.records import BaseModelCard, Task
from nodes.deps import Engines
from tests.score_engines import fake
from tests.scripted_plans import SCRIPTS
from tools.benchmarks.preparation import fetch
from tools.proposers import search
from tools.raw_data.store import store_of

CONFIG = {"hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 1000}


def workshop(task: Task, cache: Path, say: Callable[[str], None]) -> Workshop:
    """Quick engines, and a base model that the quick server knows."""
    faults = {name: value for name, value in os.environ.items() if name.startswith("FAKE_")}
    folder = cache / "base"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "quality.json").write_text(json.dumps({"quality": 0.1}))
    model = BaseModelCard(
        name=task.base_model,
        path=str(folder),
        chat_template="own",
        sha256="b" * 64,
        parameters=100_000,
        hidden_size=64,
        layers=2,
    )
    engines = Engines(axolotl=fake("axolotl", faults), vllm=fake("vllm", faults), lighteval=fake("lighteval", faults))
    locks = {"train": "t" * 64, "score": "s" * 64}
    propose = SCRIPTS.get(os.environ.get("FAKE_SCRIPT", ""), search.propose)
    store = store_of(task.data_dir, cache)
    raw_data = partial(fetch, asked(task, store), store, say)
    return Workshop(engines, model, "cpu", locks, propose, store=store, fetch=raw_data)


if __name__ == "__main__":
    sys.exit(main(equip=workshop))
