"""Files that a person may take from a run: a fixed table of them, copied out of its folder before they are served.

No path comes from the person, and neither the database nor the sealed split can be named.
"""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path

from graph.page.place import Place
from graph.page.safe_text import document
from memory.errors import InputError
from memory.layout import RunFolder, disk
from memory.records import Trial
from memory.state import State, winner

NEVER = ("run.duckdb", "sealed")
"""What is never handed out, whatever a record says."""


def offered(folder: RunFolder, state: State) -> dict[str, Path]:
    """What there is to take, by name: report, card, and of every trial adapter, configuration, rows and outputs."""
    best = winner(state)
    found: dict[str, Path] = {
        "report (Markdown)": folder.root / "report.md",
        "report (JSON)": folder.root / "report.json",
        "model card": folder.model / "README.md",
    }
    if best is not None:
        found |= _of_trial(folder, best, "best")
    for trial in reversed(state.get("trials", [])):
        found |= _of_trial(folder, trial, f"trial {trial.number}")
    return {name: path for name, path in found.items() if path.exists() and _ours(folder, path)}


def report(folder: RunFolder) -> str:
    """The report as Markdown; before it is written, a line that says so."""
    path = folder.root / "report.md"
    return document(path.read_text(encoding="utf-8")) if path.exists() else "The report is written when the run ends."


def _of_trial(folder: RunFolder, trial: Trial, whose: str) -> dict[str, Path]:
    found: dict[str, Path] = {}
    if trial.training and trial.training.adapter:
        found[f"{whose}: adapter (zip)"] = folder.resolve(trial.training.adapter)
    if trial.training:
        found[f"{whose}: Axolotl configuration"] = folder.root / "trials" / str(trial.number) / "train" / "axolotl.yml"
    if trial.dataset:
        found[f"{whose}: training rows"] = folder.resolve(trial.dataset.path)
    if trial.score:
        found[f"{whose}: validation outputs"] = folder.resolve(trial.score.outcomes)
    return found


def take(place: Place, folder: RunFolder, state: State, name: str) -> str:
    """A copy, which may be served, of what is offered under `name`; a folder becomes a ZIP file. Raises InputError for
    a name that is not offered, StorageError."""
    files = offered(folder, state)
    if name not in files:
        raise InputError(f"{name or 'nothing'} is not offered", "Choose one of the list.")
    source = files[name]
    return _zip(place, folder, source) if source.is_dir() else place.hand_out(folder, source)


def _zip(place: Place, folder: RunFolder, source: Path) -> str:
    """Weights hardly shrink, so they are stored as they are."""
    with disk(place.handed_out):
        target = Path(tempfile.mkdtemp(dir=place.handed_out)) / f"{folder.id}-{source.name}.zip"
        with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
            for path in sorted(source.rglob("*")):
                if path.is_file() and _ours(folder, path):
                    archive.write(path, path.relative_to(source.parent))
    return str(target)


def _ours(folder: RunFolder, path: Path) -> bool:
    """Whether a path lies in the run's folder, links followed, and is none of NEVER."""
    root, real = folder.root.resolve(), path.resolve()
    return real.is_relative_to(root) and real != root and not real.relative_to(root).parts[0].startswith(NEVER)
