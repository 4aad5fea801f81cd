"""The files of a job on a node: sent before it begins, and what it makes of them brought back."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from memory.layout import disk
from memory.records import BaseModelCard
from tools.cluster.bench import NOT_BACK, PREPARED, Bench, FileSeen, Where
from tools.cluster.connection import RemoteBench
from tools.cluster.places import TEXTS, TEXTS_BACK, Places, inside, parsed, paths_in
from tools.engines import worker_io

PIECE = 8 * 1024 * 1024
"""Bytes of a file that travel at once."""
UNSENT = (NOT_BACK - {worker_io.REQUEST}) | {worker_io.RESULT, worker_io.FAILURE}


class Job:
    """A folder of ours, and its copy on the bench that it is worked on."""

    def __init__(self, bench: RemoteBench, folder: Path) -> None:
        self.bench, self.folder = bench, folder
        self.places = Places({})
        self.known: dict[str, FileSeen] = {}
        """Files that are the same on both sides, as they are there."""

    # --- out ----------------------------------------------------------------------------------------------------------

    def send(self) -> Where:
        """Send the folder as it is; it has the same name there."""
        where = self.bench.ask(Bench.where)
        self.places = Places({str(self.folder.parent): str(Path(where.folder).parent)})
        self._send_folder(where)
        return where

    def send_with_inputs(self, model: BaseModelCard) -> Where:
        """Send the folder and what its request names: inputs, and the base model where the node has none."""
        where = self.bench.ask(Bench.where)
        there = self.bench.ask(Bench.place_of, model.path, model.sha256, model.chat_template)
        if not there.has_it:
            partial = f"{where.inputs}/model"
            self._send_tree(Path(model.path), partial)
            self.bench.ask(Bench.keep_model, partial, there.folder)
        inputs = {path: f"{where.inputs}/{number:03}" for number, path in enumerate(self._inputs(model))}
        self.places = Places({str(self.folder): where.folder, model.path: there.folder, **inputs})
        for source, target in inputs.items():
            self._send_tree(Path(source), target)
        self._send_folder(where)
        return where

    def _send_folder(self, where: Where) -> None:
        """Send all that the folder holds but results, and remember what the node has then."""
        for file in sorted(self.folder.rglob("*"), key=lambda path: path.stat().st_mtime_ns):
            name = str(file.relative_to(self.folder))
            if file.is_file() and name not in UNSENT and not inside(name, PREPARED):
                self._send_file(file, f"{where.folder}/{name}")
        self.known = {each.path: each for each in self.bench.ask(Bench.files)}

    def _inputs(self, model: BaseModelCard) -> list[str]:
        """Files and folders that request and configuration name, and that lie elsewhere on this machine."""
        texts = [self.folder / worker_io.REQUEST, *self.folder.glob("*.yml")]
        named = {path for text in texts for path in paths_in(parsed(text.name, text.read_bytes()))}
        known = (str(self.folder), model.path)
        return sorted(path for path in named if Path(path).exists() and not any(inside(path, one) for one in known))

    def _send_tree(self, source: Path, target: str) -> None:
        """Send a file, or a folder with all that is in it."""
        if source.is_file():
            self._send_file(source, target)
        for file in sorted(source.rglob("*")) if source.is_dir() else ():
            if file.is_file():
                self._send_file(file, f"{target}/{file.relative_to(source)}")

    def _send_file(self, source: Path, target: str) -> None:
        """Send one file, in pieces; its paths are translated."""
        offset = 0
        for piece in pieces(source, self.places):
            self.bench.ask(Bench.write, target, offset, piece)
            offset += len(piece)

    # --- back ---------------------------------------------------------------------------------------------------------

    def bring(self) -> None:
        """Bring back what is new and remove what is gone, the oldest first: whatever marks files as whole comes after
        them. A file that vanishes meanwhile, with an older checkpoint, ends it; the next time brings the rest."""
        found = {each.path: each for each in self.bench.ask(Bench.files)}
        for name, seen in found.items():
            if self.known.get(name) != seen:
                if not self._bring_file(seen):
                    return
                self.known[name] = seen
        for name in () if self.keeps(found.keys()) else self.known.keys() - found.keys():
            del self.known[name]
            remove(self.folder / name, self.folder)

    def keeps(self, found: Collection[str]) -> bool:
        """Whether what is gone there, where only `found` is left, stays here for now."""
        return False

    def _bring_file(self, seen: FileSeen) -> bool:
        """Bring one file back; False where it is gone."""
        target = self.folder / seen.path
        partial = target.with_name(f"{target.name}.partial")
        with disk(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            with partial.open("wb") as out:
                for offset in range(0, seen.size, PIECE):
                    piece = self.bench.ask(Bench.read, seen.path, offset, min(PIECE, seen.size - offset))
                    if piece is None:
                        break
                    out.write(piece)
            if partial.stat().st_size != seen.size:
                partial.unlink()
                return False
            partial.chmod(seen.mode)
            if target.suffix in TEXTS_BACK:
                partial.write_bytes(self.places.here(target.name, partial.read_bytes()))
            partial.replace(target)
        return True


def pieces(source: Path, places: Places) -> Iterator[bytes]:
    """The content of a file as the node needs it; one piece at least."""
    if source.suffix in TEXTS:
        yield places.there(source.name, source.read_bytes())
        return
    with source.open("rb") as file:
        yield file.read(PIECE)
        while piece := file.read(PIECE):
            yield piece


def append(path: Path, data: bytes) -> None:
    """Add to a file. Raises StorageError."""
    if data:
        with disk(path), path.open("ab") as file:
            file.write(data)


def remove(path: Path, root: Path) -> None:
    """Remove a file, and the folders below `root` that are empty then."""
    path.unlink(missing_ok=True)
    for parent in path.parents:
        if parent == root or not parent.is_dir() or any(parent.iterdir()):
            return
        parent.rmdir()
